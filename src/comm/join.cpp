#include "comm/join.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
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

// What set_job_end() has told: a signal handler may store it at any moment, so it is one word, and no lock is needed.
constexpr int64_t kGoesOn = -1;
constinit std::atomic<int64_t> own_end{kGoesOn};
static_assert(std::atomic<int64_t>::is_always_lock_free);

int64_t now() {  // nanoseconds
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
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
  JobState state = member == nullptr ? JobState{} : member->state();
  if (const int64_t end = own_end.load(std::memory_order_relaxed); end != kGoesOn) {
    const double left = std::max(0.0, static_cast<double>(end - now()) * 1e-9);
    state.ends_in = std::min(left, state.ends_in.value_or(left));
  }
  return state;
}

void set_job_end(double seconds) noexcept {
  constexpr double kMost = 1e9;  // seconds: 30 years
  own_end.store(seconds >= 0 ? now() + static_cast<int64_t>(std::min(seconds, kMost) * 1e9) : kGoesOn,
                std::memory_order_relaxed);
}

}  // namespace tutti::comm
