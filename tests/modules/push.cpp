// The example of a transport module: an engine between threads of one process. Writers push messages into memory of
// their readers, as RDMA does.
//
// The executor publishes into a ring that belongs to its own rank. progress() copies each payload into a slot of the
// link's memory, publishes it in the ring there, which the reader polls, and consumes it in the first ring.
//
//   writer's executor ──► own ring ──► progress() ──► slots and ring of the link ◄── reader's executor
#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>

#include "base/log.hpp"
#include "link/host_memory.hpp"
#include "modules/registrations.hpp"
#include "transports/transport.hpp"

namespace tutti::transports {
namespace {

using link::HostWire;

/// A link's memory on the reader's side. Message m lies in slot m % kCapacity; the writer's end of the ring has room
/// for message m only when message m − kCapacity is consumed, so the slot is free.
struct Landing {
  link::LinkMemory ring{};
  std::array<std::vector<unsigned char>, link::kCapacity> slots;
};

/// The links of this process, by communicator, ends and link lane. The first end makes the memory; it is freed when
/// both ends are gone.
std::shared_ptr<Landing> landing(const std::string& communicator, Rank from, Rank to, uint32_t link_lane) {
  static std::mutex mutex;
  static auto* const kLinks = new std::map<std::tuple<std::string, Rank, Rank, uint32_t>, std::weak_ptr<Landing>>;
  const std::lock_guard lock(mutex);
  std::erase_if(*kLinks, [](const auto& entry) { return entry.second.expired(); });
  auto& entry = (*kLinks)[{communicator, from, to, link_lane}];
  auto known = entry.lock();
  if (known == nullptr) entry = known = std::make_shared<Landing>();
  return known;
}

/// The writer's half of one link.
class Pusher {
 public:
  Pusher(std::shared_ptr<Landing> to, Rank peer) : to_(std::move(to)) {
    from_ = {.ring = ring_->ring, .consumed = &ring_->consumed, .peer = peer, .addresses = true};
    into_ = {.ring = to_->ring.ring, .consumed = &to_->ring.consumed, .peer = peer};
  }

  /// What the executor writes to. Without an arena, payloads are published by address.
  link::OutLink link() const { return {.ring = ring_->ring, .consumed = &ring_->consumed, .peer = from_.peer}; }

  bool progress() {
    bool moved = false;
    link::Header header{};
    link::Arrival arrival;
    while (!stopped_ && HostWire::poll(from_, header, arrival) == link::Poll::Ready && HostWire::can_publish(into_)) {
      if (header.where == link::Where::Inline) {
        HostWire::publish_inline(into_, header.tag, arrival.data, header.length);
      } else {
        auto& slot = to_->slots[into_.next % link::kCapacity];
        slot.assign(arrival.data, arrival.data + header.length);
        HostWire::publish_staged(into_, header.tag, slot.data(), header.length);
      }
      HostWire::consume(from_, arrival);
      moved = true;
    }
    return moved;
  }
  bool waiting() const {
    link::Header header{};
    link::Arrival arrival;
    return !stopped_ && HostWire::poll(from_, header, arrival) != link::Poll::Empty;
  }
  void stop() {
    stopped_ = true;
    HostWire::close(from_);  // all messages count as consumed
  }

 private:
  const std::shared_ptr<Landing> to_;
  std::unique_ptr<link::LinkMemory> ring_ = std::make_unique<link::LinkMemory>();
  link::InLink from_;
  link::OutLink into_;
  bool stopped_ = false;
};

class Push final : public Transport {
 public:
  explicit Push(const Context& context) : wireup_(*context.wireup) { log_debug("push: rank {}", wireup_.rank()); }

  const char* name() const override { return "push"; }
  bool is_engine() const override { return true; }

  Reach probe(Rank peer) const override {
    if (wireup_.process_id(peer) != wireup_.process_id(wireup_.rank())) {
      return {.ok = false, .why_not = "another process"};
    }
    return {.ok = true, .alpha = 300e-9, .beta = 1 / 6e9};
  }

  /// The engine reads outgoing messages where they lie.
  Capabilities capabilities(Rank, const Word&) const override { return {.out = {.address = true}, .in = {}}; }

  link::OutLink connect_out(Rank peer, uint32_t link_lane, Deadline) override {
    return pushers_.emplace_back(landing(wireup_.name(), wireup_.rank(), peer, link_lane), peer).link();
  }
  link::InLink connect_in(Rank peer, uint32_t link_lane, Deadline) override {
    landings_.push_back(landing(wireup_.name(), peer, wireup_.rank(), link_lane));
    link::LinkMemory& memory = landings_.back()->ring;
    return {.ring = memory.ring, .consumed = &memory.consumed, .peer = peer, .addresses = true};
  }

  Registration register_memory(const void* data, uint64_t bytes, MemoryUse use) override {
    return registrations_.acquire(data, bytes, use);
  }

  Status progress(bool& moved) override {
    moved = false;
    for (Pusher& pusher : pushers_) moved = pusher.progress() || moved;
    return {};
  }
  bool flushed() const override {
    return std::none_of(pushers_.begin(), pushers_.end(), [](const Pusher& p) { return p.waiting(); });
  }
  void stop() override {
    for (Pusher& pusher : pushers_) pusher.stop();
  }

 private:
  Wireup& wireup_;
  std::deque<Pusher> pushers_;
  std::vector<std::shared_ptr<Landing>> landings_;
  push::Registrations registrations_;
};

const TransportRegistration push({.name = "push",
                                  .summary = "threads of one process; writers push into memory of their readers",
                                  .preference = 90,
                                  .make = [](const Context& context) -> std::unique_ptr<Transport> {
                                    return std::make_unique<Push>(context);
                                  }});

}  // namespace
}  // namespace tutti::transports
