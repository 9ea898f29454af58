// A barrier that names the ranks which are missing, and leaves the group usable: through the store, not the group.
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <string>
#include <thread>
#include <vector>

#include "compat/torch/group.hpp"
#include "compat/torch/python.hpp"
#include "tutti/error.hpp"

namespace tutti_torch {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// False if the key has not come by then.
bool came(c10d::Store& store, const std::string& key, Clock::time_point deadline) {
  while (!store.check({key})) {
    if (Clock::now() >= deadline) return false;
    check_signals();
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

}  // namespace

void Group::monitor(c10d::Store& store, milliseconds timeout, bool wait_for_all) {
  const auto deadline = Clock::now() + timeout;
  if (rank_ != 0) {
    store.set(std::to_string(rank_), std::string("here"));
    if (!came(store, "result", deadline + milliseconds(1000))) {
      throw tutti::Error(tutti::Code::Timeout, c10::str("rank ", rank_, ": monitored_barrier of group '", name_,
                                                        "': rank 0 has not come within ", timeout.count(), " ms"));
    }
    const std::string result = store.get_to_str("result");
    if (result != "all") throw tutti::Error(tutti::Code::Timeout, result);
    return;
  }
  std::string missing;
  for (int peer = 1; peer < size_ && (missing.empty() || wait_for_all); ++peer) {
    if (!came(store, std::to_string(peer), deadline)) missing += (missing.empty() ? "" : ", ") + std::to_string(peer);
  }
  const std::string text =
      c10::str("rank 0: monitored_barrier of group '", name_, "': rank ", missing,
               wait_for_all ? "" : " (and perhaps others)", " did not come within ", timeout.count(), " ms");
  store.set("result", missing.empty() ? std::string("all") : text);
  if (!missing.empty()) throw tutti::Error(tutti::Code::Timeout, text);
}

void Group::monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_for_all) {
  const WithoutGil without;
  c10d::PrefixStore store(c10::str("barrier ", ++barriers_), store_);
  try {
    check_usable("monitored_barrier");
    monitor(store, opts.timeout.count() > 0 ? opts.timeout : timeout_, wait_for_all);
  } catch (...) {
    std::rethrow_exception(as_torch_error());
  }
}

}  // namespace tutti_torch
