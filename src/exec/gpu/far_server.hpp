// Carries out what ranks of other hosts ask of this rank's parts of windows: bytes come into slots of pinned memory,
// from which a stream of its own copies them to the GPU, and back. Signals are words that the stream writes, behind the
// puts that came before; this rank's streams wait for them as for those of its host.
#pragma once

#include <poll.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "base/deadline.hpp"
#include "base/fd.hpp"
#include "base/rank.hpp"
#include "exec/gpu/far_request.hpp"
#include "exec/gpu/far_stream.hpp"
#include "exec/gpu/gpu.hpp"

namespace tutti::exec::gpu {

class FarServer {
 public:
  /// This rank's part. Addresses are the GPU's.
  struct Exposed {
    uint64_t memory = 0, bytes = 0;
    uint64_t signals = 0, stride = 0;    ///< words of the signals of rank 0; of each next rank, so many bytes behind
    std::vector<uint64_t> arrived = {};  ///< signals, by rank and number: expose() makes them
  };

  /// Throws Error(OutOfMemory).
  FarServer(const Gpu& gpu, std::unique_ptr<FarStream> stream);
  ~FarServer();
  FarServer(const FarServer&) = delete;
  FarServer& operator=(const FarServer&) = delete;

  // ---- any thread
  void expose(uint64_t window, Exposed part, Rank ranks);
  /// No request on the part is begun any more. False: one that was begun has not ended before the deadline.
  bool withdraw(uint64_t window, Deadline deadline);
  /// A rank's stream begins.
  void admit(Rank from, Fd stream);
  /// All that the rank has asked for has been carried out, and it asks for no more: its stream has ended, or has never
  /// begun.
  bool has_ended(Rank from) const;

  // ---- the proxy's thread
  /// Does what can be done now; true if that was something. Throws Error(SystemError) if the GPU has failed.
  bool progress();
  /// What to wait for before the next look.
  void add_events(std::vector<pollfd>& events) const;
  /// Does the GPU work for it?
  bool is_busy() const { return landed() < enqueued_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kSlots = 8;
  class Client;
  /// Of pinned memory.
  struct Slot {
    bool taken = false;
    uint64_t busy_until = 0;  // the stream has written this number
  };
  uint64_t landed() const;
  uint64_t mark();
  int take_slot(bool for_answer);
  void give_slot(int slot, bool of_answer);
  bool has_room() const;
  unsigned char* slot(int number) const { return slots_.get() + static_cast<uint64_t>(number) * kFarSlotBytes; }
  uint64_t slot_at(int number) const { return slots_at_ + static_cast<uint64_t>(number) * kFarSlotBytes; }
  FarAnswer::Outcome carry_out(const FarRequest& request, Rank from, int slot);
  void take_new();

  const std::shared_ptr<unsigned char> memory_, slots_;  // pinned
  uint64_t& landed_;
  const uint64_t landed_at_, slots_at_;
  const std::unique_ptr<FarStream> stream_;
  mutable std::mutex mutex_;  // guards the following; held while work on a part is enqueued
  std::map<uint64_t, Exposed> parts_;
  std::vector<std::unique_ptr<Client>> new_;
  std::set<Rank> served_;              // whose stream has begun and not ended
  std::atomic<uint64_t> enqueued_{0};  // what the stream writes when all that it has is done
  // Of the proxy's thread.
  std::vector<std::unique_ptr<Client>> clients_;
  std::array<Slot, kSlots> all_slots_;
  size_t answers_ = 0;  // slots that hold answers
};

}  // namespace tutti::exec::gpu
