// Why a peer's part cannot be used, in words.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/rank.hpp"
#include "rma/part.hpp"

namespace tutti::rma {

/// What ends waits, beside their deadlines.
struct Ends {
  const std::atomic<uint32_t>& stop;         ///< once it is not 0
  const std::function<bool(Rank)> has_left;  ///< the peer has left the communicator: it answers no more
};

/// Error(InvalidUsage). `window`: the number of the call that made it.
[[noreturn]] void throw_left(Rank peer);
[[noreturn]] void throw_closed(Rank peer, uint64_t window, Closed why, const Ends& ends);
[[noreturn]] void throw_unmapped(Rank peer, uint64_t window);
/// Error(InvalidArgument): the caller's bytes are not there, or this process may not read them, or not write there.
[[noreturn]] void throw_not_here(std::span<const std::byte> bytes);
[[noreturn]] void throw_unreadable(std::span<const std::byte> bytes, Rank peer);
[[noreturn]] void throw_unwritable(std::span<const std::byte> bytes);

/// Has the peer left, if nothing more comes from it? That may become known a moment later, so this waits a little.
bool leaves(Rank peer, const Ends& ends);

}  // namespace tutti::rma
