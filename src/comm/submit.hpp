// Runs a user's call: at once, on a stream's thread, or with the other calls of a group.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "comm/communicator.hpp"

namespace tutti::comm {

class Stream;

/// Checks the call, then runs it and blocks until it ends (no stream), or passes it to the stream's thread. In a group
/// it only collects the call. Throws the first mistake in the call and, if it blocks, the call's error.
void submit(const std::shared_ptr<Communicator>& comm, const Call& call, const std::shared_ptr<Stream>& stream);

/// A call on a window, likewise. In a group those that wait for signals run last, all others first.
void submit(const std::shared_ptr<Communicator>& comm, const std::shared_ptr<Window>& window, const OneSided& call,
            const std::shared_ptr<Stream>& stream);
/// Communicator::register_window and deregister_window; not within a group.
std::shared_ptr<Window> register_window(const std::shared_ptr<Communicator>& comm, void* memory, uint64_t bytes,
                                        uint8_t backend, const Status& refusal);
void deregister_window(const std::shared_ptr<Communicator>& comm, Window& window);

/// How the communicator's last call was executed; waits for earlier calls.
CallInfo last_call(Communicator& comm);
/// Bytes that this rank's calls have sent. Waits for the calls before it.
uint64_t sent_bytes(Communicator& comm);

/// Communicator::add_buffer; within a group, too, it happens now.
uint64_t add_buffer(const std::shared_ptr<Communicator>& comm, const void* data, uint64_t bytes);
/// Communicator::drop_buffer, likewise.
void drop_buffer(const std::shared_ptr<Communicator>& comm, uint64_t registration);

/// Groups nest; collected calls belong to the calling thread.
void group_start();
/// The outermost end runs all collected calls and throws the first error.
void group_end();
/// Ends one level and drops all collected calls, of every level. The outer levels remain open but collect nothing
/// (Error(InvalidUsage) at each call), and the outermost end throws the same error.
void group_discard();
/// Drops the group of this thread, with all its levels, and fails the communicators that have calls in it: `why` is
/// what the thread does instead of ending it. Returns what the ranks hear; "" if the group holds nothing.
std::string group_abandon(const std::string& why);
bool in_group();
/// Throws Error(InvalidUsage) if the group of this thread has calls on the communicator: they would be lost.
void check_not_in_group(const Communicator& comm, const char* call);
/// Seconds that the collected calls would take, by the cost model. Communicators run at the same time.
double group_estimate();
/// Splits the communicator when its ticket is served, and passes the new communicator to `made` (null for a negative
/// colour). In a group, at its end, before the group's other calls on the communicator.
void submit_split(const std::shared_ptr<Communicator>& comm, int colour, int key,
                  std::function<void(std::shared_ptr<Communicator>)> made);
/// In a group: runs `task` on a thread of its own when the group ends, before all calls. Used to join as several ranks.
void group_add(std::function<void()> task);

}  // namespace tutti::comm
