// Diagnoses a running call: turns what the executor detects (a wrong message, a stall, a failure) into errors that name
// ranks and calls.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/call_board.hpp"
#include "comm/call_trace.hpp"
#include "comm/join_options.hpp"
#include "comm/planner.hpp"
#include "comm/stalls.hpp"
#include "control/endpoint.hpp"
#include "exec/observer.hpp"

namespace tutti::comm {

class CallDiagnostics final : public exec::Observer {
 public:
  /// `title` names the communicator to people.
  CallDiagnostics(control::Endpoint& endpoint, const CallBoard& board, std::string title = "a communicator",
                  const Timeouts& timeouts = kDefaultTimeouts)
      : endpoint_(endpoint), own_board_(board), timeouts_(timeouts), stalls_(endpoint, std::move(title)) {}

  /// Starts a collective with its number (set_algorithm follows once it is chosen) …
  void begin(uint64_t call, const CallSpec& spec) {
    spec_ = spec;
    algorithm_ = "";
    begin(call, nullptr);
  }
  void set_algorithm(const char* algorithm) { algorithm_ = algorithm; }
  /// … or a group of transfers, which must outlive the call.
  void begin(const std::vector<NumberedCall>& group) { begin(0, &group); }

  /// … or another call. `describe` says it in words, if these are needed before end_other().
  void begin_other(std::function<std::string()> describe) {
    begin(0, nullptr);
    other_ = std::move(describe);
  }
  void end_other() {
    end();
    other_ = nullptr;
  }

  /// A device runs the call, and no thread is in it.
  void set_on_device(bool on_device) { stalls_.set_on_device(on_device); }

  /// The call has ended.
  void end() { stalls_.end(); }
  /// Sets the communicator's links; null: it has none.
  void use_links(const exec::Links* links) { links_ = links; }
  /// Writes long waits into it.
  void use_trace(CallTrace& trace) { trace_ = &trace; }
  const std::string& title() const { return stalls_.title(); }

  /// Fails the communicator with `reason`. Returns this rank's error: its own call, and the first failure's reason.
  Status fail(Code code, const std::string& reason);

  /// A link could not be connected, or broke. The cause may become known in a moment: another rank died, or a peer left
  /// too early. If so, that is this rank's error; else the error given here.
  Status link_failed(Code code, const std::string& describe_call);

  Status fault(const exec::Fault& fault) override;
  Status stalled(const exec::Stall& stall) override;
  void waited(Rank peer, Deadline::Clock::time_point since) override {
    if (trace_ != nullptr) trace_->waited(own_board_, peer, since);
  }
  Status failed() override;
  /// failed(), and for what the call waited when it was ended.
  Status cut_off_by_failure(const exec::Stall& stall);
  void processor_failed(const std::string& why, const exec::Stall& stall) override;
  /// This rank waits in an exchange to which these ranks have not contributed. Fails the communicator if they never
  /// will. If `compare` is set, compares their calls with this rank's.
  void missing(const std::vector<Rank>& ranks, bool compare);
  /// The text "; rank 2 is alive, its last call: barrier()", from the peer's board.
  std::string describe_activity(Rank peer) const;
  bool lost(Rank peer) const override { return endpoint_.lost(peer); }
  bool left(Rank peer) const override { return endpoint_.left(peer).has_value(); }

 private:
  void begin(uint64_t call, const std::vector<NumberedCall>* group) {
    call_ = call;
    group_ = group;
    other_ = nullptr;
    asked_ = kNoRank;
    board_.reset();
  }
  const CallSpec& ours(Rank peer, bool sends) const;
  uint64_t key(Rank peer, bool we_send) const;
  std::string describe_call() const;
  StalledCall stalled_call() const {
    return {.text = describe_call(), .number = call_, .group = own_board_.counts_sends() ? group_ : nullptr};
  }
  std::string prefix() const;
  std::string compare(Rank peer, uint64_t call, const CallSpec& mine, const CallSpec& theirs) const;
  std::vector<std::optional<std::string>> ask_now(Rank peer, const std::vector<uint64_t>& keys) const;
  std::vector<std::optional<BoardAnswer>> ask_specs(Rank peer, const std::vector<uint64_t>& keys) const;
  std::optional<std::string> first_difference(Rank peer) const;
  std::optional<std::string> last_difference(Rank peer, const BoardAnswer& board) const;
  std::optional<std::string> left_early(Rank peer, bool we_send) const;
  std::optional<std::string> any_left_early() const;
  std::optional<std::string> any_left_after_another_call() const;
  std::optional<std::string> first_wrong_transfer(Rank peer) const;
  std::optional<std::string> different_block(Rank peer) const;
  std::optional<std::string> different_counts(Rank peer, uint64_t call, const CallSpec& spec) const;
  Status other_call(const exec::Fault& fault);
  bool compare_calls(const std::vector<Rank>& ranks);
  Status zcopy_withdrawn(Rank peer);
  Status left_without_signal(Rank peer);
  std::optional<std::string> mismatch(Rank peer, const BoardAnswer& board) const;
  std::string describe_timeout(const exec::Stall& stall) const;
  std::string shared_stream(Rank peer) const;
  void check_board(const exec::Stall& stall);

  control::Endpoint& endpoint_;
  const CallBoard& own_board_;
  const Timeouts& timeouts_;
  Stalls stalls_;
  const exec::Links* links_ = nullptr;
  CallTrace* trace_ = nullptr;
  uint64_t call_ = 0;           // number of the collective; 0 in a group
  CallSpec spec_;               // the collective
  const char* algorithm_ = "";  // of the collective, once it is chosen
  const std::vector<NumberedCall>* group_ = nullptr;
  std::function<std::string()> other_;  // where it is neither of the two: what to call it
  Rank asked_ = kNoRank;                // the peer whose board is being asked
  std::future<std::optional<std::string>> answer_;
  std::optional<BoardAnswer> board_;  // the latest reply of asked_
};

}  // namespace tutti::comm
