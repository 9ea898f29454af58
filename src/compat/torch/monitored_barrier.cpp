// A barrier that names the ranks which are missing, and leaves the group usable: through the store, not the group.
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <c10/util/StringUtil.h>

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

void Group::pass(c10d::Store& store) {
  store.set(std::to_string(rank_), std::string("here"));
  // Rank 0 alone keeps the barrier's time, so that it can tell who is missing before others give up.
  std::string result = c10::str("it has not come within ", seconds_of(timeout()), " s");
  if (came(store, "result", Clock::now() + timeout())) result = store.get_to_str("result");
  if (result == "all") return;
  throw tutti::Error(tutti::Code::Timeout,
                     c10::str("Rank ", rank_, " successfully reached monitoredBarrier, but received errors while ",
                              "waiting for send/recv from rank 0 of ", facts_->name, ": ", result));
}

void Group::monitor(c10d::Store& store, milliseconds limit, bool wait_for_all) {
  if (rank_ != 0) return pass(store);
  const auto deadline = Clock::now() + limit;
  std::vector<int> missing, here;
  std::string text;
  for (int peer = 1; peer < size_ && text.empty(); ++peer) {
    if (!wait_for_all && Clock::now() >= deadline) {
      text = c10::str("Rank 0 timed out in monitoredBarrier after ", limit.count(), " ms");
    } else if (came(store, std::to_string(peer), deadline)) {
      here.push_back(peer);
    } else {
      missing.push_back(peer);
      if (!wait_for_all) text = c10::str("[Rank 0]: Rank ", peer);
    }
  }
  if (text.empty() && missing.empty()) return store.set("result", std::string("all"));
  if (text.empty()) text = c10::str("[Rank 0]: Ranks ", c10::Join(", ", missing));
  if (!missing.empty()) text += c10::str(" failed to pass monitoredBarrier in ", limit.count(), " ms");
  text += c10::str(" (", facts_->name, "; ", here.empty() ? "no rank" : "rank " + c10::Join(", ", here), " came",
                   wait_for_all ? "" : ", later ranks were not waited for", ")");
  store.set("result", text);
  throw tutti::Error(tutti::Code::Timeout, text);
}

void Group::monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_for_all) {
  const WithoutGil without;
  c10d::PrefixStore store(c10::str("barrier ", ++barriers_), store_);
  try {
    check_usable("monitored_barrier");
    monitor(store, opts.timeout == c10d::kUnsetTimeout ? timeout() : opts.timeout, wait_for_all);
  } catch (...) {
    std::rethrow_exception(as_torch_error());
  }
}

}  // namespace tutti_torch
