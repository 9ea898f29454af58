// How the ranks of a new communicator find each other: by a unique id, or through the launcher that started them.
#pragma once

#include <memory>

#include "comm/communicator.hpp"
#include "control/bootstrap/unique_id.hpp"
#include "control/elastic/job_member.hpp"
#include "control/messages.hpp"

namespace tutti::comm {

using control::kMaxRanks;
using control::UniqueId;

/// A new id; the rendezvous server that it names runs in this process. Throws Error(SystemError).
UniqueId create_unique_id();

/// The communicator of all ranks that this process's launcher started; without a launcher, of this process alone.
/// Throws Error, after telling the other ranks if the cause is a mistake in this rank's environment.
std::shared_ptr<Communicator> join_from_environment();

using control::JobState;

/// Of this process, where its launcher has a job server; else all zeros, and the end that set_job_end() has told.
JobState job_state();
/// The job ends in so many seconds; negative, or no number: it goes on, as far as this process knows by itself. May be
/// called in a signal handler.
void set_job_end(double seconds) noexcept;

}  // namespace tutti::comm
