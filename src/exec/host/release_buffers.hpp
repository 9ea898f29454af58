// The end of a call that failed: its caller gets all buffers back, and from then on nobody else touches them.
//
// What other ranks may be doing there, and how it ends:
// - A thread of this process reads a lent message, or stores a tile or a fold that it has claimed. It does so for one
//   step, in which it waits for nobody: it is waited for, however long it takes. (Were it stopped, so were this one.)
// - Another process reads a lent message. It is given a moment. One that needs longer finds out that the message was
//   taken back (link/revoke.hpp), and fails.
// - Another process stores to memory of ours that it maps. It is given a moment, as it may be stopped. Then the pages
// are
//   replaced here, and what it goes on to store goes to those that nobody has any more (SharedMemory::renew).
// - Another process writes to our memory through the kernel. The gate is shut (link/cma.hpp): what has not
// passed
//   it yet will not. What has is waited for until it is over, or until all threads of that process are stopped or gone,
//   which they cannot be within a system call. Here alone there is a limit, kLongest: a process that gets no processor
//   for so long in the middle of a copy may write when its turn comes.
#pragma once

#include <functional>
#include <span>

#include "base/rank.hpp"
#include "link/link.hpp"

namespace tutti::exec {

/// These links' reader stops: no writer begins to copy, or to fold, to its memory any more.
void close_offers(std::span<link::InLink> ins);

/// After that: has the writer of this link, who was doing so, stopped too?
bool alone(const link::InLink& in);

/// Who of all has ended, as far as is known: nobody waits for those.
using Lost = std::function<bool(Rank)>;

/// Returns when the memory that was lent and offered on these links is its owner's alone.
void let_go(std::span<link::OutLink> outs, std::span<link::InLink> ins, const Lost& lost);

}  // namespace tutti::exec
