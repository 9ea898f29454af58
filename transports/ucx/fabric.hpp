// What the ends of links need of UCX. worker.* implements it; the fuzz target has one without a network.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/rank.hpp"

namespace tutti::transports::ucx {

/// Something under way. Stays at its address until it is done.
struct Operation {
  enum class State : uint8_t { Idle, UnderWay, Done, Failed };
  State state = State::Idle;
  const char* text = "";     ///< of a failure, in UCX's words
  uint64_t* open = nullptr;  ///< the fabric's count of operations under way

  bool under_way() const { return state == State::UnderWay; }
  bool failed() const { return state == State::Failed; }
};

/// Calls come from one thread at a time. None waits, and none throws.
class Fabric {
 public:
  virtual ~Fabric() = default;

  struct Piece {
    const void* at = nullptr;
    uint64_t bytes = 0;
  };
  /// Sends an active message. `header` and `data` stay as they are until `operation` is done.
  virtual void send(Rank peer, unsigned id, Piece header, Piece data, bool rendezvous, Operation& operation) = 0;
  /// Fetches a payload that a peer has announced. `announced` is used up.
  virtual void fetch(void* announced, void* into, uint64_t bytes, Operation& operation) = 0;
  /// The payload is not wanted.
  virtual void drop(void* announced) = 0;
};

}  // namespace tutti::transports::ucx
