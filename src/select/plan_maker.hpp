// TUTTI_SYNTH=auto: where no plans are kept for a network, they are made while the job runs, and kept for the next
// communicator of that machine and these ranks.
//
// One thread of rank 0's process makes them, at the lowest priority, one network after the other and each once a
// process. Those that a communicator waits for come first, at the priority of the program where the system allows that,
// and are tried again when they are demanded again. The thread ends when nothing is left to be made, and gives up when
// the process exits. A child after fork has none.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
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
  uint64_t key = 0;       ///< synthesis_key() of them
  std::string folder;     ///< where they are kept; "": there is no place
  double proofs = 0;      ///< seconds that making a communicator has for proofs of plans, if its ranks share no core
  double seconds = 0;     ///< of processor time: making them is given up then
  bool demanded = false;  ///< a communicator waits for them
  uint64_t number() const { return graph.ranks.size(); }
};

class PlanMaker {
 public:
  static PlanMaker& of_this_process();

  /// Returns at once. What cannot be made is a warning, once, and starts no thread. What was given up before is tried
  /// again if it is demanded. Throws Error(SystemError) if no thread can be started; it may be wanted again then.
  void want(WantedPlans wanted);
  /// Whether it was wanted before: then it is being made, is kept, or was given up.
  bool was_wanted(uint64_t key);
  /// Why plans with this key were given up; "": they were not.
  std::string why_not(uint64_t key);
  /// Until plans with this key are made, or were given up; or until then: false. Calls `check` outside of all locks,
  /// many times a second, and throws what it throws.
  bool wait(uint64_t key, Deadline until, const std::function<void()>& check = {});
  /// The same of all that was wanted.
  bool wait(Deadline until = Deadline::in(kForEver));
  /// Gives up what is not made yet, for good, and joins the thread.
  void end();
  /// Threads that it has started until now.
  int threads();

 private:
  static constexpr double kForEver = 1e9;  // seconds
  bool wait_for(const std::function<bool()>& over, Deadline until, const std::function<void()>& check);
  void put(WantedPlans wanted);
  void start();
  void work();
  std::string make(const WantedPlans& wanted);
  void make_kept(const WantedPlans& wanted);
  bool is_pending(uint64_t key) const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<WantedPlans> queue_;           // demanded ones first
  std::map<uint64_t, std::string> wanted_;  // keys; and why they were given up
  WantedPlans* now_ = nullptr;              // being made
  int threads_ = 0;
  bool working_ = false;  // the thread has not said yet that it ends
  std::atomic<bool> ended_{false};
  std::atomic<bool> stopped_{false};  // what is being made now
  std::thread thread_;
};

/// On rank 0, once its communicator has chosen: has plans made for the network, if TUTTI_SYNTH is auto and none were
/// found. What goes wrong is a warning.
void make_plans_later(const topo::Graph& graph, const CostInputs& inputs);

/// On rank 0, before its communicator chooses for calls on memory of the host: where TUTTI_ALGO demands a synthesised
/// plan, none was found and TUTTI_SYNTH is auto, has plans made and waits for them. Throws Error(Unsupported), with the
/// reason, if they cannot be made, and Error(Timeout) if they are not made until then: they are made all the same, if
/// the process goes on. While it waits, it calls `check` many times a second, and throws what that throws: the
/// communicator's failure.
void make_demanded_plans(const topo::Graph& graph, CostInputs& inputs, Deadline until,
                         const std::function<void()>& check = {});

}  // namespace tutti::select
