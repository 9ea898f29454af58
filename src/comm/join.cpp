#include "comm/join.hpp"

#include <algorithm>
#include <optional>

#include "base/env.hpp"
#include "base/format.hpp"
#include "comm/placement.hpp"
#include "control/bootstrap/launch.hpp"
#include "control/elastic/job_member.hpp"
#include "control/host.hpp"

namespace tutti::comm {
namespace {

/// A mistake in one rank's environment is to end the wait of the others too.
std::optional<control::Launch> recognise_own_launch() {
  try {
    return control::recognise_launch();
  } catch (const Error& error) {
    if (const auto launch = control::recognise_launch_despite_mistakes()) control::withdraw(*launch, error);
    throw;
  }
}

}  // namespace

UniqueId create_unique_id() {
  return control::on_this_host([] { return control::create_unique_id(); });
}

namespace {

/// As one of the processes that the launcher's job server knows.
std::shared_ptr<Communicator> join_generation(control::JobMember& member, Deadline deadline) {
  const auto place = member.next(deadline);
  JoinOptions options;
  options.title = place.generation == 1 ? "world" : fmt::format("world, generation {}", place.generation);
  options.processors = current_processors();
  options.terms.stop = &member.broken();
  options.terms.why = [&] {
    return Error(Code::PeerFailed, fmt::format("rank {} of {}: a process of generation {} of the job has ended while "
                                               "its communicator was made",
                                               place.rank, place.ranks, place.generation));
  };
  return Communicator::join(place.id, place.ranks, place.rank, std::move(options));
}

}  // namespace

std::shared_ptr<Communicator> join_from_environment() {
  const auto launch = recognise_own_launch();  // first: it tells the others of mistakes in this rank's environment
  // The other processes of a job come when a call of theirs has failed, at the latest when its time is up.
  const auto deadline = Deadline::in(std::max(env().init_timeout, env().timeout));
  if (auto* const member = control::JobMember::of_this_process(deadline)) return join_generation(*member, deadline);
  if (!launch)
    return Communicator::join(create_unique_id(), 1, 0, {.title = "world", .processors = current_processors()});
  const UniqueId id = control::exchange_unique_id(*launch, Deadline::in(env().init_timeout));
  return Communicator::join(id, launch->size, launch->rank, {.title = "world", .processors = current_processors()});
}

JobState job_state() {
  auto* const member = control::JobMember::existing();
  return member == nullptr ? JobState{} : member->state();
}

}  // namespace tutti::comm
