#include "select/plan_maker.hpp"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "base/cancel.hpp"
#include "base/counted.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/limits.hpp"
#include "base/log.hpp"
#include "base/per_process.hpp"
#include "base/private_file.hpp"
#include "select/small_plans.hpp"
#include "select/synthesis.hpp"
#include "select/synthesised.hpp"

namespace tutti::select {
namespace {

constexpr double kMakingSeconds = 120;  // of processor time: 64 ranks on PCIe trees take about ten, of proofs too
constexpr int kLowestPriority = 19;     // nice

std::string ranks_of(const WantedPlans& wanted) { return counted(wanted.number(), "rank"); }

/// Of the calling thread alone: Linux has a policy and a nice value for each. It runs where nothing else wants to, also
/// where the program's own threads have a real-time policy, and on the processors that they are bound to.
void take_lowest_priority() {
  const sched_param none{};
  if (sched_setscheduler(0, SCHED_IDLE, &none) == 0) return;
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kLowestPriority);
}

/// Signals are for the program's own threads.
std::thread start_without_signals(auto&& body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  struct Restored {
    sigset_t& mask;
    ~Restored() { pthread_sigmask(SIG_SETMASK, &mask, nullptr); }
  } restored{before};
  std::thread thread = start_thread(std::forward<decltype(body)>(body));
  pthread_setname_np(thread.native_handle(), "tutti-synth");
  return thread;
}

void end_at_exit() {
  static std::once_flag once;
  std::call_once(once, [] { std::atexit([] { PlanMaker::of_this_process().end(); }); });
}

void warn_of(const WantedPlans& wanted, const std::string& why) {
  log_warn("TUTTI_SYNTH=auto: no plans are kept for the {} of this network, since {}", ranks_of(wanted), why);
}

/// Why no thread can make them; "" if one can try.
std::string why_never(const WantedPlans& wanted) {
  if (wanted.number() > static_cast<uint64_t>(kMaxSmallRanks)) {
    return fmt::format("it makes plans for up to {}: `tutti tune --synth` makes them for more",
                       counted(static_cast<uint64_t>(kMaxSmallRanks), "rank"));
  }
  return wanted.folder.empty() ? "there is no place for them: set HOME or XDG_CACHE_HOME" : "";
}

/// Is something kept there that this process has not refused? Plans whose proof takes too long would be made the same.
bool is_usable(const std::string& path, const WantedPlans& wanted) {
  try {
    const auto text = read_file(path, kMaxSynthesised, true);
    return text && !was_refused(*text, wanted.key, static_cast<Rank>(wanted.number()));
  } catch (const Error&) {  // too large, or others may write to it
    return false;
  }
}

/// Its text, which communicators would use. Throws Error.
std::string proven_text(const WantedPlans& wanted) {
  const SynthesisedText page =
      synthesise_for(wanted.graph, wanted.graph.ranks, wanted.inputs, [](const std::string&) { check_cancelled(); });
  std::string text = to_text(page);
  if (text.size() > kMaxSynthesised) {
    throw_error(Code::Unsupported, "they take {} bytes of text, and a communicator exchanges {}", text.size(),
                kMaxSynthesised);
  }
  const double began = processor_seconds();
  prove(page);
  const std::vector<topo::NodeId> nodes = nodes_of_plans(wanted.graph, wanted.graph.ranks, wanted.inputs.order);
  const double took = processor_seconds() - began, most = seconds_of_proofs(nodes, wanted.proofs);
  if (took <= most) return text;
  throw_error(Code::Timeout,
              "proving them takes {:.2g} s, and a communicator spends {:.2g} s on it: raise TUTTI_INIT_TIMEOUT", took,
              most);
}

}  // namespace

PlanMaker& PlanMaker::of_this_process() { return tutti::of_this_process<PlanMaker>(); }

void PlanMaker::want(WantedPlans wanted) {
  end_at_exit();
  const std::lock_guard lock(mutex_);
  if (ended_ || !wanted_.insert(wanted.key).second) return;
  const std::string why_not = why_never(wanted);
  if (!why_not.empty()) return warn_of(wanted, why_not);
  queue_.push_back(std::move(wanted));
  if (working_) return;
  if (thread_.joinable()) thread_.join();  // it has said that it ends
  thread_ = start_without_signals([this] { work(); });
  ++threads_;
  working_ = true;
}

bool PlanMaker::was_wanted(uint64_t key) {
  const std::lock_guard lock(mutex_);
  return wanted_.contains(key);
}

bool PlanMaker::wait(Deadline until) {
  std::unique_lock lock(mutex_);
  return idle_.wait_until(lock, until.at(), [&] { return !working_; });
}

int PlanMaker::threads() {
  const std::lock_guard lock(mutex_);
  return threads_;
}

void PlanMaker::end() {
  ended_ = true;
  std::thread thread;
  {
    const std::lock_guard lock(mutex_);
    queue_.clear();
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
}

void PlanMaker::work() {
  take_lowest_priority();
  std::unique_lock lock(mutex_);
  while (!queue_.empty()) {
    const WantedPlans wanted = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    try {
      const Cancellable cancellable(ended_, wanted.seconds);
      make_kept(wanted);
    } catch (const std::exception& error) {
      if (ended_) {
        log_info("the process ends before plans are made for its {}", ranks_of(wanted));
      } else {
        warn_of(wanted, error.what());
      }
    }
    lock.lock();
  }
  working_ = false;
  idle_.notify_all();
}

void PlanMaker::make_kept(const WantedPlans& wanted) {
  const std::string path = synthesised_path(wanted.key, wanted.folder);
  if (is_usable(path, wanted)) return;  // another process has made them
  if (access(path.c_str(), F_OK) == 0) {
    log_warn("TUTTI_SYNTH=auto: the plans in {} cannot be used, and are made again in the background", path);
  } else {
    log_info("TUTTI_SYNTH=auto: no plans are kept for the {} of this network; they are made in the background",
             ranks_of(wanted));
  }
  const double began = processor_seconds();
  write_private(path, proven_text(wanted));
  log_info(
      "TUTTI_SYNTH=auto: plans for {} were made in {:.2g} s of processor time, and are kept in {}: the next "
      "communicator of this machine and these ranks can choose them",
      ranks_of(wanted), processor_seconds() - began, path);
}

void make_plans_later(const topo::Graph& graph, const CostInputs& inputs) {
  if (env().synth != Synth::Auto || graph.ranks.size() < 2) return;
  if (inputs.synthesised != nullptr && inputs.synthesised->is_of_now) return;
  try {
    PlanMaker& maker = PlanMaker::of_this_process();
    const uint64_t key = synthesis_key(graph, nodes_of_plans(graph, graph.ranks, inputs.order));
    if (maker.was_wanted(key)) return;
    WantedPlans wanted{.graph = graph,
                       .inputs = inputs,
                       .key = key,
                       .folder = cache_folder(),
                       .proofs = env().init_timeout * kPartForProofs,
                       .seconds = kMakingSeconds};
    wanted.inputs.view = nullptr;  // synthesis needs it not, and it is large
    maker.want(std::move(wanted));
  } catch (const std::exception& error) {
    log_warn("TUTTI_SYNTH=auto: no plans are made: {}", error.what());
  }
}

void make_demanded_plans(const topo::Graph& graph, CostInputs& inputs, Deadline until) {
  if (env().synth != Synth::Auto || graph.ranks.size() < 2) return;
  if (inputs.synthesised != nullptr && inputs.synthesised->is_of_now) return;
  const auto demand = std::find_if(inputs.forced.begin(), inputs.forced.end(), [&](const auto& one) {
    if (!is_synthesised(one.second)) return false;
    return inputs.synthesised == nullptr || !inputs.synthesised->find(collective_named(one.first), one.second);
  });
  if (demand == inputs.forced.end()) return;
  make_plans_later(graph, inputs);
  if (!PlanMaker::of_this_process().wait(until)) {
    throw_error(
        Code::Timeout,
        "TUTTI_ALGO forces {}:{}, and TUTTI_SYNTH=auto is still making plans for these {} in the background: "
        "make the communicator again once they are made, raise TUTTI_INIT_TIMEOUT, or make them before by `tutti "
        "tune --synth`",
        demand->first, demand->second, counted(graph.ranks.size(), "rank"));
  }
  inputs.synthesised = kept_synthesised(graph, graph.ranks, inputs.order);
}

}  // namespace tutti::select
