#include "rma/refusals.hpp"

#include <chrono>
#include <thread>

#include "base/deadline.hpp"
#include "base/format.hpp"
#include "tutti/error.hpp"

namespace tutti::rma {

void throw_left(Rank peer) { throw_error(Code::InvalidUsage, "rank {} has left the communicator", peer); }

void throw_closed(Rank peer, uint64_t window, Closed why, const Ends& ends) {
  if (why == Closed::Left || ends.has_left(peer)) throw_left(peer);
  throw_error(Code::InvalidUsage, "rank {} has deregistered the window of call {}", peer, window);
}

void throw_unmapped(Rank peer, uint64_t window) {
  throw_error(
      Code::InvalidUsage,
      "rank {} has freed its part of the window of call {} before it deregistered it, or may not write there any "
      "more",
      peer, window);
}

bool leaves(Rank peer, const Ends& ends) {
  constexpr double kKnownWithin = 2;  // seconds
  const Deadline deadline = Deadline::in(kKnownWithin);
  while (!ends.has_left(peer)) {
    if (ends.stop.load(std::memory_order_acquire) != 0 || deadline.passed()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace tutti::rma
