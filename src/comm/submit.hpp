// From the user's call to its run: at once, on a stream's worker, or collected in a group and run together.
#pragma once

#include <functional>
#include <memory>

#include "comm/communicator.hpp"

namespace tutti::comm {

class Stream;

/// Checks the call and runs it, blocks until it is over (no stream), or leaves it with the stream's worker. In a group
/// it only collects it. Throws what is wrong with the call, and, when it blocks, what went wrong with it.
void submit(const std::shared_ptr<Communicator>& comm, const Call& call, const std::shared_ptr<Stream>& stream);

/// Groups nest; what is collected belongs to the calling thread.
void group_start();
/// The outermost end runs all that was collected; throws the first failure.
void group_end();
/// Ends one level and forgets all that was collected, on every level. The outer levels stay open; they collect nothing
/// more (Error(InvalidUsage) at each call), and the outermost end throws the same.
void group_discard();
bool in_group();
/// Splits the communicator in its turn, as any call, and hands on what became of it (null: no part in it); in a group
/// at its end, before the group's other calls on the communicator.
void submit_split(const std::shared_ptr<Communicator>& comm, int colour, int key,
                  std::function<void(std::shared_ptr<Communicator>)> made);
/// In a group: `task` runs, on a thread of its own, when the group ends, before any call. For joining as several ranks.
void group_add(std::function<void()> task);

}  // namespace tutti::comm
