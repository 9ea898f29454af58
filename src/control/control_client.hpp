// One rank of a communicator: the control thread's half of an Endpoint.
//
// It keeps the connection to the rendezvous server and tracks which ranks exist, which have left and what has failed.
// It serves this rank's services. It outlives its Endpoint until every rank has left.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
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
#include "control/trunks.hpp"
#include "transports/wireup.hpp"

namespace tutti::control {

class ControlClient : public std::enable_shared_from_this<ControlClient> {
 public:
  using Failure = std::pair<Code, std::string>;
  using Answer = std::optional<std::string>;

  /// `trunks`: those of the communicator that was split; null if this one is no split. `holder`: who holds the
  /// rendezvous server, in messages; empty: the process that made the unique id.
  ControlClient(ControlThread& control, const Key& key, Rank ranks, Rank rank, std::shared_ptr<Trunks> trunks,
                std::string holder);

  // ---- constant
  ControlThread& control() const { return control_; }
  const Key& key() const { return key_; }
  const std::string& name() const { return name_; }
  Rank rank() const { return rank_; }
  Rank ranks() const { return ranks_; }
  /// Valid once joined. Throws Error(InvalidArgument) for a rank that does not exist.
  const Member& member(Rank rank) const { return members_[index(rank)]; }
  const transports::ProcessId& process_id(Rank rank) const { return process_ids_[index(rank)]; }
  /// Valid once joined: what messages call the communicator, where its rendezvous server says so; else empty.
  const std::string& title() const { return title_; }

  // ---- any thread
  /// Null once every rank has left, or this client was closed for another reason.
  std::shared_ptr<Trunks> trunks() const;
  /// Takes a connection over which Register has been sent, or a trunk, over which `first` registers. `wait_joined`
  /// then waits for the table.
  void adopt(Fd fd);
  void adopt(std::shared_ptr<Trunk> trunk, const Register& first);
  void wait_joined(WaitLimit limit);
  std::vector<std::string> exchange(std::string mine, Deadline deadline, const ExchangePurpose& purpose);
  const std::atomic<uint32_t>& failed() const { return failed_; }
  std::optional<Failure> failure() const;
  /// True once the rendezvous server is known to know of the failure, or is gone.
  bool failure_is_known() const;
  /// Fails the communicator, and the communicators of the waits with these tickets, in this process and in those of the
  /// other ranks.
  void fail(Code code, const std::string& text, const std::vector<uint64_t>& tickets = {});
  /// A peer says that this communicator is revoked. Control thread.
  void hear_revocation(const std::string& text);
  bool lost(Rank rank) const;
  std::optional<Left> left(Rank rank) const;
  /// The ranks that are known to be lost.
  std::vector<Rank> lost_ranks() const;
  /// As Endpoint's.
  std::shared_ptr<const std::atomic<uint32_t>> watch_losses(std::vector<Rank> ranks);
  std::future<Answer> ask_board(Rank peer, uint64_t call, Deadline deadline);
  /// The same on the control thread, which gets the answer there.
  void ask(Rank peer, uint64_t call, Deadline deadline, std::function<void(Answer)> then);
  /// Are the ranks known? Control thread.
  bool has_members() const { return !members_.empty(); }
  /// The rank in whose process the rendezvous server is, if that is another process, and when something last arrived of
  /// it. Control thread.
  std::optional<std::pair<Rank, Deadline::Clock::time_point>> heard() const;
  Guarded<std::string(uint64_t)>& board() { return board_; }
  Services& services() { return services_; }
  Streams& streams() { return streams_; }
  /// Answers requests that arrived before their service was registered.
  void retry_services();
  void when_all_have_left(const std::string& what, std::function<void()> then);
  void send_leave_notice(const LeaveNotice& leave_notice);
  /// After that: waits until the rendezvous server has compared this rank's calls with those of ranks that left before.
  bool wait_for_comparison(Deadline deadline);
  /// Discards a client whose join failed.
  void give_up();
  /// The other ranks that have neither left nor been lost.
  std::vector<Rank> remaining_ranks() const;
  /// True once every rank has left; `mismatch` then gets the rendezvous server's comparison of the ranks' calls. A
  /// mismatch found after the first call of this goes to ControlThread::add_late_mismatch.
  bool done(std::string* mismatch);
  /// "rank 0 (…) held the rendezvous server of all ranks and is gone: …", if that was before the server's word that all
  /// have left; or empty.
  std::string server_loss() const;

 private:
  enum class Membership : uint8_t { Present, Left, Lost };
  struct Question {
    std::function<void(Answer)> answer;
    Rank peer = kNoRank;  // the rank that was asked
    EventLoop::Id timer = 0;
  };

  void end_loss_watches(uint32_t why);
  struct LossWatch {
    std::vector<Rank> ranks;
    std::weak_ptr<std::atomic<uint32_t>> first;
  };

  size_t index(Rank rank) const;
  bool is_lost(Rank rank) const;  // under the lock
  void note_losses();             // under the lock
  bool all_have_left() const;     // under the lock
  // control thread, control_client.cpp
  void open(std::shared_ptr<Channel> channel);
  void on_frame(std::string_view body);
  void note_known_failure();
  void on_welcome(Welcome welcome);
  void on_table(Table table);
  void on_transfers(const TransferCounts& transfers);
  void on_membership_update(const MembershipUpdate& update);
  void on_done(Done done);
  void on_end(const std::string& why);
  void server_lost();
  std::string server_holder() const;
  void heartbeat();
  void watch_processes();
  void on_process_died(const Member& member);
  void tell_death_in(double seconds, const Member& member);
  double silence() const;
  std::vector<Rank> still_here(const Member& member) const;
  void answer_board(const BoardAsk& ask);
  void check_asker(Rank from, int fd) const;
  void resolve(uint64_t ticket, Answer answer);
  void resolve_all_to(Rank peer);
  void resolve_all();
  void close();
  // control thread, revocation.cpp
  void begin_revocation(const std::string& text);
  static constexpr size_t kRumours = 8;  // processes that each tells of what all have probably heard
  void pass_on_revocation(size_t most);
  void note_known_to_siblings();
  void finish();

  /// Records the first failure, or a revocation after it, with the first one's text; false if there was one already.
  /// Takes the lock.
  bool set_failure(Code code, const std::string& text);
  std::vector<std::string> wait_gathered(uint32_t number, Deadline deadline, const ExchangePurpose& purpose);

  ControlThread& control_;
  const Key key_;
  const std::string name_;
  const Rank ranks_, rank_;
  const std::string holder_;
  std::vector<Member> members_;  // written once, before joined_ is set
  std::vector<transports::ProcessId> process_ids_;
  std::string title_;
  Member server_;

  std::atomic<uint32_t> failed_{0};
  Guarded<std::string(uint64_t)> board_;
  Services services_{[this](Rank from, int fd) { check_asker(from, fd); }};
  Streams streams_;
  std::mutex exchange_mutex_;  // serializes exchanges
  uint32_t exchanges_ = 0;

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  bool joined_ = false, leave_sent_ = false, done_ = false;
  bool leave_returned_ = false;  // done() has returned what was known then
  std::optional<Failure> refusal_;
  std::optional<Failure> failure_;
  bool failure_is_known_ = false;
  std::optional<Gathered> gathered_;
  std::optional<Missing> missing_;
  std::vector<Membership> membership_;  // as reported by the rendezvous server
  std::vector<bool> dead_;              // ranks whose process died, as this host saw it
  std::vector<Left> departed_;          // valid for ranks that left
  std::vector<LossWatch> loss_watches_;
  std::map<std::string, std::function<void()>> after_all_;  // once every rank has left; by what it is for
  std::shared_ptr<Trunks> trunks_;
  std::shared_ptr<const void> counted_;  // among the trunks' clients
  std::string mismatch_;
  std::string server_loss_;

  // control thread only
  std::shared_ptr<Channel> channel_;
  bool closed_ = false, welcomed_ = false;
  double heartbeat_seconds_ = 0;
  Deadline::Clock::time_point last_beat_{};
  EventLoop::Id heartbeat_timer_ = 0, grace_timer_ = 0;
  std::string server_end_;  // why the connection to the rendezvous server has ended, until server_lost() tells it
  std::set<std::pair<uint32_t, uint64_t>> watched_;  // processes: number and start
  std::vector<ControlThread::Watch> watches_;
  std::unordered_map<uint64_t, Question> questions_;
  uint64_t tickets_ = 0;
  std::string revocation_;  // the text of a revocation that peers are told if the rendezvous server is gone
  std::atomic<bool> revocation_is_relayed_{false};  // by the rendezvous server
  bool passed_on_ = false, passes_on_ = false;      // to peers: at some time, now
  bool closes_then_ = false;                        // when it has passed it on
};

}  // namespace tutti::control
