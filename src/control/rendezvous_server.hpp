// The rendezvous server of one communicator, in the process that made its unique id.
//
// Every rank keeps one connection to it. The star costs n connections for n ranks, and n messages at the start. The
// server gathers the members and sends all of them the table. It then relays exchanges, failures and questions to call
// boards, detects lost ranks, and tells all ranks when every rank has left. Until then no rank's process needs to exit.
//
//   Gathering ──all ranks registered──► Running ──all left or lost──► Closing ──all connections closed, or 2 s──► gone
//       └────── a rank timed out ─────► Refusing ──a minute─────────────────────────────────────────────────────► gone
//
// It runs on the control thread only, driven by the frames that arrive.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/secret.hpp"
#include "control/channel.hpp"
#include "control/event_loop.hpp"
#include "control/messages.hpp"

namespace tutti::control {

class ControlThread;

class RendezvousServer : public std::enable_shared_from_this<RendezvousServer> {
 public:
  RendezvousServer(ControlThread& control, const Key& key);
  ~RendezvousServer();

  const Key& key() const { return key_; }
  /// True while ranks are connected: then its process must not exit. Any thread.
  bool busy() const { return busy_; }
  /// How many ranks have been told that the communicator cannot be created. Any thread.
  size_t told() const { return told_count_; }

  // ---- control thread
  /// Starts the hour after which an unused server closes.
  void open();
  /// A connection that wants to register a rank. Throws the Error with which it is refused.
  void admit(Fd& fd, Register request);
  /// A rank cannot take part: ends the other ranks' wait with its reason.
  void withdraw(const Withdraw& withdrawal);
  /// Closes if no rank has registered.
  void close_if_unused();

 private:
  enum class State { Gathering, Refusing, Running, Closing };

  /// A rank that waits for the others. Until the number of ranks is decided, several claims to one rank are kept.
  struct Applicant {
    Register request;
    std::shared_ptr<Channel> channel;
    EventLoop::Id timer = 0;
  };
  struct JoinedRank {
    enum class Where { Here, Left, Lost };
    Member member;
    std::shared_ptr<Channel> channel;
    Where where = Where::Here;
    Goodbye goodbye;                // what it reported when it left
    TransferCounts transfers;       // to be sent to it at the end of this loop iteration
    std::optional<Exchange> given;  // its contribution to the current exchange
  };

  // gathering (rendezvous_gather.cpp)
  void check_request(const Register& request) const;
  void settle_size(Rank ranks);
  void begin();
  void refuse(const Applicant& applicant, Code code, const std::string& text);
  void drop(const std::shared_ptr<Applicant>& applicant);
  void applicant_ended(const std::shared_ptr<Applicant>& applicant);
  void stop_for(const Register& departed);
  void count_told(Rank rank);
  void waited_in_vain(const Applicant& applicant);
  void stop_gathering(Code code, const std::string& text);

  // exchanges (rendezvous_exchange.cpp)
  void on_exchange(Rank from, Exchange given);
  void finish_exchange();
  void end_exchange();
  void exchange_late(uint32_t number);
  void look_at_exchange(uint32_t number);
  void tell_missing(const std::vector<Rank>& ranks);
  EventLoop::Id after(double seconds, void (RendezvousServer::*then)(uint32_t));
  void left_before_exchange(Rank rank);
  void went_apart(Rank rank, const std::string& call);
  size_t first_giver() const;
  std::vector<Rank> not_given() const;

  // running
  void on_frame(Rank from, std::string_view body);
  void on_end(Rank from, const std::string& why);
  void on_report(Rank from, Rank rank);
  void on_goodbye(Rank from, Goodbye goodbye);
  void take_traffic(Rank from, std::vector<PeerTransfers>& traffic);
  template <class M>
  void relay(Rank from, M message);
  void fail(Code code, const std::string& text, std::vector<uint64_t> tickets = {});
  void lose(Rank rank, const std::string& why);
  void went(Rank rank);
  void send_all(std::string frame);
  void send_update();
  void heartbeat();
  void check_all_gone();
  std::string compare_calls() const;
  std::string compare_traffic() const;
  void check_closed();
  void close();

  ControlThread& control_;
  const Key key_;
  State state_ = State::Gathering;
  std::atomic<bool> busy_{false};
  EventLoop::Id timer_ = 0;

  std::vector<std::shared_ptr<Applicant>> applicants_;
  std::vector<Register> departed_;  // registered, and disconnected before the number of ranks was decided
  Rank size_ = 0;                   // 0: not decided yet
  std::optional<Refused> verdict_;
  std::set<Rank> told_;  // ranks that have been told of the refusal
  std::atomic<size_t> told_count_{0};

  std::vector<JoinedRank> joined_;
  bool failed_ = false;
  uint32_t exchange_ = 0;  // number of the current or next exchange
  size_t given_ = 0;
  std::string apart_;  // the ranks contribute as part of different calls: which
  EventLoop::Id exchange_timer_ = 0, look_timer_ = 0;
  MembershipUpdate update_;  // to be sent at the end of this loop iteration
  Deadline::Clock::time_point last_beat_{};
};

}  // namespace tutti::control
