// TUTTI_SYNTH=auto: where no plans are kept for a network, they are made while the job runs, and kept for the next
// communicator of that machine and these ranks.
//
// One thread of rank 0's process makes them, at the lowest priority, one network after the other and each once a
// process. It ends when nothing is left to be made, and gives up when the process exits. A child after fork has none.
// Plans that a communicator waits for have a thread of their own, at the priority of plain threads, which ends with
// that wait.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "base/deadline.hpp"
#include "select/inputs.hpp"
#include "topo/graph.hpp"

namespace tutti::select {

/// What plans are made from. All of it is copied: the thread reads no environment.
struct WantedPlans {
  topo::Graph graph;
  CostInputs inputs;
  uint64_t key = 0;    ///< synthesis_key() of them
  std::string folder;  ///< where they are kept; "": there is no place
  double proofs = 0;   ///< seconds that making a communicator has for proofs of plans, if its ranks share no core
  double seconds = 0;  ///< of processor time: making them is given up then
  uint64_t number() const { return graph.ranks.size(); }
};

class PlanMaker {
 public:
  static PlanMaker& of_this_process();

  /// Returns at once. What cannot be made is a warning, once, and starts no thread. Throws Error(SystemError) if no
  /// thread can be started; it may be wanted again then.
  void want(WantedPlans wanted);
  /// Whether it was wanted before: then it is being made, is kept, or was given up.
  bool was_wanted(uint64_t key);
  /// Until all that was wanted is made, or was given up.
  void wait();
  /// Makes them while the caller waits, whatever was wanted before: why they cannot be made; "": they are kept now.
  /// None: they were not made until then, and are given up. Calls `check` many times a second, and throws what it
  /// throws. Throws Error(SystemError) if no thread can be started.
  std::optional<std::string> make_now(const WantedPlans& wanted, Deadline until,
                                      const std::function<void()>& check = {});
  /// Gives up what is not made yet, for good, and joins all threads.
  void end();
  /// Threads that want() has started until now.
  int threads();

 private:
  class Demand;
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<WantedPlans> queue_;
  std::set<uint64_t> wanted_;  // keys
  int threads_ = 0;
  int demands_ = 0;       // calls of make_now()
  bool working_ = false;  // the thread has not said yet that it ends
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

/// On rank 0, once its communicator has chosen: has plans made for the network, if TUTTI_SYNTH is auto and none were
/// found. What goes wrong is a warning.
void make_plans_later(const topo::Graph& graph, const CostInputs& inputs);

/// On rank 0, before its communicator chooses for calls on memory of the host: where TUTTI_ALGO demands a synthesised
/// plan, none was found and TUTTI_SYNTH is auto, has plans made and waits for them. Throws Error(Unsupported), with the
/// reason, if they cannot be made, and Error(Timeout) if they are not made until then: a process that goes on makes
/// them in the background. While it waits, it calls `check` many times a second, and throws what that throws: the
/// communicator's failure.
void make_demanded_plans(const topo::Graph& graph, CostInputs& inputs, Deadline until,
                         const std::function<void()>& check = {});

}  // namespace tutti::select
