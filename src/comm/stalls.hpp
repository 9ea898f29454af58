// One rank's stalled calls: publishes them in the process's WaitTable, asks the awaited peers for their waits, and
// detects deadlocks.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/call.hpp"
#include "comm/call_board.hpp"
#include "control/endpoint.hpp"
#include "control/wait_table.hpp"
#include "exec/observer.hpp"

namespace tutti::comm {

/// Answers questions about a rank's board and waits.
std::function<std::string(uint64_t key)> board_service(std::shared_ptr<const CallBoard> board,
                                                       const control::Endpoint& endpoint);

/// Ranks that wait for each other forever.
struct Deadlock {
  std::string text;
  control::WaitTable::Tickets tickets;
};

struct StalledCall {
  std::string text;
  uint64_t number = 0;  ///< of a collective; 0: of none
  /// Transfers whose numbers say what their links have carried, rising for each peer and direction; null: none.
  const std::vector<NumberedCall>* group = nullptr;
};

/// True if the peer has not entered the collective, or none of the sends that the group receives: nothing of them can
/// be under way.
bool is_absent(const StalledCall& call, Rank peer, const control::Entered& entered);

class Stalls {
 public:
  /// `title` is the communicator's name in messages.
  Stalls(control::Endpoint& endpoint, std::string title);
  ~Stalls() { end(); }
  Stalls(const Stalls&) = delete;
  Stalls& operator=(const Stalls&) = delete;

  const std::string& title() const { return title_; }

  /// The calls from here on are run by a device, and no thread is in them.
  void set_on_device(bool on_device) { on_device_ = on_device; }
  /// `call` has stalled. Returns the deadlock that it is part of, if any.
  std::optional<Deadlock> check(const exec::Stall& stall, const StalledCall& call);
  /// The same for a call that waits in an exchange for all of these ranks.
  std::optional<Deadlock> check(const std::vector<Rank>& missing, const exec::Links* links, const StalledCall& call);
  /// The known chain of waits; empty if nothing is known.
  std::string follow() const;
  /// What the awaited rank waits for: "it waits in …"; empty if it is in no call, or nothing is known.
  std::string follow_awaited() const;
  /// The call has ended.
  void end() {
    if (published_) withdraw();
  }

 private:
  struct Question {
    Rank peer = kNoRank;
    std::future<std::optional<std::string>> answer;
    Deadline::Clock::time_point asked;
  };
  void withdraw();
  void restart(uint64_t id);
  void publish(const exec::Stall& stall, const std::string& call);
  void ask(const exec::Stall& stall);
  void receive_replies(const exec::Stall& stall, const StalledCall& call);
  uint64_t settled(const exec::PeerAwait& on, const control::WaitsReply& reply, bool engines,
                   const StalledCall& call) const;
  void warn(const exec::Stall& stall) const;
  std::optional<Deadlock> confirm_deadlock();

  control::Endpoint& endpoint_;
  const std::string title_;
  const uint64_t communicator_;  // the same on all its ranks
  const uint64_t process_;
  bool published_ = false, on_device_ = false;
  uint64_t stall_id_ = 0, ticket_ = 0;
  Deadline::Clock::time_point since_;  // start of an exchange's stall
  bool warned_ = false;
  std::vector<control::LinkCounts> links_;
  std::vector<Question> questions_;
  std::vector<std::pair<exec::PeerAwait, uint64_t>> settled_;  // see Awaited::settled
  control::Stuck candidate_;
  Deadline::Clock::time_point candidate_since_;
};

}  // namespace tutti::comm
