// The last events of a rank: calls that it has entered and left, and long waits in them.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/deadline.hpp"

namespace tutti::trace {

using Clock = Deadline::Clock;  // CLOCK_MONOTONIC: all processes of a host have the same

/// Nanoseconds of the clock.
inline uint64_t nanoseconds(Clock::time_point at) {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count());
}

struct Event {
  enum class Kind : uint8_t {
    Entered,   ///< `first`, `second`: the call's arguments
    Within,    ///< the same; it was entered before
    Enqueued,  ///< the same, on a device, which does not tell when the call ends
    Left,      ///< `first`: the code of its error, or 0; `second`: nanoseconds of thread `call` in long calls and waits
    Waited     ///< until now, since `second`; `first`: for this rank
  };
  Kind kind = Kind::Entered;
  uint64_t at = 0;    ///< nanoseconds
  uint64_t call = 0;  ///< as the call board has it
  uint64_t first = 0, second = 0;
  bool operator==(const Event&) const = default;
};

/// One thread at a time writes; any thread reads.
class Ring {
 public:
  static constexpr uint64_t kEvents = 4096;

  struct Events {
    uint64_t earlier = 0;  ///< events that are no longer in the ring
    std::vector<Event> last;
  };

  Ring();
  /// A few plain stores.
  void write(const Event& event);
  Events read() const;

 private:
  static constexpr uint64_t kWords = 4;  // of an event
  struct Free {
    void operator()(uint64_t* words) const { std::free(words); }
  };
  std::unique_ptr<uint64_t[], Free> words_;  // zero pages until they are written
  alignas(8) uint64_t written_ = 0;          // events
};

}  // namespace tutti::trace
