// Watches a call: turns what the executor sees (a wrong message, a stall, a failure) into errors that name ranks and
// calls.
#pragma once

#include <cstdint>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/call_board.hpp"
#include "comm/planner.hpp"
#include "comm/stalls.hpp"
#include "control/endpoint.hpp"
#include "exec/host/run.hpp"

namespace tutti::comm {

class CallDiagnostics final : public exec::Observer {
 public:
  /// `title` names the communicator to people.
  CallDiagnostics(control::Endpoint& endpoint, const Board& board, std::string title = "a communicator")
      : endpoint_(endpoint), own_board_(board), stalls_(endpoint, std::move(title)) {}

  /// The call that runs from now on: a collective with its number (its algorithm follows when it is known) …
  void begin(uint64_t call, const CallSpec& spec) {
    spec_ = spec;
    algorithm_ = "";
    begin(call, nullptr);
  }
  void set_algorithm(const char* algorithm) { algorithm_ = algorithm; }
  /// … or a group of transfers, which has to stay until the next call begins.
  void begin(const std::vector<NumberedCall>& group) { begin(0, &group); }

  /// The call is over.
  void end() { stalls_.end(); }
  /// The communicator's links, once there are any.
  void use_links(const exec::Links& links) { links_ = &links; }
  const std::string& title() const { return stalls_.title(); }

  /// Fails the communicator for `reason` and returns what this rank reports: its own call, and the first reason.
  Status fail(Code code, const std::string& reason);

  /// A link could not be made, or broke. Its cause may be known in a moment: another rank has died before, or a peer
  /// has left too early. If so that is what this rank reports, else what is given here.
  Status broken(Code code, const std::string& what);

  Status fault(const exec::Fault& fault) override;
  Status stalled(const exec::Stall& stall) override;
  Status failed() override;
  /// This rank waits in an exchange, and these have not come. Fails the communicator if they never will; for that their
  /// calls are compared with this rank's where `compare` says so.
  void missing(const std::vector<Rank>& ranks, bool compare);
  /// "; rank 2 is alive, its last call: barrier()", as far as its board tells.
  std::string whereabouts(Rank peer) const;
  bool lost(Rank peer) const override { return endpoint_.lost(peer); }

 private:
  void begin(uint64_t call, const std::vector<NumberedCall>* group) {
    call_ = call;
    group_ = group;
    asked_ = kNoRank;
    board_.reset();
  }
  const CallSpec& ours(Rank peer, bool sends) const;
  uint64_t key(Rank peer, bool we_send) const;
  std::string what() const;
  std::string here() const;
  std::string compare(Rank peer, uint64_t call, const CallSpec& mine, const CallSpec& theirs) const;
  std::vector<std::optional<std::string>> ask_now(Rank peer, const std::vector<uint64_t>& keys) const;
  std::vector<std::optional<BoardAnswer>> ask_specs(Rank peer, const std::vector<uint64_t>& keys) const;
  std::optional<std::string> first_difference(Rank peer) const;
  std::optional<std::string> last_difference(Rank peer, const BoardAnswer& board) const;
  std::optional<std::string> left_early(Rank peer, bool we_send) const;
  std::optional<std::string> somebody_left_early() const;
  std::optional<std::string> somebody_left_another_call() const;
  std::optional<std::string> first_wrong_transfer(Rank peer) const;
  std::optional<std::string> other_block(Rank peer) const;
  std::optional<std::string> other_counts(Rank peer, uint64_t call, const CallSpec& spec) const;
  Status other_call(const exec::Fault& fault);
  bool compare_calls(const std::vector<Rank>& ranks);
  Status revoked(Rank peer);
  std::optional<std::string> mismatch(Rank peer, const BoardAnswer& board) const;
  std::string late(const exec::Stall& stall) const;
  void look_at_board(const exec::Stall& stall);

  control::Endpoint& endpoint_;
  const Board& own_board_;
  Stalls stalls_;
  const exec::Links* links_ = nullptr;
  uint64_t call_ = 0;           // number of the collective; 0 in a group
  CallSpec spec_;               // the collective
  const char* algorithm_ = "";  // its algorithm, once it is known
  const std::vector<NumberedCall>* group_ = nullptr;
  Rank asked_ = kNoRank;  // whose board is being asked
  std::future<std::optional<std::string>> answer_;
  std::optional<BoardAnswer> board_;  // of asked_, as last seen
};

}  // namespace tutti::comm
