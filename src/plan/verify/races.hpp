// Checks that lanes do not race for memory, and that lent memory does not change until its readers are done.
#pragma once

#include <vector>

#include "plan/verify/access_log.hpp"
#include "plan/verify/replay.hpp"

namespace tutti::plan::verifier {

class Races {
 public:
  enum class Lends : uint8_t { Claimed, Supposed };
  /// Checks the memory of the first `ranks` ranks. Lends::Supposed: also finds the sends that could lend but do not
  /// claim it.
  Races(const Model& model, uint32_t ranks, uint32_t versions, Lends lends);
  /// Throws Rejected at a race or a false lend.
  void run(const Moment& moment);
  /// After the run: throws Rejected if a rank can leave before every other has entered.
  void check_barrier() const;
  /// After a run with Lends::Supposed: the strongest Lend that a send of the first ranks could claim.
  Lend provable(uint32_t step) const;

  /// The number of rounds to run.
  uint32_t rounds() const { return rounds_; }

 private:
  Snapshot& departure(uint32_t round, uint32_t step) { return departures_[size_t{round} * model_.steps() + step]; }
  uint64_t& departed(uint32_t round, uint32_t step) { return departed_[size_t{round} * steps_ + step]; }
  uint32_t time_of(uint32_t round, uint32_t lane, uint32_t step) const;
  void learn(const Moment& moment);
  void learn_from(const Moment& moment, uint32_t step, uint32_t lane);
  void touch(const Moment& moment, AccessLog& log);
  void touch_lent(const Moment& moment, AccessLog& log);
  void leave(const Moment& moment);
  bool lent(const Step& step, bool in_place) const;
  void report(const Clash& clash, const AccessLog& log);
  [[noreturn]] void reject_race(const Clash& clash, const AccessLog& log) const;
  [[noreturn]] void reject_lend(const Clash& clash, const AccessLog& log) const;
  uint32_t step_of(Access access) const;
  uint32_t round_of(Access access) const;
  bool is_empty(uint32_t message) const;
  bool fenced(uint32_t rank) const { return model_.lanes() > 1 && model_.is_fenced(rank); }

  const Model& model_;
  uint32_t ranks_, steps_;  // that are checked
  uint32_t versions_, rounds_;
  Lends lends_;
  Clocks clocks_;
  std::vector<AccessLog> logs_;
  std::vector<Snapshot> departures_;  // by round and step: the clock at its end
  std::vector<uint64_t> departed_;    // by round and checked step: the time of its end
  std::vector<uint32_t> waiters_;     // by step: how many steps name it in `after`
  std::vector<Snapshot> ends_;        // by round and lane
  std::vector<uint8_t> broken_;       // by step: cannot be lent out of place (1), in place (2)
  uint64_t now_ = 0;
};

}  // namespace tutti::plan::verifier
