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
constexpr double kSecondsBetweenChecks = 0.02;

std::string ranks_of(const WantedPlans& wanted) { return counted(wanted.number(), "rank"); }

/// Of the calling thread alone: Linux has a policy and a nice value for each. It runs where nothing else wants to, also
/// where the program's own threads have a real-time policy, and on the processors that they are bound to.
void take_lowest_priority() {
  const sched_param none{};
  if (sched_setscheduler(0, SCHED_IDLE, &none) == 0) return;
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kLowestPriority);
}

/// Where it was lowered: without RLIMIT_NICE or privileges it remains so.
void leave_lowest_priority() {
  const sched_param none{};
  if (sched_getscheduler(0) == SCHED_IDLE) sched_setscheduler(0, SCHED_OTHER, &none);
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
  if (ended_) return;
  const uint64_t key = wanted.key;
  const auto [known, is_new] = wanted_.try_emplace(key);
  if (!is_new && !wanted.demanded) return;
  if (now_ != nullptr && now_->key == key) {
    now_->demanded = true;
    return;
  }
  known->second = why_never(wanted);
  if (!known->second.empty()) {
    if (is_new) warn_of(wanted, known->second);
    return;
  }
  put(std::move(wanted));
  if (working_) return;
  try {
    start();
  } catch (...) {
    std::erase_if(queue_, [&](const WantedPlans& queued) { return queued.key == key; });
    wanted_.erase(key);
    throw;
  }
}

/// Demanded ones come before the others, which make way.
void PlanMaker::put(WantedPlans wanted) {
  std::erase_if(queue_, [&](const WantedPlans& queued) { return queued.key == wanted.key; });
  if (!wanted.demanded) return queue_.push_back(std::move(wanted));
  const auto others = std::find_if(queue_.begin(), queue_.end(), [](const auto& queued) { return !queued.demanded; });
  queue_.insert(others, std::move(wanted));
  if (now_ != nullptr && !now_->demanded) stopped_ = true;
}

void PlanMaker::start() {
  if (thread_.joinable()) thread_.join();  // it has said that it ends
  thread_ = start_without_signals([this] { work(); });
  ++threads_;
  working_ = true;
}

bool PlanMaker::was_wanted(uint64_t key) {
  const std::lock_guard lock(mutex_);
  return wanted_.contains(key);
}

std::string PlanMaker::why_not(uint64_t key) {
  const std::lock_guard lock(mutex_);
  const auto known = wanted_.find(key);
  return known == wanted_.end() ? "" : known->second;
}

bool PlanMaker::is_pending(uint64_t key) const {
  if (now_ != nullptr && now_->key == key) return true;
  return std::any_of(queue_.begin(), queue_.end(), [&](const WantedPlans& queued) { return queued.key == key; });
}

bool PlanMaker::wait(uint64_t key, Deadline until, const std::function<void()>& check) {
  return wait_for([&] { return !is_pending(key); }, until, check);
}

bool PlanMaker::wait(Deadline until) {
  return wait_for([&] { return !working_; }, until, {});
}

bool PlanMaker::wait_for(const std::function<bool()>& over, Deadline until, const std::function<void()>& check) {
  std::unique_lock lock(mutex_);
  while (!over()) {
    if (until.passed()) return false;
    changed_.wait_until(lock, std::min(until.at(), Deadline::in(kSecondsBetweenChecks).at()));
    if (!check) continue;
    lock.unlock();
    check();
    lock.lock();
  }
  return true;
}

int PlanMaker::threads() {
  const std::lock_guard lock(mutex_);
  return threads_;
}

void PlanMaker::end() {
  std::thread thread;
  {
    const std::lock_guard lock(mutex_);
    ended_ = stopped_ = true;
    queue_.clear();
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
}

void PlanMaker::work() {
  std::unique_lock lock(mutex_);
  while (!queue_.empty()) {
    WantedPlans wanted = std::move(queue_.front());
    queue_.pop_front();
    now_ = &wanted;
    stopped_ = false;
    if (wanted.demanded) {
      leave_lowest_priority();
    } else {
      take_lowest_priority();
    }
    lock.unlock();
    std::string why_not = make(wanted);
    lock.lock();
    now_ = nullptr;
    const bool made_way = !why_not.empty() && stopped_ && !ended_;
    if (made_way) {
      put(std::move(wanted));
    } else {
      wanted_[wanted.key] = std::move(why_not);
    }
    changed_.notify_all();
  }
  working_ = false;
  changed_.notify_all();
}

/// Why it cannot; "" if they are kept now.
std::string PlanMaker::make(const WantedPlans& wanted) {
  try {
    const Cancellable cancellable(stopped_, wanted.seconds);
    make_kept(wanted);
    return "";
  } catch (const std::exception& error) {
    if (ended_) {
      log_info("the process ends before plans are made for its {}", ranks_of(wanted));
    } else if (!stopped_) {
      warn_of(wanted, error.what());
    }
    return error.what();
  }
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

namespace {

/// The plans of a network, with the environment of now.
WantedPlans wanted_for(const topo::Graph& graph, const CostInputs& inputs, bool demanded) {
  WantedPlans wanted{.graph = graph,
                     .inputs = inputs,
                     .key = synthesis_key(graph, nodes_of_plans(graph, graph.ranks, inputs.order)),
                     .folder = cache_folder(),
                     .proofs = env().init_timeout * kPartForProofs,
                     .seconds = kMakingSeconds,
                     .demanded = demanded};
  wanted.inputs.view = nullptr;  // synthesis needs it not, and it is large
  return wanted;
}

/// Whether TUTTI_SYNTH=auto has anything to do.
bool lacks_plans(const topo::Graph& graph, const CostInputs& inputs) {
  if (env().synth != Synth::Auto || graph.ranks.size() < 2) return false;
  return inputs.synthesised == nullptr || !inputs.synthesised->is_of_now;
}

}  // namespace

void make_plans_later(const topo::Graph& graph, const CostInputs& inputs) {
  if (!lacks_plans(graph, inputs)) return;
  try {
    PlanMaker& maker = PlanMaker::of_this_process();
    if (maker.was_wanted(synthesis_key(graph, nodes_of_plans(graph, graph.ranks, inputs.order)))) return;
    maker.want(wanted_for(graph, inputs, false));
  } catch (const std::exception& error) {
    log_warn("TUTTI_SYNTH=auto: no plans are made: {}", error.what());
  }
}

void make_demanded_plans(const topo::Graph& graph, CostInputs& inputs, Deadline until,
                         const std::function<void()>& check) {
  if (!lacks_plans(graph, inputs)) return;
  const auto demand = std::find_if(inputs.forced.begin(), inputs.forced.end(), [&](const auto& one) {
    const Collective collective = collective_named(one.first);
    if (!is_synthesised(one.second) || !is_synthesised(collective)) return false;
    return inputs.synthesised == nullptr || !inputs.synthesised->find(collective, one.second);
  });
  if (demand == inputs.forced.end()) return;
  PlanMaker& maker = PlanMaker::of_this_process();
  WantedPlans wanted = wanted_for(graph, inputs, true);
  const uint64_t key = wanted.key;
  const std::string ranks = counted(graph.ranks.size(), "rank");
  log_info("TUTTI_SYNTH=auto: making the communicator waits for plans for its {}, since TUTTI_ALGO forces {}:{}", ranks,
           demand->first, demand->second);
  maker.want(std::move(wanted));
  if (!maker.wait(key, until, check)) {
    throw_error(Code::Timeout,
                "TUTTI_ALGO forces {}:{}, and TUTTI_SYNTH=auto is still making plans for these {}: make them before by "
                "`tutti tune --synth`, raise TUTTI_INIT_TIMEOUT, or, if the process goes on, make the communicator "
                "again later",
                demand->first, demand->second, ranks);
  }
  if (const std::string why = maker.why_not(key); !why.empty()) {
    throw_error(Code::Unsupported,
                "TUTTI_ALGO forces {}:{}, and TUTTI_SYNTH=auto could not make plans for these {}: {}", demand->first,
                demand->second, ranks, why);
  }
  inputs.synthesised = kept_synthesised(graph, graph.ranks, inputs.order);
}

}  // namespace tutti::select
