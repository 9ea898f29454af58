// Links between threads of one process: the ring is ordinary memory, and any buffer can be read in place.
#include <deque>
#include <map>
#include <mutex>
#include <tuple>

#include "link/host_ends.hpp"
#include "topo/constants.hpp"
#include "transports/transport.hpp"

namespace tutti::transports {
namespace {

/// The links of this process, by communicator, ends and link lane. The first end creates the memory; it is freed when
/// both ends are gone.
class LinkTable {
 public:
  using Key = std::tuple<std::string, Rank, Rank, uint32_t>;

  std::shared_ptr<link::LinkMemory> memory(const Key& key) {
    const std::lock_guard lock(mutex_);
    auto& entry = links_[key];
    if (auto known = entry.lock()) return known;
    auto made = std::shared_ptr<link::LinkMemory>(new link::LinkMemory{}, [this, key](link::LinkMemory* gone) {
      forget(key);
      delete gone;
    });
    entry = made;
    return made;
  }
  static LinkTable& instance() {
    static LinkTable* table = new LinkTable;  // never destroyed: static objects may still hold links
    return *table;
  }

 private:
  void forget(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto found = links_.find(key);
    if (found != links_.end() && found->second.expired()) links_.erase(found);
  }

  std::mutex mutex_;
  std::map<Key, std::weak_ptr<link::LinkMemory>> links_;
};

class Local final : public Transport {
 public:
  explicit Local(const Context& context) : wireup_(*context.wireup) {}

  const char* name() const override { return "local"; }
  bool is_engine() const override { return false; }

  Reach probe(Rank peer) const override {
    if (wireup_.process_id(peer) != wireup_.process_id(wireup_.rank()))
      return {.ok = false, .why_not = "another process"};
    return {.ok = true, .alpha = machine_constants().local_alpha, .beta = machine_constants().local_beta};
  }

  Capabilities capabilities(Rank, const Word&) const override {
    constexpr link::Access kAccess{.address = true, .cooperative = true};
    return {.out = kAccess, .in = kAccess, .reads = ReadAccess::Direct};
  }

  link::OutLink connect_out(Rank peer, uint32_t link_lane, Deadline) override {
    link::LinkMemory* const memory = memory_of(wireup_.rank(), peer, link_lane);
    return {.ring = memory->ring,
            .consumed = &memory->consumed,
            .peer = peer,
            .host = &writers_.emplace_back(link::HostWriter{.memory = memory})};
  }
  link::InLink connect_in(Rank peer, uint32_t link_lane, Deadline) override {
    link::LinkMemory* const memory = memory_of(peer, wireup_.rank(), link_lane);
    return {.ring = memory->ring,
            .consumed = &memory->consumed,
            .peer = peer,
            .addresses = true,
            .host = &readers_.emplace_back(link::HostReader{.memory = memory})};
  }

 private:
  link::LinkMemory* memory_of(Rank from, Rank to, uint32_t link_lane) {
    memory_.push_back(LinkTable::instance().memory({wireup_.name(), from, to, link_lane}));
    return memory_.back().get();
  }

  Wireup& wireup_;
  std::vector<std::shared_ptr<link::LinkMemory>> memory_;
  std::deque<link::HostWriter> writers_;
  std::deque<link::HostReader> readers_;
};

const TransportRegistration local({.name = "local",
                                   .summary = "threads of one process; every buffer is read in place",
                                   .preference = 10,
                                   .make = [](const Context& context) -> std::unique_ptr<Transport> {
                                     return std::make_unique<Local>(context);
                                   }});

}  // namespace
}  // namespace tutti::transports
