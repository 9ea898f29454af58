// The host's end of a link between a GPU and a rank of another host.
//
// The kernel sees an ordinary link: a ring of descriptors, payload slots, and a counter of consumed messages. Only, all
// of it lies in pinned memory of this host, and the other end is a relay: the ring is the queue between the kernel and
// the proxy's thread. A relay passes each message on to the network's link, or from it, one for one, so both
// links count alike.
//
// No payload is copied on the way. The kernel stores to a slot, and the engine sends from there; the slot is free when
// the engine needs it no more. On the other side the relay posts free slots for the messages to come, the engine
// receives into them, and the kernel folds from there. What an engine receives elsewhere takes one copy: over verbs,
// messages of up to 8 KiB.
//
// Slots may lie in the GPU's memory, if the engine can send from there and receive there (GPUDirect RDMA). Ring and
// counter stay in pinned memory. Before the relay tells the kernel of a message, it makes sure that the GPU sees what
// the network has written (Gpu::flush_rdma).
#pragma once

#include <cstdint>
#include <memory>

#include "exec/gpu/pinned.hpp"
#include "link/host_memory.hpp"
#include "link/link.hpp"
#include "transports/transport.hpp"

namespace tutti::exec::gpu {

/// Ring, counter and slots of a link; words are zeroed. The device addresses them as its links say.
class RelayMemory {
 public:
  enum class Slots : uint8_t { OnHost, OnDevice };
  /// Throws Error(OutOfMemory).
  RelayMemory(const Gpu& gpu, uint64_t slot_bytes, Slots slots = Slots::OnHost);
  /// Of reserved memory; `device`: for slots that lie there, else null.
  RelayMemory(const Gpu& gpu, uint64_t slot_bytes, Reserve& host, Reserve* device);
  /// Registers the slots with the engine that sends from them, or (ReadWrite) receives there. Throws what that throws.
  void register_with(transports::Transport& engine, transports::MemoryUse use);
  /// The two ends of the link: the device's, or the host's.
  link::OutLink writer(Rank peer, bool of_device) const;
  link::InLink reader(Rank peer, bool of_device) const;
  uint64_t slot_bytes() const { return slot_bytes_; }
  /// As the engine has it; so has the device, if it lies there.
  unsigned char* slot(uint64_t index) const { return slots_.get() + index * slot_bytes_; }
  /// The number of the slot that begins there; none: kPushSlots.
  uint64_t slot_at(const unsigned char* data) const;
  /// Where the device has what lies in a slot.
  unsigned char* for_device(const unsigned char* in_slot) const { return device_.slots + (in_slot - slots_.get()); }
  /// After this the device sees what the network has written to slots.
  void order_writes() const;
  const Gpu& gpu() const { return gpu_; }
  Slots where() const { return where_; }
  std::shared_ptr<const void> slots() const { return slots_; }

 private:
  struct View {
    unsigned char *words, *slots;
  };
  RelayMemory(const Gpu& gpu, uint64_t slot_bytes, Slots slots, std::shared_ptr<unsigned char> words,
              std::shared_ptr<unsigned char> in_slots);
  View view(bool of_device) const;
  const Gpu& gpu_;
  const uint64_t slot_bytes_;
  const Slots where_;
  const std::shared_ptr<unsigned char> words_, slots_;  // words: the ring, then the counter
  View device_{};
  transports::Registration registration_;
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
  /// `copies`: where slots stay posted (InLink::keeps_posted), for messages that arrive elsewhere.
  InRelay(std::unique_ptr<RelayMemory> memory, const link::InLink& network, std::unique_ptr<RelayMemory> copies);
  link::InLink device_end() const { return memory_->reader(network_.peer, true); }
  bool progress();

 private:
  /// A slot is free, or posted, or holds a message.
  struct Slot {
    bool posted = false;
    uint64_t held = 0;  // the count of consumed messages that frees it
  };
  bool pass_on(const link::Header& header, const link::Arrival& arrival);
  bool copy(const link::Header& header, const unsigned char* from);
  void publish(const link::Header& header, const unsigned char* device_address, uint64_t& held);
  void post_slots();
  bool is_free(const Slot& slot) const { return !slot.posted && device_.acked >= slot.held; }
  const std::unique_ptr<RelayMemory> memory_;
  link::InLink network_;  // `next`: consumed by the device
  link::OutLink device_;  // `next`: passed on
  uint64_t posted_ = 0;   // number of the next message for which a slot can be posted
  Slot slots_[link::kPushSlots];
  const std::unique_ptr<RelayMemory> copies_;
  uint64_t copies_held_[link::kPushSlots] = {};
};

}  // namespace tutti::exec::gpu
