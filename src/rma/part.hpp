// What the ranks of a window tell each other: where their parts lie, and what peers on other hosts ask of them.
#pragma once

#include <atomic>
#include <cstdint>

#include "transports/remote_memory.hpp"

namespace tutti::rma {

inline constexpr uint32_t kSignals = 8;  ///< that a rank can send each other rank in a window, counted apart

/// Why a part may not be used any more. Memory that its owner has released reads as zeros, also by peers that have it
/// mapped still.
enum class Closed : uint32_t {
  Deregistered = 0,
  No = 1,
  Left = 2,  ///< its rank has left the communicator
};

/// What the owner of a part and one peer tell each other: each peer has a line. The peer alone writes `arrived` and
/// `busy`, or the agent does so in its place if the peer sends requests. So they need no atomic addition. `arrived`,
/// which the owner polls, lies apart from all others: processors fetch lines in pairs, hence 128.
struct SignalLine {
  alignas(128) std::atomic<uint64_t> arrived[kSignals];  ///< signals of that rank
  alignas(128) std::atomic<uint32_t> busy;               ///< it uses the part now
  alignas(128) std::atomic<uint32_t> reaches;            ///< it stores its signals
  std::atomic<Closed> closed;                            ///< the part may not be used any more
};

/// A use of a peer's part without its agent. The user stores `busy`, then reads `closed`; the owner stores `closed`,
/// then reads `busy`. So at least one of them sees the other's store (Dekker): either the user does not begin, or the
/// owner waits until it has ended.
class Use {
 public:
  explicit Use(SignalLine& line) : line_(line) {
    line_.busy.store(1, std::memory_order_seq_cst);
    closed_ = line_.closed.load(std::memory_order_seq_cst);
  }
  ~Use() { line_.busy.store(0, std::memory_order_release); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  bool allowed() const { return closed_ == Closed::No; }
  Closed closed() const { return closed_; }

 private:
  SignalLine& line_;
  Closed closed_ = Closed::No;
};

/// A rank's part of a window.
struct Part {
  static constexpr uint64_t kMagic = 0x33747261'70616d72;  // "rmapart3"

  uint64_t magic = kMagic;
  uint64_t bytes = 0;
  uint64_t memory = 0;               ///< its address in its process: atomic steps need a multiple of 8
  uint64_t region = 0, offset = 0;   ///< where the memory lies in SharedMemory; region 0: peers cannot map it
  uint64_t signal_region = 0;        ///< that of the signals, which begin there; 0: peers cannot map them
  uint64_t gate = 0;                 ///< CMA writes pass it (link::CmaGate); 0: there is none
  uint64_t token_at = 0, token = 0;  ///< a word of its process at that address, at random
  transports::RemoteKey memory_key, signal_key;  ///< for devices of other hosts; none: they send requests
  bool operator==(const Part&) const = default;
};

/// What a rank asks of another one's part over a stream. The bytes of a put, or the offer of Connect, follow it.
struct Request {
  static constexpr uint32_t kMagic = 0x31616d72;  // "rma1"
  enum class What : uint32_t { Put, Get, Signal, Add, CompareSwap, Flush, Connect };

  uint32_t magic = kMagic;
  What what = What::Flush;
  uint64_t window = 0;
  uint64_t offset = 0, bytes = 0;
  uint64_t operand = 0;   ///< what is added, or swapped in; the number of a signal
  uint64_t expected = 0;  ///< of CompareSwap
};

/// The answer to Get, Add, CompareSwap, Flush and Connect. To a Get that is Done come the bytes and then another Reply,
/// which says whether all of them could be read: the memory may go away meanwhile. To a Connect comes a text behind it,
/// the peer's end of the connection or why there is none.
struct Reply {
  enum class Outcome : uint32_t {
    Done,
    NoWindow,
    OutOfRange,
    Unmapped,  ///< the program has freed the memory before it deregistered the window, or protected it
    Refused,   ///< of Connect: there is no device to connect to
  };
  static constexpr uint64_t kMaxText = 512;  ///< bytes of what follows the reply to Connect
  uint32_t magic = Request::kMagic;
  Outcome outcome = Outcome::Done;  ///< of this request; of Flush, of those without an answer since the last one
  uint64_t value = 0;               ///< before Add and CompareSwap; of Flush, the window of the first that
                                    ///< failed; of Connect, the bytes that follow
};

}  // namespace tutti::rma
