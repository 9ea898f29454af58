// One rank's place in its communicator: the control thread's half of an Endpoint.
//
// It keeps the connection to the rendezvous server, learns who the others are, who has gone and what has failed, and
// offers this rank's services. It outlives its Endpoint until every rank has left.
#pragma once

#include <atomic>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/guarded.hpp"
#include "base/secret.hpp"
#include "control/channel.hpp"
#include "control/control_thread.hpp"
#include "control/exchange_purpose.hpp"
#include "control/messages.hpp"
#include "control/services.hpp"
#include "transports/wireup.hpp"

namespace tutti::control {

class ControlClient : public std::enable_shared_from_this<ControlClient> {
 public:
  using Failure = std::pair<Code, std::string>;
  using Answer = std::optional<std::string>;

  ControlClient(ControlThread& control, const Key& key, Rank ranks, Rank rank);

  // ---- never changes
  ControlThread& control() const { return control_; }
  const Key& key() const { return key_; }
  const std::string& name() const { return name_; }
  Rank rank() const { return rank_; }
  Rank ranks() const { return ranks_; }
  /// Once joined. Throws Error(InvalidArgument) for a rank that does not exist.
  const Member& member(Rank rank) const { return members_[index(rank)]; }
  const transports::ProcessId& process_id(Rank rank) const { return places_[index(rank)]; }

  // ---- any thread
  /// Takes over a connection that has sent Register. `wait_joined` then waits for the table.
  void adopt(Fd fd);
  void wait_joined(WaitLimit limit);
  std::vector<std::string> exchange(std::string mine, Deadline deadline, const ExchangePurpose& purpose);
  const std::atomic<uint32_t>& failed() const { return failed_; }
  std::optional<Failure> failure() const;
  /// With it fail, in this process and in those of the others, the communicators of the waits with these tickets.
  void fail(Code code, const std::string& text, const std::vector<uint64_t>& tickets = {});
  bool lost(Rank rank) const;
  std::optional<Left> left(Rank rank) const;
  std::future<Answer> ask_board(Rank peer, uint64_t call, Deadline deadline);
  Guarded<std::string(uint64_t)>& board() { return board_; }
  Services& services() { return services_; }
  Streams& streams() { return streams_; }
  /// Answers requests that came before their service did.
  void retry_services();
  void say_goodbye(const Goodbye& goodbye);
  /// Gives up a client whose join failed.
  void give_up();
  /// The other ranks that have neither left nor been lost.
  std::vector<Rank> not_gone() const;
  /// True, with the rendezvous server's comparison of the ranks' calls, once every rank has left. After the first time,
  /// what comes to be known goes to ControlThread::add_unheard.
  bool done(std::string* mismatch);

 private:
  enum class Gone : uint8_t { No, Left, Lost };
  struct Question {
    std::promise<Answer> answer;
    Rank peer = kNoRank;  // that was asked
    EventLoop::Id timer = 0;
  };

  size_t index(Rank rank) const;
  // control thread, client.cpp
  void open(Fd fd);
  void on_frame(std::string_view body);
  void on_table(Table table);
  void on_transfers(const TransferCounts& transfers);
  void on_update(const MembershipUpdate& update);
  void on_done(Done done);
  void on_end(const std::string& why);
  void hub_lost(const std::string& why);
  void heartbeat();
  void watch_processes();
  void process_died(const Member& member);
  std::vector<Rank> still_here(const Member& member) const;
  void answer_board(const BoardAsk& ask);
  void check_asker(Rank from, int fd) const;
  void resolve(uint64_t ticket, Answer answer);
  void resolve_all_to(Rank peer);
  void resolve_all();
  void close();

  /// Sets the first failure; false if there was one. Under no lock.
  bool set_failure(Code code, const std::string& text);
  std::vector<std::string> wait_gathered(uint32_t number, Deadline deadline, const ExchangePurpose& purpose);

  ControlThread& control_;
  const Key key_;
  const std::string name_;
  const Rank ranks_, rank_;
  std::vector<Member> members_;  // written once, before joined_ is set
  std::vector<transports::ProcessId> places_;
  Member server_;

  std::atomic<uint32_t> failed_{0};
  Guarded<std::string(uint64_t)> board_;
  Services services_{[this](Rank from, int fd) { check_asker(from, fd); }};
  Streams streams_;
  std::mutex exchange_mutex_;  // one exchange at a time
  uint32_t exchanges_ = 0;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool joined_ = false, parted_ = false, done_ = false;
  bool answered_ = false;  // leave() has told what was known
  std::optional<Failure> refusal_;
  std::optional<Failure> failure_;
  std::optional<Gathered> gathered_;
  std::optional<Missing> missing_;
  std::vector<Gone> gone_;  // as the rendezvous server says
  std::vector<bool> dead_;  // whose process has died, as seen from here
  std::vector<Left> left_;  // of those that Left
  std::string mismatch_;

  // control thread only
  std::shared_ptr<Channel> channel_;
  bool closed_ = false;
  double heartbeat_seconds_ = 0;
  Deadline::Clock::time_point last_beat_{};
  EventLoop::Id heartbeat_timer_ = 0, grace_timer_ = 0;
  std::vector<ControlThread::Watch> watches_;
  std::unordered_map<uint64_t, Question> questions_;
  uint64_t tickets_ = 0;
};

}  // namespace tutti::control
