// One rank's calls that do not move: tells the process's WaitTable of them, asks those who are waited for what they
// wait for, and finds out whether all of them wait for each other.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/call_board.hpp"
#include "control/endpoint.hpp"
#include "control/wait_table.hpp"
#include "exec/host/run.hpp"

namespace tutti::comm {

/// What a rank answers to questions about its board and about waits.
std::function<std::string(uint64_t key)> board_service(std::shared_ptr<const Board> board,
                                                       const control::Endpoint& endpoint);

/// Ranks that wait for each other for ever.
struct Deadlock {
  std::string text;
  control::WaitTable::Tickets tickets;
};

class Stalls {
 public:
  /// `title` names the communicator to people.
  Stalls(control::Endpoint& endpoint, std::string title);
  ~Stalls() { end(); }
  Stalls(const Stalls&) = delete;
  Stalls& operator=(const Stalls&) = delete;

  const std::string& title() const { return title_; }

  /// The call in words, collective number `number` (0: transfers), has not moved. Tells if it never will.
  std::optional<Deadlock> look(const exec::Stall& stall, const std::string& call, uint64_t number);
  /// The same of a call that waits in an exchange for these ranks, all of them.
  std::optional<Deadlock> look(const std::vector<Rank>& missing, const exec::Links* links, const std::string& call,
                               uint64_t number);
  /// Who waits for whom, as far as it is known; empty where nothing is.
  std::string follow() const;
  /// The call is over.
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
  void start_anew(uint64_t id);
  void publish(const exec::Stall& stall, const std::string& call);
  void ask(const exec::Stall& stall);
  void hear(const exec::Stall& stall, uint64_t number);
  uint64_t settled(const exec::PeerAwait& on, const control::WaitsReply& reply, bool engines, uint64_t number) const;
  void warn(const exec::Stall& stall) const;
  std::optional<Deadlock> judge();

  control::Endpoint& endpoint_;
  const std::string title_;
  const uint64_t communicator_;  // the same on all its ranks
  const uint64_t process_;
  bool published_ = false;
  uint64_t stall_id_ = 0, ticket_ = 0;
  Deadline::Clock::time_point since_;  // of an exchange
  bool warned_ = false;
  std::vector<control::LinkCounts> links_;
  std::vector<Question> questions_;
  std::vector<std::pair<exec::PeerAwait, uint64_t>> settled_;  // see Awaited
  control::Stuck suspicion_;
  Deadline::Clock::time_point suspected_;
};

}  // namespace tutti::comm
