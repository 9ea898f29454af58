// A window: a buffer of each rank that all ranks may read and write (one-sided calls). Ranks of the same process, and
// of the same host where the memory can be mapped, do it by loads and stores; others over a stream to the agent there.
//
// Order: what a rank puts into another rank's part lies there when a signal of it that follows has arrived: the signal
// is counted by a store-release, and await() reads the count by a load-acquire. Puts without a signal between them may
// arrive in any order. What a rank puts is in place, and may be read by get() and by others, after flush().
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/deadline.hpp"
#include "link/segment.hpp"
#include "rma/channel.hpp"
#include "rma/part.hpp"
#include "rma/target.hpp"
#include "transports/wireup.hpp"

namespace tutti::rma {

/// This rank's own part: its buffer, and the memory in which signals are counted.
class OwnPart {
 public:
  OwnPart(void* memory, uint64_t bytes, Rank ranks);
  ~OwnPart();
  OwnPart(const OwnPart&) = delete;
  OwnPart& operator=(const OwnPart&) = delete;

  const Part& part() const { return part_; }
  Target::Exposed exposed() const;
  const SignalLine& from(Rank rank) const { return signals_[rank]; }
  /// After a failure, when processes that are stopped may still have the memory mapped: gives it pages of its own, with
  /// the same content. False if the system refuses.
  bool cut_off();

 private:
  std::byte* const memory_;
  SignalLine* const signals_;
  Part part_;
};

/// One thread at a time makes calls. Those that reach over streams throw what Channel's functions throw; and Error
/// (InvalidArgument) where the bytes do not lie in the peer's part, or the peer says that there is no such window.
class Window {
 public:
  /// `parts`: by rank. Maps those of this host's other processes that can be mapped: for the others requests are sent.
  Window(uint64_t number, transports::Wireup& wireup, Channels& channels, std::vector<Part> parts, Deadline deadline);

  uint64_t bytes(Rank peer) const { return parts_[peer].bytes; }
  /// Where this process's loads and stores reach the peer's part; null: nowhere.
  std::byte* address(Rank peer) const { return peers_[peer].memory; }

  /// Returns when the source may be changed.
  void put(std::span<const std::byte> source, Rank peer, uint64_t offset, Deadline deadline);
  void get(std::span<std::byte> into, Rank peer, uint64_t offset, Deadline deadline);
  void signal(Rank peer, uint32_t signal, Deadline deadline);
  /// Of 8 bytes at a multiple of 8; sequentially consistent. Return what was there before.
  uint64_t add(uint64_t operand, Rank peer, uint64_t offset, Deadline deadline);
  uint64_t compare_swap(uint64_t expected, uint64_t desired, Rank peer, uint64_t offset, Deadline deadline);
  void flush(Rank peer, Deadline deadline);

 private:
  struct Peer {
    std::byte* memory = nullptr;  // null: over a stream
    SignalLine* line = nullptr;   // this rank's, of the peer's
    link::Segment memory_file, signal_file;
    bool is_dirty = false;  // has had requests without an answer since the last flush
  };
  void reach(Rank peer, Deadline deadline);
  link::Segment map(Rank peer, uint64_t region, Deadline deadline) const;
  void check(Rank peer, uint64_t offset, uint64_t bytes) const;
  Request request(Request::What what) const;
  uint64_t ask(Rank peer, const Request& request, std::span<std::byte> into, Deadline deadline);

  const uint64_t number_;
  transports::Wireup& wireup_;
  Channels& channels_;
  const std::vector<Part> parts_;
  std::vector<Peer> peers_;
};

}  // namespace tutti::rma
