#include "select/plan_maker.hpp"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <future>
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

/// That of plain threads, where the program's own, from which it is inherited, is a real-time one.
void take_plain_priority() {
  const sched_param none{};
  if (sched_getscheduler(0) != SCHED_OTHER) sched_setscheduler(0, SCHED_OTHER, &none);
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

/// Makes them, unless they are kept already. Throws Error.
void make_kept(const WantedPlans& wanted) {
  const std::string path = synthesised_path(wanted.key, wanted.folder);
  if (is_usable(path, wanted)) return;  // another process has made them
  if (access(path.c_str(), F_OK) == 0) {
    log_warn("TUTTI_SYNTH=auto: the plans in {} cannot be used, and are made again", path);
  } else {
    log_info("TUTTI_SYNTH=auto: no plans are kept for the {} of this network; they are made now", ranks_of(wanted));
  }
  const double began = processor_seconds();
  write_private(path, proven_text(wanted));
  log_info(
      "TUTTI_SYNTH=auto: plans for {} were made in {:.2g} s of processor time, and are kept in {}: the next "
      "communicator of this machine and these ranks can choose them",
      ranks_of(wanted), processor_seconds() - began, path);
}

/// The same, until `stopped`: why they cannot be made; "" if they are kept now.
std::string why_not_kept(const WantedPlans& wanted, const std::atomic<bool>& stopped) {
  try {
    const Cancellable cancellable(stopped, wanted.seconds);
    make_kept(wanted);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// The thread has ended when this has.
struct Joined {
  std::atomic<bool>& stopped;
  std::thread& thread;
  ~Joined() {
    stopped = true;
    thread.join();
  }
};

}  // namespace

/// While it lives, a communicator waits for plans.
class PlanMaker::Demand {
 public:
  explicit Demand(PlanMaker& maker) : maker_(maker) {
    const std::lock_guard lock(maker_.mutex_);
    ++maker_.demands_;
  }
  ~Demand() {
    const std::lock_guard lock(maker_.mutex_);
    --maker_.demands_;
    maker_.changed_.notify_all();
  }
  Demand(const Demand&) = delete;
  Demand& operator=(const Demand&) = delete;

 private:
  PlanMaker& maker_;
};

PlanMaker& PlanMaker::of_this_process() { return tutti::of_this_process<PlanMaker>(); }

void PlanMaker::want(WantedPlans wanted) {
  end_at_exit();
  const std::lock_guard lock(mutex_);
  if (ended_ || !wanted_.insert(wanted.key).second) return;
  const std::string why_not = why_never(wanted);
  if (!why_not.empty()) return warn_of(wanted, why_not);
  const uint64_t key = wanted.key;
  queue_.push_back(std::move(wanted));
  if (working_) return;
  try {
    if (thread_.joinable()) thread_.join();  // it has said that it ends
    thread_ = start_without_signals([this] { work(); });
  } catch (...) {
    queue_.pop_back();
    wanted_.erase(key);
    throw;
  }
  ++threads_;
  working_ = true;
}

bool PlanMaker::was_wanted(uint64_t key) {
  const std::lock_guard lock(mutex_);
  return wanted_.contains(key);
}

void PlanMaker::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !working_; });
}

std::optional<std::string> PlanMaker::make_now(const WantedPlans& wanted, Deadline until,
                                               const std::function<void()>& check) {
  end_at_exit();
  if (std::string why_not = why_never(wanted); !why_not.empty()) return why_not;
  const Demand demand(*this);
  std::atomic<bool> stopped{false};
  std::promise<std::string> made;
  std::future<std::string> why_not = made.get_future();
  std::thread thread = start_without_signals([&] {
    take_plain_priority();
    made.set_value(why_not_kept(wanted, stopped));
  });
  const Joined joined{stopped, thread};
  const auto soon = [&] { return std::min(until.at(), Deadline::in(kSecondsBetweenChecks).at()); };
  while (why_not.wait_until(soon()) != std::future_status::ready) {
    if (until.passed()) return {};
    if (ended_) return "the process ends";
    if (check) check();
  }
  return why_not.get();
}

int PlanMaker::threads() {
  const std::lock_guard lock(mutex_);
  return threads_;
}

void PlanMaker::end() {
  std::thread thread;
  {
    std::unique_lock lock(mutex_);
    ended_ = true;
    queue_.clear();
    changed_.wait(lock, [&] { return demands_ == 0; });
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
    const std::string why_not = why_not_kept(wanted, ended_);
    if (ended_ && !why_not.empty()) {
      log_info("the process ends before plans are made for its {}", ranks_of(wanted));
    } else if (!why_not.empty()) {
      warn_of(wanted, why_not);
    }
    lock.lock();
  }
  working_ = false;
  changed_.notify_all();
}

namespace {

/// The plans of a network, with the environment of now.
WantedPlans wanted_for(const topo::Graph& graph, const CostInputs& inputs) {
  WantedPlans wanted{.graph = graph,
                     .inputs = inputs,
                     .key = synthesis_key(graph, nodes_of_plans(graph, graph.ranks, inputs.order)),
                     .folder = cache_folder(),
                     .proofs = env().init_timeout * kPartForProofs,
                     .seconds = kMakingSeconds};
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
    maker.want(wanted_for(graph, inputs));
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
  WantedPlans wanted = wanted_for(graph, inputs);
  const std::string forced = fmt::format("TUTTI_ALGO forces {}:{}", demand->first, demand->second);
  const std::string ranks = ranks_of(wanted), path = synthesised_path(wanted.key, wanted.folder);
  log_info("TUTTI_SYNTH=auto: making the communicator waits for plans for its {}, since {}", ranks, forced);
  const auto why_not = maker.make_now(wanted, until, check);
  if (!why_not) {
    maker.want(std::move(wanted));
    throw_error(Code::Timeout,
                "{}, and TUTTI_SYNTH=auto has not made plans for these {} in time: make them before by `tutti tune "
                "--synth`, raise TUTTI_INIT_TIMEOUT (or the limit that the program gave), or, if the process goes on, "
                "make the communicator again later",
                forced, ranks);
  }
  if (!why_not->empty()) {
    throw_error(Code::Unsupported, "{}, and TUTTI_SYNTH=auto could not make plans for these {}: {}", forced, ranks,
                *why_not);
  }
  inputs.synthesised = kept_synthesised(graph, graph.ranks, inputs.order);
  if (inputs.synthesised != nullptr) return;
  throw_error(Code::Timeout,
              "{}, and the plans for these {} in {} are not used, since proving them takes too long: raise "
              "TUTTI_INIT_TIMEOUT (or the limit that the program gave)",
              forced, ranks, path);
}

}  // namespace tutti::select
