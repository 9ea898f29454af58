// Groups. A call that failed within a group makes the outermost end return its code and run nothing, as in NCCL.
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "compat/nccl/config.hpp"
#include "compat/nccl/device.hpp"
#include "compat/nccl/handles.hpp"

namespace tutti::nccl {
namespace {

struct Group {
  int depth = 0;
  ncclResult_t failure = ncclSuccess;
  std::vector<Pending> pending;
  struct Maker {
    std::function<ncclResult_t()> run;
    ncclComm_t of = nullptr;
  };
  std::vector<Maker> makers;
};
thread_local Group t_group;

/// The communicators of the group are made, or are not.
void settle(const std::vector<Pending>& pending) {
  for (const auto& [handle, out] : pending) {
    if (handle->comm != nullptr) {
      handle->state.store(ncclComm::State::Live, std::memory_order_release);
    } else {
      *out = nullptr;
      drop_handle(handle);
    }
  }
}

/// Those of one communicator, in their order, until one fails.
std::vector<std::function<ncclResult_t()>> in_rows(const std::vector<Group::Maker>& makers) {
  std::vector<std::function<ncclResult_t()>> rows;
  std::map<ncclComm_t, std::vector<std::function<ncclResult_t()>>> of;
  for (const Group::Maker& maker : makers) {
    maker.of != nullptr ? of[maker.of].push_back(maker.run) : rows.push_back(maker.run);
  }
  for (auto& [comm, row] : of) {
    rows.push_back([row = std::move(row)] {
      ncclResult_t result = ncclSuccess;
      for (size_t i = 0; i < row.size() && result == ncclSuccess; ++i) result = row[i]();
      return result;
    });
  }
  return rows;
}

/// Runs them side by side, since they may wait for each other: a thread may have several ranks of one communicator.
ncclResult_t run_all(const std::vector<Group::Maker>& group) {
  const std::vector<std::function<ncclResult_t()>> makers = in_rows(group);
  if (makers.empty()) return ncclSuccess;
  struct Outcome {
    ncclResult_t result = ncclSuccess;
    std::string text;
  };
  std::vector<Outcome> outcomes(makers.size());
  const auto run = [&](size_t i) {
    outcomes[i].result = guarded(nullptr, makers[i]);
    if (outcomes[i].result != ncclSuccess && outcomes[i].result != ncclInProgress)
      outcomes[i].text = last_error(nullptr);
  };
  const Context context;
  std::vector<std::thread> threads;
  for (size_t i = 1; i < makers.size(); ++i) {
    threads.emplace_back([&, i] {
      context.use();
      run(i);
    });
  }
  run(0);
  for (std::thread& thread : threads) thread.join();
  ncclResult_t all = ncclSuccess;
  for (const Outcome& outcome : outcomes) {
    if (outcome.result == ncclInProgress) all = ncclInProgress;
    if (outcome.result == ncclSuccess || outcome.result == ncclInProgress) continue;
    set_error(outcome.text.c_str());
    return outcome.result;
  }
  return all;
}

ncclResult_t end() {
  if (t_group.depth == 0) refuse(ncclInvalidUsage, "ncclGroupEnd without a ncclGroupStart on this thread");
  if (--t_group.depth > 0) return done(tuttiGroupEnd());
  const ncclResult_t failure = std::exchange(t_group.failure, ncclSuccess);
  ncclResult_t result = failure;
  if (failure == ncclSuccess) {
    result = done(tuttiGroupEnd());
  } else {
    tuttiGroupDiscard();  // the text of the call that failed stays
  }
  const auto makers = std::exchange(t_group.makers, {});
  if (result == ncclSuccess) result = run_all(makers);
  settle(std::exchange(t_group.pending, {}));
  return result;
}

}  // namespace

int group_depth() { return t_group.depth; }

void note_in_group(ncclResult_t result) {
  if (t_group.depth > 0 && result != ncclInProgress && t_group.failure == ncclSuccess) t_group.failure = result;
}

void add_maker(std::function<ncclResult_t()> maker, ncclComm_t of) { t_group.makers.push_back({std::move(maker), of}); }

void add_pending(Pending pending) { t_group.pending.push_back(pending); }

}  // namespace tutti::nccl

using namespace tutti::nccl;  // NOLINT: this file is the border

TUTTI_NCCL_API(ncclResult_t, ncclGroupStart) {
  return guarded(nullptr, [] {
    const ncclResult_t result = done(tuttiGroupStart());
    if (result == ncclSuccess) ++t_group.depth;
    return result;
  });
}

TUTTI_NCCL_API(ncclResult_t, ncclGroupEnd) {
  return guarded(nullptr, [] { return end(); });
}

TUTTI_NCCL_API(ncclResult_t, ncclGroupSimulateEnd, ncclSimInfo_t* info) {
  return guarded(nullptr, [&] {
    if (t_group.depth == 0) refuse(ncclInvalidUsage, "ncclGroupSimulateEnd without a ncclGroupStart on this thread");
    check_header(info, 0x74685283, "ncclSimInfo_t", "NCCL_SIM_INFO_INITIALIZER");
    double seconds = 0;
    const ncclResult_t result = done(tuttiGroupEstimate(&seconds));
    while (t_group.depth > 0) {  // a simulated group runs nothing
      tuttiGroupDiscard();
      --t_group.depth;
    }
    t_group.makers.clear();
    settle(std::exchange(t_group.pending, {}));
    const ncclResult_t failure = std::exchange(t_group.failure, ncclSuccess);
    if (failure != ncclSuccess) return failure;
    if (result == ncclSuccess) info->estimatedTime = static_cast<float>(seconds * 1e6);
    return result;
  });
}
