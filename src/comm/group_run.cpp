#include "comm/group_run.hpp"

#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include "comm/ticket.hpp"
#include "exec/executor.hpp"
#include "reduce/float_environment.hpp"

namespace tutti::comm {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The progress of a group on one communicator.
struct Progress {
  CommunicatorCalls& calls;
  size_t next = 0;                     // work to begin next
  std::optional<TicketGuard> guard;    // of the running work …
  exec::Executor* executor = nullptr;  // … if any, which runs it
  std::chrono::steady_clock::time_point start{};

  bool begin_next(Status& first) {
    while (executor == nullptr && next < calls.works.size()) {
      guard.emplace(*calls.comm, calls.tickets[next]);
      Status status;
      if (calls.comm->traces()) start = std::chrono::steady_clock::now();
      executor = calls.comm->begin(calls.works[next++], status);
      if (calls.comm->traces() && executor == nullptr) calls.comm->trace(calls.works[next - 1], status, 0);
      if (executor == nullptr) guard.reset();
      if (first.ok()) first = std::move(status);
    }
    return executor != nullptr;
  }

  void finish(Status& first) {
    executor = nullptr;
    Status status;
    calls.comm->finish(status);
    if (calls.comm->traces()) calls.comm->trace(calls.works[next - 1], status, seconds_since(start));
    guard.reset();
    if (first.ok()) first = std::move(status);
  }
};

/// Begins what can be begun and runs until some work is done. False if no work is left.
bool run_on(std::vector<Progress>& all, std::vector<exec::Executor*>& executors, Status& first) {
  executors.clear();
  for (Progress& one : all) {
    if (one.begin_next(first)) executors.push_back(one.executor);
  }
  if (executors.empty()) return false;
  exec::drain_one(executors, all.front().calls.comm->backoff());
  for (Progress& one : all) {
    if (one.executor != nullptr && one.executor->done()) one.finish(first);
  }
  return true;
}

}  // namespace

Status run_communicators(std::vector<CommunicatorCalls>& per_communicator) {
  const FloatEnvironment environment;
  Status first;
  std::vector<Progress> all;
  for (CommunicatorCalls& calls : per_communicator) all.push_back({calls});
  std::vector<exec::Executor*> executors;
  for (bool more = true; more;) {
    try {
      more = run_on(all, executors, first);
    } catch (const std::exception& error) {  // the remaining work fails, each when its ticket is served
      for (Progress& one : all) {
        first = one.calls.comm->fail_internally(error.what());
        if (one.executor != nullptr) std::exchange(one.executor, nullptr)->abort();
        one.guard.reset();
      }
    }
  }
  return first;
}

}  // namespace tutti::comm
