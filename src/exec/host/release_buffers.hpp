// The end of a failed call: the caller gets all buffers back, and afterwards no other rank touches them.
//
// What other ranks may still be doing, and how it ends:
// - A thread of this process reads a zero-copy message, or stores a tile or a fold that it has claimed. It does so for
//   one step, in which it never waits. This rank waits for it without a limit: if it is stopped, so is this thread.
// - Another process reads a zero-copy message. This rank waits for kGrace. A slower reader finds that the message was
//   revoked (link/revoke.hpp), and fails.
// - Another process stores to memory of this process that it maps. This rank waits for kGrace, because the process may
//   be stopped. Then it replaces the pages (SharedMemory::renew), and later stores go to the old ones, which have no
//   other user.
// - Another process writes to this process's memory by CMA. This rank shuts the gate (link/cma.hpp), which fails later
//   writes. For writes that have passed the gate it waits until they are done, or until all threads of that process are
//   stopped or gone, which cannot happen inside a system call. Only here is a limit, kMaxSyscallWait: a process that
//   gets no processor for that long in the middle of a write may still write later.
#pragma once

#include <functional>
#include <span>

#include "base/rank.hpp"
#include "link/link.hpp"

namespace tutti::exec {

/// Closes this reader's offers on these links: no writer begins to copy or store to its memory any more.
void close_offers(std::span<link::InLink> ins);

/// After close_offers(): has the writer of this link left this rank's memory?
bool writer_done(const link::InLink& in);

/// Is this rank known to have ended? Then release_buffers() does not wait for it.
using Lost = std::function<bool(Rank)>;

/// Revokes zero-copy messages, closes offers, and returns when no other rank uses this rank's buffers on these links.
void release_buffers(std::span<link::OutLink> outs, std::span<link::InLink> ins, const Lost& lost);

}  // namespace tutti::exec
