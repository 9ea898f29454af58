// A queue pair to one peer, over which this rank writes and reads what the peer exposes.
//
// Short sources are sent inline or copied into a slot, registered memory of the queue's own, so that write() need not
// wait for their arrival; a silent peer keeps no slot from others. Long ones are sent from where they lie,
// if the device can register them; then write() waits until the device needs them no more.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "base/rank.hpp"
#include "base/status.hpp"
#include "transports/remote_memory.hpp"
#include "transports/verbs/nic.hpp"
#include "transports/verbs/rdma_device.hpp"

namespace tutti::transports::verbs {

/// What the two ends tell each other: the one that accesses memory first.
struct RdmaGreeting {
  static constexpr uint64_t kMagic = 0x31616d722d626976;  // "vib-rma1"
  uint64_t magic = kMagic;
  NicAddress nic;
  QueueAddress queue;
  uint32_t reads = 1;  ///< reads and atomic steps that may be under way; the answer has no more than the offer
  RemoteAtomics atomics = RemoteAtomics::None;
  unsigned char padding[7] = {};
};

/// Reads one. Throws Error(ProtocolError) that says what is wrong with it.
RdmaGreeting read_rdma_greeting(const std::string& bytes);

class RdmaQueue final : public RemoteQueue {
 public:
  RdmaQueue(RdmaDevice& device, Rank peer);
  ~RdmaQueue() override;
  RdmaQueue(const RdmaQueue&) = delete;
  RdmaQueue& operator=(const RdmaQueue&) = delete;

  std::string offer() override;
  void connect(const std::string& answer) override;
  RemoteAtomics atomics() const override { return atomics_; }

  void write(std::span<const std::byte> source, const RemoteKey& key, uint64_t offset, RemoteWait& wait) override;
  void read(std::span<std::byte> into, const RemoteKey& key, uint64_t offset, RemoteWait& wait) override;
  void count(const RemoteKey& key, uint64_t offset, RemoteWait& wait) override;
  uint64_t add(uint64_t operand, const RemoteKey& key, uint64_t offset, RemoteWait& wait) override;
  uint64_t compare_swap(uint64_t expected, uint64_t desired, const RemoteKey& key, uint64_t offset,
                        RemoteWait& wait) override;
  void flush(const RemoteKey& key, RemoteWait& wait) override;

  // ---- for the device
  void complete(const Completion& completion);

 private:
  /// A work request on the bytes at `offset` of the key's memory.
  static Work work_on(const RemoteKey& key, uint64_t offset, Work::Kind kind);
  void post(Work work, RemoteWait& wait);
  void post_from_slot(std::span<const std::byte> source, Work work, RemoteWait& wait);
  void read_by_slots(std::span<std::byte> into, const RemoteKey& key, uint64_t offset, RemoteWait& wait);
  uint64_t fetch_word(Work work, RemoteWait& wait);
  uint64_t largest_piece() const;
  uint32_t take_slot(RemoteWait& wait);
  unsigned char* slot_at(uint32_t slot) const { return slots_.data.get() + slot * kSlotBytes; }
  bool is_done(uint64_t works) const { return done_ >= works; }
  void await_all(RemoteWait& wait);
  template <class Done>
  void await(const Done& done, RemoteWait& wait);
  void stop();

  static constexpr uint64_t kSlotBytes = 8192;
  static constexpr uint32_t kSlots = 16;

  RdmaDevice& device_;
  const Rank peer_;
  const uint64_t number_;
  const uint32_t works_;                       // work requests at a time
  const Buffer slots_;                         // in use until the queue is gone
  std::array<uint64_t, kSlots> used_until_{};  // by slot: until so many work requests are done
  uint32_t next_slot_ = 0;
  const std::unique_ptr<Queue> queue_;
  RemoteAtomics atomics_ = RemoteAtomics::None;
  uint64_t posted_ = 0, done_ = 0, asked_ = 0;  // asked: a completion will tell that so many are done
  Status failure_;
  bool stopped_ = false;
};

}  // namespace tutti::transports::verbs
