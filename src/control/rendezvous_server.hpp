// The rendezvous server of one communicator, in the process that made its unique id, or of a split's first rank.
//
// Every rank keeps a channel to it: a connection of its own, or a split's rank a part of a trunk (control/trunk.hpp).
// The star costs n channels for n ranks, and n messages at the start. The server gathers the members and sends all of
// them the table. It then relays exchanges, failures and questions to call boards, detects lost ranks, and tells all
// ranks when every rank has left. Until then no rank's process needs to exit.
//
//   Gathering ──all ranks registered──► Running ──all left or lost──► Closing ──all connections closed, or 2 s──► gone
//       └────── a rank timed out ─────► Refusing ──a minute─────────────────────────────────────────────────────► gone
//
// It runs on the control thread only, driven by the frames that arrive.
#pragma once

#include <atomic>
#include <functional>
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
class Trunks;

class RendezvousServer : public std::enable_shared_from_this<RendezvousServer> {
 public:
  /// Of the communicator with this public name. `trunks`: those over which the ranks of a split register; null if
  /// every rank has a connection of its own.
  RendezvousServer(ControlThread& control, std::string name, std::shared_ptr<Trunks> trunks = nullptr,
                   Places places = {});
  ~RendezvousServer();

  const std::shared_ptr<Trunks>& trunks() const { return trunks_; }
  /// True while ranks are connected: then its process must not exit. Any thread.
  bool busy() const { return busy_; }
  /// True once every rank that is there has confirmed that it knows of the failure. Any thread.
  bool failure_is_known() const { return failure_is_known_; }
  /// How many ranks have been told that the communicator cannot be created. Any thread.
  size_t informed_ranks() const { return informed_count_; }
  /// Messages that ranks have sent to the server, and it to them. Any thread.
  struct MessageCounts {
    uint64_t received = 0, sent = 0;
  };
  MessageCounts messages() const { return {received_, sent_}; }

  // ---- control thread
  const std::string& name() const { return name_; }
  /// visit(rank, member, when something last arrived of it) for all that are connected.
  void each_arrival(auto&& visit) const {
    for (size_t r = 0; r < joined_.size(); ++r) {
      const RankState& rank = joined_[r];
      if (rank.channel->is_open()) visit(static_cast<Rank>(r), rank.member, rank.channel->last_arrival());
    }
  }
  /// Starts the hour after which an unused server closes.
  void open();
  /// A rank registers, over the channel that `take` makes once it is admitted. Throws the Error with which it is
  /// refused.
  void admit(Register request, const std::function<std::shared_ptr<Channel>()>& take);
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
  struct RankState {
    enum class Membership { Present, Left, Lost };
    Member member;
    std::shared_ptr<Channel> channel;
    Membership membership = Membership::Present;
    bool knows_failure = false;
    LeaveNotice leave_notice;              // what it reported when it left
    TransferCounts transfers;              // to be sent to it at the end of this loop iteration
    std::optional<Exchange> contribution;  // its contribution to the current exchange
  };

  // gathering (rendezvous_gather.cpp)
  void check_request(const Register& request) const;
  void check_place(const Register& request) const;
  std::string called(const Register& request) const;
  void fix_size(Rank ranks);
  void begin();
  void refuse(const Applicant& applicant, Code code, const std::string& text);
  void drop(const std::shared_ptr<Applicant>& applicant);
  void applicant_ended(const std::shared_ptr<Applicant>& applicant, const std::string& why);
  void stop_for_departed(const Register& applicant, const std::string& why);
  void check_applicants(double limit, bool stalled);
  void count_informed(Rank rank);
  void registration_timed_out(const Applicant& applicant);
  void stop_gathering(Code code, const std::string& text);

  // exchanges (rendezvous_exchange.cpp)
  void on_exchange(Rank from, Exchange contribution);
  void finish_exchange();
  void end_exchange();
  void exchange_timed_out(uint32_t number);
  void check_exchange(uint32_t number);
  void send_missing(const std::vector<Rank>& ranks);
  EventLoop::Id after(double seconds, void (RendezvousServer::*then)(uint32_t));
  void left_before_exchange(Rank rank);
  void record_divergence(Rank rank, const std::string& call);
  size_t first_contributor() const;
  std::vector<Rank> missing_ranks() const;

  // running
  void on_frame(Rank from, std::string_view body);
  void on_end(Rank from, const std::string& why);
  void on_report(Rank from, Rank rank);
  void on_leave_notice(Rank from, LeaveNotice leave_notice);
  void record_transfers(Rank from, std::vector<PeerTransfers>& traffic);
  template <class M>
  void relay(Rank from, M message);
  void fail(Code code, const std::string& text, std::vector<uint64_t> tickets = {});
  void failure_confirmed(Rank from, Code code);
  void check_failure_is_known();
  void mark_lost(Rank rank, const std::string& why);
  void record_departure(Rank rank);
  void send(Channel& channel, std::shared_ptr<const std::string> frame);
  void send(Channel& channel, std::string frame) {
    send(channel, std::make_shared<const std::string>(std::move(frame)));
  }
  void send_all(std::string frame);
  void ping(Channel& channel);
  void send_membership_update();
  void heartbeat();
  void schedule_heartbeat();
  void check_all_departed();
  std::string compare_calls(Rank a, Rank b) const;
  std::string compare_departed(Rank rank) const;
  std::string compare_calls() const;
  std::string compare_traffic() const;
  void check_closed();
  void close();

  ControlThread& control_;
  const std::string name_;
  const std::shared_ptr<Trunks> trunks_;
  std::shared_ptr<const void> incomplete_;  // see Trunks::begin_server
  State state_ = State::Gathering;
  std::atomic<bool> busy_{false}, failure_is_known_{false};
  EventLoop::Id timer_ = 0;

  std::vector<std::shared_ptr<Applicant>> applicants_;
  std::vector<Register> early_departures_;  // registered, and disconnected before the number of ranks was decided
  const std::map<Rank, Member> kept_places_;
  const std::string title_;  // of a communicator that grows
  /// Refused claims to places of a communicator that grows: the place, and the claimant's Member::nonce.
  std::multiset<std::pair<Rank, uint64_t>> refused_claims_;
  Rank size_ = 0;            // 0: not decided yet
  std::vector<Rank> names_;  // of the ranks, in messages, until the communicator is made
  std::optional<Refused> refusal_;
  std::set<Rank> informed_;  // ranks that have been told of the refusal
  std::atomic<size_t> informed_count_{0};
  std::atomic<uint64_t> received_{0}, sent_{0};

  std::vector<RankState> joined_;
  bool failed_ = false, revoked_ = false;
  uint32_t exchange_ = 0;  // number of the current or next exchange
  size_t contributions_ = 0;
  std::string divergence_;  // the ranks contribute as part of different calls: which
  EventLoop::Id exchange_timer_ = 0, check_timer_ = 0;
  MembershipUpdate membership_update_;  // to be sent at the end of this loop iteration, at the latest
  bool update_is_due_ = false;
  Deadline::Clock::time_point last_beat_{};
};

}  // namespace tutti::control
