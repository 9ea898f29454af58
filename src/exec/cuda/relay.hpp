// The host's end of a link between a GPU and a rank of another host.
//
// The kernel sees an ordinary link: a ring of descriptors, payload slots, and a counter of consumed messages. Only, all
// of it lies in pinned memory of this host, and the other end is a relay: the ring is the queue between the kernel and
// the proxy's thread. A relay passes each message on to the network's link, or from it, one for one, so both
// links count alike.
//
// No payload is copied on the way. The kernel stores to a slot, and the engine sends from there; the slot is free when
// the engine needs it no more. On the other side the relay posts free slots for the messages to come, the engine
// receives into them, and the kernel folds from there. (An engine that does not take posted slots makes it one copy.)
#pragma once

#include <cstdint>
#include <memory>

#include "exec/cuda/pinned.hpp"
#include "link/host_memory.hpp"
#include "link/link.hpp"

namespace tutti::exec::cuda {

/// Ring, counter and slots of a link, zeroed. The device addresses them as its links say.
class RelayMemory {
 public:
  /// Throws Error(OutOfMemory).
  RelayMemory(const tutti::cuda::Device& device, uint64_t slot_bytes);
  /// The two ends of the link: the device's, or the host's.
  link::OutLink writer(Rank peer, bool of_device) const;
  link::InLink reader(Rank peer, bool of_device) const;
  uint64_t slot_bytes() const { return slot_bytes_; }
  unsigned char* slot(uint64_t index) const { return slots_.get() + index * slot_bytes_; }

 private:
  struct View {
    unsigned char *words, *slots;
  };
  View view(bool of_device) const;
  const uint64_t slot_bytes_;
  const std::shared_ptr<unsigned char> words_, slots_;  // words: the ring, then the counter
  View device_{};
};

/// Messages of the device go to the network.
class OutRelay {
 public:
  OutRelay(std::unique_ptr<RelayMemory> memory, const link::OutLink& network);
  link::OutLink device_end() const { return memory_->writer(network_.peer, true); }
  /// Passes on what has come; true if anything moved.
  bool progress();
  /// Has every message been passed on to the network's link?
  bool empty() const;

 private:
  const std::unique_ptr<RelayMemory> memory_;
  link::InLink device_;
  link::OutLink network_;
};

/// Messages of the network go to the device.
class InRelay {
 public:
  InRelay(std::unique_ptr<RelayMemory> memory, const link::InLink& network);
  link::InLink device_end() const { return memory_->reader(network_.peer, true); }
  bool progress();

 private:
  bool pass_on(const link::Header& header, const link::Arrival& arrival);
  bool has_slot(uint64_t message) const { return device_.acked >= held_[message % link::kPushSlots]; }
  const std::unique_ptr<RelayMemory> memory_;
  link::InLink network_;                  // `next`: consumed by the device
  link::OutLink device_;                  // `next`: passed on
  uint64_t posted_ = 0;                   // messages that have a posted slot: those before it
  uint64_t held_[link::kPushSlots] = {};  // by slot: the count of consumed messages that frees it
};

}  // namespace tutti::exec::cuda
