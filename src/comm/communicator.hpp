// A communicator: one rank's place among others, and the calls it makes there.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/env.hpp"
#include "base/log.hpp"
#include "base/status.hpp"
#include "comm/call.hpp"
#include "comm/call_board.hpp"
#include "comm/call_diagnostics.hpp"
#include "comm/decision_log.hpp"
#include "comm/fabric.hpp"
#include "comm/groups.hpp"
#include "comm/join_options.hpp"
#include "comm/planner.hpp"
#include "comm/scales.hpp"
#include "control/endpoint.hpp"
#include "exec/host/run.hpp"

namespace tutti::comm {

/// What a communicator does under one ticket: one collective, or sends and receives that run at the same time.
using Work = std::span<const Call>;

/// A rank's part in a split: what it is to join.
struct Part {
  control::UniqueId id;
  Rank ranks = 0, rank = 0;
  Groups groups;
  std::string title;  ///< for people
};

class Communicator {
 public:
  /// Joins, wires up, and agrees with the others on the decision table. Throws what Endpoint::join throws, and
  /// Error(Mismatch) where the ranks' configurations differ, Error(Unsupported) where a peer cannot be reached.
  static std::shared_ptr<Communicator> join(const control::UniqueId& id, Rank ranks, Rank rank,
                                            JoinOptions options = {});
  ~Communicator();

  Rank rank() const { return rank_; }
  Rank ranks() const { return ranks_; }
  /// Names it in messages.
  const std::string& title() const { return diagnostics_.title(); }
  /// The same for its splits.
  const Timeouts& timeouts() const { return timeouts_; }
  Scales& scales() { return scales_; }

  /// Throws Error(InvalidArgument) naming what is wrong with a call; touches nothing.
  void check(const Call& call) const;
  /// Was this very call found right before? To be asked by whoever has the turn.
  bool knows(const Call& call) const { return !left_ && planner_->knows(call); }

  /// Tickets run in the order in which they were taken, whoever runs them.
  uint64_t take_ticket() { return next_ticket_.fetch_add(1, std::memory_order_relaxed); }
  void await_turn(uint64_t ticket) const {
    if (serving_.load(std::memory_order_acquire) != ticket) await_others(ticket);
  }

  /// Prepares `work`, which must stay until `finish`; null when it is over already, for good or (`status`) bad.
  exec::Execution* begin(Work work, Status& status);
  /// Ends it; sets `status` if it went wrong.
  void finish(Status& status) {
    planner_->ran(*current_);
    board_->leave(calls_);
    diagnostics_.end();
    if (!execution_.status.ok()) status = what_went_wrong();
  }
  void end_turn() {  // only whoever has the turn writes it
    serving_.store(serving_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  /// An exception that nobody expected came out of a call: the communicator fails.
  Status broke(const std::string& what);
  const exec::Backoff& backoff() const { return backoff_; }
  /// Are calls logged (TUTTI_LOG=trace)?
  bool traces() const { return traces_; }
  /// Logs what has run, for whoever has the turn.
  void trace(Work work, const Status& status, double seconds);
  /// How the last call was done, for whoever has the turn.
  CallInfo last_call();

  /// The communicator of the ranks with the same colour; nothing for a negative one. To be called by whoever has the
  /// turn, on all ranks.
  std::optional<Part> split(int colour, int key);
  void abort() { endpoint_->abort(); }
  /// The first failure; Ok when there is none.
  Status failure() const;
  /// Not 0 once the communicator has failed.
  const std::atomic<uint32_t>& failed() const { return failed_; }
  /// Leaves; the communicator can only be destroyed afterwards. Tells a rank that made fewer or more calls.
  Status leave();
  /// After leave(), by whoever has the turn: gives back all but what a call that comes too late needs to be refused.
  void retire();

 private:
  Communicator(std::unique_ptr<control::Endpoint> endpoint, std::string title, const Timeouts& timeouts);
  void wire_up(Groups groups);
  void agree(bool groups_given);
  void narrate(const std::vector<std::string>& reports, const AgreedCapabilities& agreed,
               const select::DecisionTable& table, select::Setting setting);
  void await_others(uint64_t ticket) const;
  void begin_collective(const Call& call);
  Status copy_to_self(Work work) const;
  bool begin_transfers(Work work);
  void load(Prepared& prepared);
  Status what_went_wrong();
  Status refusal() const;
  std::vector<std::string> exchange(std::string mine, Deadline deadline);
  bool has_failed() const { return failed_.load(std::memory_order_acquire) != 0; }

  const std::shared_ptr<control::Endpoint> endpoint_;
  const std::atomic<uint32_t>& failed_ = endpoint_->failed();
  const Rank rank_ = endpoint_->rank(), ranks_ = endpoint_->ranks();
  const Timeouts timeouts_;
  std::shared_ptr<Board> board_ = std::make_shared<Board>();
  CallDiagnostics diagnostics_;
  Groups groups_;
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<exec::Links> links_;
  std::unique_ptr<exec::Staging> staging_;
  exec::Backoff backoff_;
  exec::Execution execution_;
  std::unique_ptr<Planner> planner_;
  Scales scales_;
  std::unique_ptr<DecisionLog> narration_;  // null: nothing is told
  const bool traces_ = log_enabled(LogLevel::Trace);

  bool left_ = false;
  uint64_t calls_ = 0;           // collectives
  uint64_t digest_ = 0;          // of them all, in order
  Prepared* current_ = nullptr;  // what runs now
  std::vector<NumberedCall> group_;
  std::map<std::pair<Rank, bool>, uint64_t> transfer_counts_;  // by peer and direction
  std::unique_ptr<unsigned char[]> scratch_;
  unsigned char* scratch_begin_ = nullptr;  // aligned
  uint64_t scratch_bytes_ = 0;
  std::atomic<uint64_t> next_ticket_{0}, serving_{0};
};

}  // namespace tutti::comm
