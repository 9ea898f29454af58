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
      "rank {} has freed its part of the window of call {} before it deregistered it, or may not read or write there "
      "any more",
      peer, window);
}

void throw_not_here(std::span<const std::byte> bytes) {
  throw_error(Code::InvalidArgument, "the {} bytes at {} are not in this process's memory", bytes.size(),
              static_cast<const void*>(bytes.data()));
}

void throw_unreadable(std::span<const std::byte> bytes, Rank peer) {
  throw_error(Code::InvalidArgument,
              "this process may not read all of the {} bytes at {}; rank {}'s part may hold some of them, and zeros in "
              "place of others",
              bytes.size(), static_cast<const void*>(bytes.data()), peer);
}

void throw_unwritable(std::span<const std::byte> bytes) {
  throw_error(Code::InvalidArgument, "this process may not write to all of the {} bytes at {}", bytes.size(),
              static_cast<const void*>(bytes.data()));
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
