// Runs the steps of all ranks in one possible order, as lanes, links and capacities allow.
//
// A lane waits only for finished steps of others, and no step can prevent another from running. So termination does not
// depend on the order: one run decides about deadlock for every run, and one round for all rounds (a round waits for
// earlier rounds only). Drains add no cycle: at the end of a call a rank waits for the readers of what it lent, and no
// rank waits for the end of a call.
#pragma once

#include <vector>

#include "base/cancel.hpp"
#include "plan/verify/model.hpp"

namespace tutti::plan::verifier {

/// A running step.
struct Moment {
  uint32_t rank = 0;
  uint32_t lane = 0;  ///< in the numbering of all ranks
  uint32_t step = 0;  ///< likewise
  uint32_t round = 0;
};

class Replay {
 public:
  /// Rounds k and k + versions use the same scratch: lanes of a rank that share it wait for each other accordingly.
  Replay(const Model& model, uint32_t capacity, uint32_t versions, uint32_t rounds);

  /// Calls visit(Moment) for every step of every round, in an order that keeps program order, `after`, messages and
  /// credits. Throws Rejected, with a description of the cycle, at a deadlock.
  template <class Visit>
  void run(Visit&& visit) {
    for (uint32_t lane = 0; lane < model_.all_lanes(); ++lane) wake(lane);
    while (waiting_ > 0) {
      check_cancelled();
      const uint32_t lane = pop();
      while (!finished(lane) && blocked(lane).reason == Reason::None) {
        visit(Moment{lane / model_.lanes(), lane, states_[lane].step, states_[lane].round});
        perform(lane);
      }
    }
    check_all_finished();
  }

 private:
  enum class Reason : uint8_t { None, Message, Credit, After, Fence };
  struct Wait {
    Reason reason = Reason::None;
    uint32_t lane = 0;  // the lane waited for
  };
  struct State {
    Range steps;
    uint32_t step = 0;
    uint32_t round = 0;
  };
  struct Link {
    uint32_t from = 0, to = 0;        // ranks
    uint32_t first = 0, count = 0;    // its messages of one round
    uint64_t sent = 0, received = 0;  // of all rounds, so far
  };
  bool finished(uint32_t lane) const { return states_[lane].round == rounds_; }
  Wait blocked(uint32_t lane) const;
  Wait blocked_by_own_rank(uint32_t lane) const;
  void perform(uint32_t lane);
  void wake(uint32_t lane);
  void wake_rank(uint32_t lane);
  uint32_t pop();
  void check_all_finished() const;
  std::string words_of(uint32_t lane, const Wait& wait) const;

  const Model& model_;
  uint32_t capacity_, versions_, rounds_;
  std::vector<State> states_;
  std::vector<Link> links_;
  std::vector<bool> awaited_;    // some step names it in `after`
  std::vector<uint32_t> queue_;  // a ring of lanes that may be able to continue, each at most once
  size_t head_ = 0, waiting_ = 0;
  std::vector<bool> queued_;
};

}  // namespace tutti::plan::verifier
