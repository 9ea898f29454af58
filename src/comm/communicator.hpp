// A communicator: one rank of a group of ranks, and the calls that it makes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/env.hpp"
#include "base/log.hpp"
#include "base/status.hpp"
#include "comm/agreement.hpp"
#include "comm/backend_calls.hpp"
#include "comm/call.hpp"
#include "comm/call_board.hpp"
#include "comm/call_diagnostics.hpp"
#include "comm/call_log.hpp"
#include "comm/decision_log.hpp"
#include "comm/fabric.hpp"
#include "comm/groups.hpp"
#include "comm/host_ranks.hpp"
#include "comm/join_options.hpp"
#include "comm/planner.hpp"
#include "comm/pre_mul_scalars.hpp"
#include "comm/rank_status.hpp"
#include "comm/window.hpp"
#include "control/endpoint.hpp"
#include "exec/pending.hpp"
#include "exec/wait.hpp"
#include "trace/profiler.hpp"

namespace tutti::comm {

/// The work of one ticket: one collective, or sends and receives that run at the same time.
using Work = std::span<const Call>;

/// A rank's result of a split: the communicator that it joins.
struct SplitResult {
  control::UniqueId id;
  Rank ranks = 0, rank = 0;
  Groups groups;
  std::string title;                           ///< in messages
  uint64_t call = 0;                           ///< the number of the split
  control::JoinTerms terms;                    ///< with its ranks as numbered in the communicator that was split
  std::shared_ptr<link::SegmentFiles> arenas;  ///< of the communicator that was split
};

class Communicator {
 public:
  /// Joins, connects, and agrees with the other ranks on the decision table. Throws what Endpoint::join throws,
  /// Error(Mismatch) if the ranks' configurations differ, and Error(Unsupported) if a peer is unreachable.
  static std::shared_ptr<Communicator> join(const control::UniqueId& id, Rank ranks, Rank rank,
                                            JoinOptions options = {});
  ~Communicator();

  Rank rank() const { return rank_; }
  Rank ranks() const { return ranks_; }
  /// The communicator's name in messages.
  const std::string& title() const { return diagnostics_.title(); }
  /// Splits have the same.
  const Timeouts& timeouts() const { return timeouts_; }
  /// Of calls that wait now and later; 0: TUTTI_TIMEOUT.
  void set_timeout(double seconds) { timeouts_.call.set(seconds); }
  /// By backend, but the host's: the processor that runs this rank's calls; kNoProcessor: they are refused.
  const std::vector<int>& processors() const { return processors_; }
  /// Are calls served on some backend but the host's?
  bool uses_others() const;
  /// The machine, as its algorithms were chosen for.
  const select::CostInputs& inputs() const { return inputs_; }
  /// By the backend's name; null: this process has no such backend.
  const BackendCalls* on(std::string_view backend) const;
  PreMulScalars& pre_mul_scalars() { return pre_mul_scalars_; }

  /// Throws Error(InvalidArgument) with the first mistake in a call; touches no buffer.
  void check(const Call& call) const;
  /// True if this very call was checked before; never of memory that another backend may have lost meanwhile. Only the
  /// thread whose ticket is served may ask.
  bool was_checked(const Call& call) const {
    return call.backend == kHostBackend && is_live() && on_.front()->planner().was_checked(call);
  }

  /// Tickets are served in the order in which they were taken, on whatever threads.
  uint64_t take_ticket() { return next_ticket_.fetch_add(1, std::memory_order_relaxed); }
  void await_ticket(uint64_t ticket) const {
    if (serving_.load(std::memory_order_acquire) != ticket) await_others(ticket);
  }

  /// Starts `work`, which must outlive `finish`, on the backend of its memory. Null if there is nothing to wait for: it
  /// has been enqueued, has ended, or has failed with an error in `status`. `more_follow`: an asynchronous backend may
  /// start it together with the next one, at the latest when start_held() is called.
  exec::Pending* begin(Work work, Status& status, bool more_follow = false);
  void start_held();
  /// Ends it; sets `status` if it failed.
  [[gnu::always_inline]] void finish(exec::Pending& pending, Status& status) {
    board_->leave(calls_);
    diagnostics_.end();
    if (!pending.status().ok()) {
      trace_->fail(*board_, pending.status().code);
      status = failure_status(pending.status());
    } else {
      trace_->leave();
      count(*current_);
    }
  }
  void end_ticket() {  // only the thread whose ticket is served writes it
    serving_.store(serving_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  /// A call threw an unexpected exception: fails the communicator.
  Status fail_internally(const std::string& what);
  const exec::Backoff& backoff() const { return backoff_; }
  /// True if calls are logged (TUTTI_LOG=trace) or a profiler is attached: then what runs is to be noted.
  bool notes() const { return notes_; }
  /// Work that is about to begin.
  struct Noted {
    std::chrono::steady_clock::time_point start;
    trace::ProfilerRange range;
  };
  Noted note(Work work) const noexcept;
  /// It has run, or has been enqueued. Only the thread whose ticket is served.
  void note_end(Noted& noted, Work work, const Status& status) noexcept;
  /// Seconds that `work` would take, by the cost model.
  double estimate(Work work) const;
  /// How the last call was executed. Only the thread whose ticket is served.
  CallInfo last_call();
  /// Bytes that this rank's calls have sent. Only the thread whose ticket is served.
  uint64_t sent() const { return log_->totals.sum(&CallTotal::sent); }

  /// The communicator of the ranks with the same colour; empty for a negative colour. Called on all ranks, by the
  /// thread whose ticket is served.
  std::optional<SplitResult> split(int colour, int key);
  /// Frees the arena, links, programs and what backends hold; the control connection, the numbers of calls and what
  /// they have come to stay. All ranks call it at the same place among their calls, by the thread whose ticket is
  /// served; no other thread checks or makes calls meanwhile. Throws Error(InvalidUsage) on all ranks, with nothing
  /// changed, if some rank still has what needs them.
  void suspend();
  /// Makes them again. Throws Error(InvalidUsage) if the communicator is not suspended; any other error fails it.
  void resume();
  /// Lets peers read a buffer in memory of this backend (by number) where it lies. Returns the registration's number, 0
  /// if there is nothing to gain. Throws what Backend::add_region throws. By the thread whose ticket is served.
  uint64_t add_buffer(uint8_t backend, const void* data, uint64_t bytes);
  /// Throws Error(InvalidArgument) if there is no such registration. By the thread whose ticket is served.
  void drop_buffer(uint64_t registration);
  /// All ranks call them, at the same place among their calls, by the thread whose ticket is served. `backend`: whose
  /// memory it is. `refusal`: why this rank cannot take part; then no rank has the window, and all throw that.
  std::shared_ptr<Window> register_window(void* memory, uint64_t bytes, uint8_t backend, const Status& refusal);
  void deregister_window(Window& window);
  /// Throws Error(InvalidArgument) with the first mistake in a call on a window.
  void check(const OneSided& call) const {
    if (!call.is_valid(ranks_)) [[unlikely]]
      refuse(call);
  }
  /// Runs it, and throws its error. By the thread whose ticket is served.
  void run(Window& window, const OneSided& call) {
    if (notes_) [[unlikely]]
      return run_noted(window, call);
    run_unnoted(window, call);
  }
  /// The communicator of the ranks that are not excluded, in their order. These ranks call it, in any thread and
  /// without a ticket; it needs nothing of the others, and works on a communicator that has failed. The calls of a
  /// communicator with the same excluded ranks belong together in their order.
  std::shared_ptr<Communicator> shrink(std::vector<Rank> excluded);
  /// The communicator of these ranks, which keep their numbers, and of new processes in the places of the `replaced`
  /// ones and in those from ranks() to `ranks` - 1. The ranks that stay call it as shrink(); new processes join with
  /// grow_id().
  std::shared_ptr<Communicator> grow(std::vector<Rank> replaced, Rank ranks);
  /// The id of the next grow(); its rendezvous server is open when this returns. By the first rank that stays.
  control::UniqueId grow_id(std::vector<Rank> replaced, Rank ranks);
  void abort() {
    endpoint_->abort();
    leave_trace();
  }
  void revoke() { endpoint_->revoke(); }
  /// Fails it on all ranks; the text begins with this rank.
  void fail(Code code, const std::string& text);
  /// The first failure; Ok if there is none.
  Status failure() const;
  /// The same as other ranks hear it. Only of one that has failed.
  Error failure_for_others() const;
  /// The ranks that are known to have died or stopped before they left.
  std::vector<Rank> lost_ranks() const { return endpoint_->lost_ranks(); }
  /// Nonzero once the communicator has failed.
  const std::atomic<uint32_t>& failed() const { return failed_; }
  /// The program has heard of the failure: a call has returned it. Else the end of the communicator logs it.
  void note_heard() { heard_.store(true, std::memory_order_relaxed); }
  bool heard() const { return heard_.load(std::memory_order_relaxed); }
  /// Writes the last calls of this process into a file (control/status/trace_file.hpp).
  static void write_trace(const std::string& path);
  /// Leaves; afterwards the communicator can only be destroyed. Reports ranks that made fewer or more calls, and those
  /// that were lost before they left.
  Status leave();
  /// True if `ticket` is served now, and this is that rank of the communicator with this name. Any thread.
  bool is_next(uint64_t ticket, const std::string& name, Rank rank) const {
    return rank == rank_ && serving_.load(std::memory_order_acquire) == ticket && endpoint_->name() == name;
  }
  /// True while a call runs, or waits for its turn. Any thread.
  bool busy() const { return serving_.load(std::memory_order_acquire) != next_ticket_.load(std::memory_order_relaxed); }
  /// For a process that ends while the communicator is busy: fails it on all ranks. Any thread. Returns what they hear.
  std::string drop_at_exit();
  /// After leave(): frees all but what is needed to refuse a call that comes too late. Only the thread whose ticket is
  /// served.
  void retire();

 private:
  Communicator(std::unique_ptr<control::Endpoint> endpoint, std::string title, const Timeouts& timeouts);
  void wire_up(JoinOptions options);
  void make_data_path(std::shared_ptr<link::SegmentFiles> arenas);
  void free_data_path();
  std::vector<int> served_processors() const;
  void agree();
  std::string why_not_suspended() const;
  std::string agree_to_suspend(Deadline deadline);
  std::string unmatched_transfer(Deadline deadline);
  void end_enqueued_calls();
  void check_served_as_before() const;
  void log_decisions(Agreement agreed);
  CallInfo info_of(const Prepared& made, const BackendCalls& on) const;
  static double predicted(const Prepared& made, const BackendCalls& on);
  void await_others(uint64_t ticket) const;
  std::unique_ptr<exec::Backend> make_host_backend();
  void abort_driven();
  exec::Pending* begin_collective(const Call& call, bool more_follow);
  [[gnu::noinline]] exec::Pending* enqueue_collective(BackendCalls& on, const Call& call, bool more_follow);
  exec::Pending* begin_vector(BackendCalls& on, const Call& call);
  exec::Pending* enqueue_asynchronously(BackendCalls& on, const Prepared& prepared, exec::Binding& binding,
                                        const Call& call);
  exec::Pending* begin_transfers(Work work, Status& status);
  uint64_t next_tag(const Prepared& prepared);
  exec::Pending* enqueue(BackendCalls& on, const Prepared& prepared, const exec::Binding& binding);
  Status copy_to_self(Work work, exec::Backend& backend) const;
  void enter_transfers(Work work);
  /// A call that has succeeded, or has been enqueued.
  [[gnu::always_inline]] void count(const Prepared& made) {
    if (made.key.spec.collective == Collective::SendRecv) return count_transfers();
    const exec::Execution& execution = *made.execution;
    CallTotal& total = *made.total;
    CallTotal::add(total.calls, 1);
    CallTotal::add(total.bytes, made.bytes);
    CallTotal::add(total.sent, execution.sent());
    CallTotal::add(total.received, execution.received());
  }
  [[noreturn]] void refuse(const OneSided& call) const;
  void run_unnoted(Window& window, const OneSided& call);
  void run_noted(Window& window, const OneSided& call);
  static bool carry_out_directly(rma::Window& parts, const OneSided& call);
  void carry_out(rma::Window& parts, const OneSided& call) const;
  bool take_soon(Window& window, const OneSided& call) const;
  void await_signal(Window& window, const OneSided& call);
  void run_on_backend(Window& window, const OneSided& call);
  [[noreturn]] void fail_one_sided(const OneSided& call, const Error& error);
  std::vector<std::string> on_all_ranks(const std::function<std::string()>& step, Deadline deadline);
  void map_host_window(Window& window, const std::vector<std::string>& all, Deadline deadline);
  void map_device_window(Window& window, void* memory, uint64_t bytes, Deadline deadline);
  void deregister_device_window(Window& window, Deadline deadline);
  std::string close_window(Window& window);
  void leave_windows();
  void drop_device_windows();
  Status failure_status(Status& found);
  [[gnu::noinline]] void count_transfers();
  void leave_trace() const;
  Status unusable_status(const std::string& call) const;
  Status found_while_leaving() const;
  Deadline begin_control_call(const CallSpec& spec);
  Deadline enter_control_call(const CallSpec& spec);
  void leave_control_call();
  [[noreturn]] void fail_control_call(Code code, const char* why);
  /// What body() returns; its exception fails the communicator, and this rank's call with it.
  template <class Body>
  auto in_control_call(Body&& body) {
    try {
      return body();
    } catch (const Error& error) {
      fail_control_call(error.code(), error.what());
    } catch (const std::exception& error) {
      fail_control_call(Code::OutOfMemory, error.what());
    }
  }
  std::vector<std::string> exchange(std::string mine, Deadline deadline);
  std::string purpose_of(const std::string& what, bool begins);
  std::string given_title() const;
  struct Remake;
  std::shared_ptr<Communicator> remake(const Remake& how);
  enum class State : uint8_t { Live, Suspended, Left };
  bool is_live() const { return state_.load(std::memory_order_relaxed) == State::Live; }
  bool is_suspended() const { return state_.load(std::memory_order_relaxed) == State::Suspended; }
  bool has_left() const { return state_.load(std::memory_order_relaxed) == State::Left; }
  bool has_failed() const { return failed_.load(std::memory_order_acquire) != 0; }

  const std::shared_ptr<control::Endpoint> endpoint_;
  const std::atomic<uint32_t>& failed_ = endpoint_->failed();
  std::atomic<bool> heard_{false};
  mutable std::atomic<bool> trace_left_{false};  // leave_trace() has run
  const Rank rank_ = endpoint_->rank(), ranks_ = endpoint_->ranks();
  Timeouts timeouts_;
  const std::shared_ptr<CallLog> log_ = std::make_shared<CallLog>(ranks_);
  CallBoard* const board_ = &log_->board;
  CallTrace* const trace_ = &log_->trace;
  CallDiagnostics diagnostics_;
  Groups groups_;
  bool groups_given_ = false;           // by the program or the environment
  std::vector<int> wanted_processors_;  // by backend, but the host's
  std::vector<int> processors_;         // … of those that serve calls; constant once it has joined
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<exec::Links> links_;
  exec::Backoff backoff_;
  std::optional<ShownRank> shown_;
  const std::shared_ptr<CutOffCall> cut_off_ = std::make_shared<CutOffCall>();
  std::vector<std::unique_ptr<BackendCalls>> on_;  // by backend, the host's first
  PreMulScalars pre_mul_scalars_;
  std::shared_ptr<const RanksByProcess> host_ranks_;         // counted for others' sake as long as this one is used
  select::CostInputs inputs_;                                // what the decision table was made from
  std::vector<std::unique_ptr<DecisionLog>> decision_logs_;  // by backend; empty: nothing is logged
  const bool notes_ = log_enabled(LogLevel::Trace) || trace::profiler_is_attached();

  std::atomic<State> state_{State::Live};     // only the thread whose ticket is served writes it
  uint64_t calls_ = 0;                        // collectives
  uint64_t enqueued_ = 0;                     // of them on asynchronous backends
  uint64_t ended_ = 0;                        // of these, repeated ones too, on backends that a suspend has freed
  uint64_t digest_ = 0;                       // of all collectives, in order
  const Prepared* current_ = nullptr;         // the running call, or the last one …
  const BackendCalls* current_on_ = nullptr;  // … and where it runs
  struct Registered {
    uint8_t backend = 0;
    uint64_t number = 0;  // the backend's
    uint64_t bytes = 0;
  };
  std::map<uint64_t, Registered> registrations_;  // by number
  uint64_t last_registration_ = 0;
  std::unique_ptr<WindowServices> windows_;
  uint64_t one_sided_ = 0;  // calls on windows
  std::vector<NumberedCall> group_;
  std::map<std::pair<Rank, bool>, uint64_t> transfer_counts_;  // by peer and direction
  const BackendCalls* transfers_on_ = nullptr;                 // the last ones
  std::atomic<uint64_t> next_ticket_{0}, serving_{0};
  std::mutex remakes_mutex_;
  std::map<std::string, uint32_t> remakes_;  // calls of shrink() and grow(), by what they make
};

}  // namespace tutti::comm
