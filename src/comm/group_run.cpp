#include "comm/group_run.hpp"

#include <exception>
#include <optional>
#include <utility>

#include "comm/ticket.hpp"
#include "exec/pending.hpp"
#include "reduce/float_environment.hpp"

namespace tutti::comm {
namespace {

/// The progress of a group on one communicator.
struct Progress {
  CommunicatorCalls& calls;
  size_t next = 0;                   // work to begin next
  std::optional<TicketGuard> guard;  // of the running work …
  exec::Pending* pending = nullptr;  // … if any is under way
  Communicator::Noted noted{};

  bool may_begin() const { return pending == nullptr && next < calls.works.size(); }

  void begin_next(Status& first) {
    guard.emplace(*calls.comm, calls.tickets[next]);
    Status status;
    if (calls.comm->notes()) noted = calls.comm->note(calls.works[next]);
    const bool more_follow = ++next < calls.works.size();
    pending = calls.comm->begin(calls.works[next - 1], status, more_follow);
    if (calls.works.size() > 1 && (pending != nullptr || !more_follow)) start_held(status);
    if (calls.comm->notes() && pending == nullptr) calls.comm->note_end(noted, calls.works[next - 1], status);
    if (pending == nullptr) guard.reset();
    if (first.ok()) first = std::move(status);
  }

  /// What may have been held for the work that has just begun, which has not taken it along: it is of another backend,
  /// or has failed.
  void start_held(Status& status) const {
    try {
      calls.comm->start_held();
    } catch (const Error& error) {
      if (status.ok()) status = calls.comm->fail_internally(error.what());
    }
  }

  void finish(Status& first) {
    Status status;
    calls.comm->finish(*std::exchange(pending, nullptr), status);
    if (calls.comm->notes()) calls.comm->note_end(noted, calls.works[next - 1], status);
    guard.reset();
    if (first.ok()) first = std::move(status);
  }
};

/// Begins one work of each communicator in turn: a rank that is far ahead of its GPU waits for earlier calls, which may
/// wait for those of the thread's other ranks.
void begin_all(std::vector<Progress>& all, Status& first) {
  for (bool more = true; more;) {
    more = false;
    for (Progress& one : all) {
      if (!one.may_begin()) continue;
      one.begin_next(first);
      more = true;
    }
  }
}

/// Begins what can be begun and runs until some work is done. False if no work is left.
bool run_on(std::vector<Progress>& all, std::vector<exec::Pending*>& pending, Status& first) {
  begin_all(all, first);
  pending.clear();
  for (const Progress& one : all) {
    if (one.pending != nullptr) pending.push_back(one.pending);
  }
  if (pending.empty()) return false;
  exec::wait_for_one(pending, all.front().calls.comm->backoff());
  for (Progress& one : all) {
    if (one.pending != nullptr && one.pending->done()) one.finish(first);
  }
  return true;
}

}  // namespace

Status run_communicators(std::vector<CommunicatorCalls>& per_communicator) {
  const FloatEnvironment environment;
  Status first;
  std::vector<Progress> all;
  for (CommunicatorCalls& calls : per_communicator) all.push_back({calls});
  std::vector<exec::Pending*> pending;
  for (bool more = true; more;) {
    try {
      more = run_on(all, pending, first);
    } catch (const std::exception& error) {  // the remaining work fails, each when its ticket is served
      for (Progress& one : all) {
        first = one.calls.comm->fail_internally(error.what());
        if (one.pending != nullptr) std::exchange(one.pending, nullptr)->abort();
        one.guard.reset();
      }
    }
  }
  return first;
}

}  // namespace tutti::comm
