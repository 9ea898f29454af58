// The example of a transport module: threads of one process, with links placed as between GPUs and over RDMA. Ring and
// payload slots lie with the reader, which polls its own memory; the counter of consumed messages lies with the writer.
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "base/log.hpp"
#include "modules/registrations.hpp"
#include "transports/transport.hpp"

namespace tutti::transports {
namespace {

#ifndef PUSH_NAME
#define PUSH_NAME "push"
#endif

constexpr uint64_t kPushBytes = 1 << 20;  // of a slot: the longest message

/// What the reader owns: the writer stores to it.
struct ReaderMemory {
  alignas(link::kStride) unsigned char ring[link::kCapacity * link::kLine] = {};
  std::unique_ptr<unsigned char[]> slots{new unsigned char[link::kPushSlots * kPushBytes]};  // touched as it is used
};
/// What the writer owns: the reader stores to it.
struct Counter {
  alignas(link::kStride) uint64_t consumed = 0;
};
struct Link {
  ReaderMemory memory;
  Counter counter;
};

/// The links of this process, by communicator, ends and link lane. The first end makes the memory; it is freed when
/// both ends are gone.
std::shared_ptr<Link> link_of(const std::string& communicator, Rank from, Rank to, uint32_t link_lane) {
  static std::mutex mutex;
  static auto* const kLinks = new std::map<std::tuple<std::string, Rank, Rank, uint32_t>, std::weak_ptr<Link>>;
  const std::lock_guard lock(mutex);
  std::erase_if(*kLinks, [](const auto& entry) { return entry.second.expired(); });
  auto& entry = (*kLinks)[{communicator, from, to, link_lane}];
  auto known = entry.lock();
  if (known == nullptr) entry = known = std::make_shared<Link>();
  return known;
}

class Push final : public Transport {
 public:
  explicit Push(const Context& context) : wireup_(*context.wireup) { log_debug("push: rank {}", wireup_.rank()); }

  const char* name() const override { return PUSH_NAME; }
  bool is_engine() const override { return false; }

  Reach probe(Rank peer) const override {
    if (wireup_.process_id(peer) != wireup_.process_id(wireup_.rank())) {
      return {.ok = false, .why_not = "another process"};
    }
    return {.ok = true, .alpha = 300e-9, .beta = 1 / 6e9};
  }

  Capabilities capabilities(Rank, const Word&) const override { return {.out = {.push_bytes = kPushBytes}, .in = {}}; }
  uint64_t longest_message() const override { return kPushBytes; }

  link::OutLink connect_out(Rank peer, uint32_t link_lane, Deadline) override {
    Link& link = *links_.emplace_back(link_of(wireup_.name(), wireup_.rank(), peer, link_lane));
    return {.ring = link.memory.ring,
            .consumed = &link.counter.consumed,
            .arena = link.memory.slots.get(),
            .push_bytes = kPushBytes,
            .peer = peer};
  }
  link::InLink connect_in(Rank peer, uint32_t link_lane, Deadline) override {
    Link& link = *links_.emplace_back(link_of(wireup_.name(), peer, wireup_.rank(), link_lane));
    return {.ring = link.memory.ring,
            .consumed = &link.counter.consumed,
            .arena = link.memory.slots.get(),
            .arena_bytes = link::kPushSlots * kPushBytes,
            .peer = peer};
  }

  Registration register_memory(const void* data, uint64_t bytes, MemoryUse use) override {
    return registrations_.acquire(data, bytes, use);
  }

 private:
  Wireup& wireup_;
  std::vector<std::shared_ptr<Link>> links_;
  push::Registrations registrations_;
};

const TransportRegistration push({.name = PUSH_NAME,
                                  .summary = "threads of one process; writers push into memory of their readers",
                                  .preference = 90,
                                  .make = [](const Context& context) -> std::unique_ptr<Transport> {
                                    return std::make_unique<Push>(context);
                                  }});

}  // namespace
}  // namespace tutti::transports
