// One rank of one communicator, as the control plane sees it: who the other ranks are, how to reach them, and whether
// they are alive.
//
// Every rank keeps one authenticated connection to the communicator's rendezvous server
// (control/rendezvous_server.hpp). The control thread of the process handles what arrives there. The calls below wait
// for the control thread or post work to it, so any thread may make them, and a rank that computes for an hour still
// answers its peers.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "control/bootstrap/unique_id.hpp"
#include "control/exchange_purpose.hpp"
#include "control/transfer_counts.hpp"
#include "transports/wireup.hpp"
#include "tutti/error.hpp"

namespace tutti::control {

class ControlThread;
class ControlClient;
struct Places;
struct Withdraw;

/// How a communicator ended, as far as this rank knows.
struct LeaveResult {
  bool complete = false;   ///< every rank left or was lost, or the communicator has failed; false: not known
  std::string mismatch;    ///< "rank 2 left after 16 calls, rank 0 after 17"; empty where the ranks made the same calls
  Rank rank = 0;           ///< the rank of this process in the communicator of `mismatch`
  std::string late;        ///< "rank 0 waited 600.0 s for rank 2 to leave"; empty if the wait did not time out
  std::string lost;        ///< instead of `late`: the rank that has not left is known to be lost or stopped
  Rank awaited = kNoRank;  ///< the first late rank, if it belongs to this communicator
};

class Endpoint;

/// How a rank joins, beside its number and its id.
struct JoinTerms {
  const std::atomic<uint32_t>* stop = nullptr;  ///< joining is given up when this is not 0, …
  std::function<Error()> why = nullptr;  ///< … for this reason, of which the other ranks hear; null: Error(Aborted)
  /// What messages call the ranks: their numbers in the communicator of which this one is made. Empty: it is made of
  /// none.
  std::vector<Rank> names = {};
  /// Not null: this one is a split of that communicator, and shares its trunks (control/trunk.hpp). Its id is
  /// split_id(leader, …).
  const Endpoint* parent = nullptr;
  Rank leader = 0;  ///< of `parent`: its process holds the rendezvous server
};

class Endpoint final : public transports::Wireup {
 public:
  /// Joins as `rank` of `ranks` and waits until all ranks have joined. `info` (≤ 1 MiB) is passed to every rank
  /// unchanged. Several ranks may live in one process; each joins on a thread of its own. Throws Error(Timeout) naming
  /// the missing ranks; InvalidArgument if the id's maker does not know the id, the rank is taken or the ranks disagree
  /// on their number; PeerFailed; InvalidUsage in a forked child.
  static std::unique_ptr<Endpoint> join(const UniqueId& id, Rank ranks, Rank rank, std::string info, Deadline deadline,
                                        const JoinTerms& terms = {});

  /// Tells the other ranks that this one, which has not joined, cannot take part. Throws nothing.
  static void withdraw(const UniqueId& id, const JoinTerms& terms, const Withdraw& withdrawal);

  /// Without a leave() before it, the destructor drops the communicator.
  ~Endpoint() override;
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // ---- members
  Rank rank() const override;
  Rank ranks() const override;
  const transports::ProcessId& process_id(Rank rank) const override;
  void confirm_process(Rank peer, Deadline deadline) override;
  const std::string& name() const override;
  /// What messages call the communicator on all ranks, if it is one that has grown; else empty: each rank knows.
  const std::string& title() const;
  /// What `rank` passed to join().
  const std::string& info(Rank rank) const;
  const std::string& host_name(Rank rank) const;
  /// A rank in messages: "rank 2 (process 4711 on node17)".
  std::string describe(Rank rank) const;

  /// The id of a communicator of some of these ranks, which they derive without a message: also on one that has failed,
  /// since `leader`, one of them, opens a rendezvous server of its own. `purpose` tells them apart; it is equal on
  /// all of them. Throws Error(InvalidUsage) after leave().
  UniqueId derive_id(Rank leader, std::string_view purpose) const;
  /// The same of a communicator of `ranks` ranks in which the `staying` ones, leader among them, keep their numbers and
  /// other processes have the other places. A process that claims another one's place is refused. `title`: what
  /// messages call it on all ranks; empty: a name that is made of the id.
  UniqueId grow_id(Rank leader, std::string_view purpose, const std::vector<Rank>& staying, Rank ranks,
                   const std::string& title) const;
  /// The same of a split: its ranks join with this as JoinTerms::parent, and the process of `leader` opens a rendezvous
  /// server when the first of them comes.
  UniqueId split_id(Rank leader, std::string_view purpose) const;

  /// Every rank contributes bytes (≤ 16 MiB) and receives those of all ranks, in order of rank. Collective, one at a
  /// time. A time-out fails the communicator, since the ranks are then no longer in step; so do ranks with different
  /// purposes. Throws Error(Timeout | Mismatch | PeerFailed | Aborted | …).
  std::vector<std::string> exchange(std::string mine, Deadline deadline, const ExchangePurpose& purpose = {});

  // ---- failure
  /// 0 until the communicator fails, then the Code of the first failure. Costs one load: for loops that wait.
  const std::atomic<uint32_t>& failed() const;
  /// The first failure that this rank learned of.
  std::optional<std::pair<Code, std::string>> failure() const;
  /// Throws the failure, if any.
  void check() const;
  /// Fails the communicator on all ranks with this error. Only the first failure counts. Returns at once.
  void fail(Code code, const std::string& text);
  /// fail() as a function that may outlive this endpoint. It also fails the communicators of the waits with these
  /// tickets.
  std::function<void(Code, const std::string&, const std::vector<uint64_t>& tickets)> failing() const;
  /// fail(Code::Aborted) with a text that names this rank.
  void abort();
  /// fail(Code::Revoked), likewise.
  void revoke();
  /// True once `rank` is known to have died, alone or with its host.
  bool lost(Rank rank) const;
  /// All such ranks that had not left before.
  std::vector<Rank> lost_ranks() const;
  /// Becomes the number plus one of the first of these ranks that is lost, which one may be already, or kAborted when
  /// this rank aborts the communicator from now on.
  static constexpr uint32_t kAborted = UINT32_MAX;
  std::shared_ptr<const std::atomic<uint32_t>> watch_losses(std::vector<Rank> ranks) const;

  // ---- call boards
  /// `board` returns this rank's entry for a call (≤ 4096 bytes). It runs on the control thread or on the thread of
  /// another rank of this process: it must be quick and must not throw. An empty function ends the service and waits
  /// for a running call.
  void serve_board(std::function<std::string(uint64_t call)> board);
  /// Asks `peer` for its entry. The answer is empty if the peer does not reply by the deadline, has no board or has
  /// left.
  std::future<std::optional<std::string>> ask_board(Rank peer, uint64_t call, Deadline deadline);

  // ---- leaving
  /// Sends the leave notice: this rank made `calls` calls with this digest, the last of them `last` (as text), and
  /// exchanged the messages counted in `traffic` (each peer once).
  /// Services stay open for slower ranks, on the control thread, until all ranks have left or the service is removed:
  /// give them shared ownership of what they need.
  /// Returns at once, with what the rendezvous server knows of ranks that left before, except in the last endpoint of
  /// this process to leave. That one waits until no communicator needs this process, so that the process may then exit
  /// without harm to others. For communicators that have failed it waits until the others know, 2 s at most; `late`
  /// says if the deadline ended the wait. If its own communicator has no mismatch, it reports the first one found in
  /// communicators that this process left earlier. Throws nothing; a second call only repeats the result for this
  /// communicator.
  LeaveResult leave(uint64_t calls, Deadline deadline, uint64_t digest = 0, const std::string& last = "",
                    std::vector<PeerTransfers> traffic = {});
  /// Fails the communicator and leaves, for a rank that cannot leave in order. Only the last endpoint of this process
  /// waits, for `seconds` at most, until the other ranks have heard of it.
  void drop(Code code, const std::string& why, double seconds);
  /// Calls `then` once every rank has left, and none was lost: on the control thread, or at once. In place of what was
  /// to be done before for the same `what`; empty: nothing is.
  void when_all_have_left(const std::string& what, std::function<void()> then);
  /// The last calls and transfers of `rank`, once it has left.
  std::optional<Left> left(Rank rank) const;

  // ---- transports::Wireup
  Fd open_stream(Rank peer, const std::string& label, Deadline deadline) override;
  std::vector<transports::Path> paths(Rank peer) const override;
  Fd open_stream_over(const transports::Path& path, Rank peer, const std::string& label, Deadline deadline) override;
  std::optional<Fd> take_stream(Rank peer, const std::string& label) override;
  void receive_streams(const std::string& label, std::function<void(Rank from, Fd stream)> take) override;
  void serve(const std::string& service, Service answer) override;
  /// Ends all services, of this rank's transports too, and closes the streams that none of them has taken. New ones may
  /// be served.
  void end_services();
  /// Waits until `peer` offers the service, then for its reply.
  Reply ask(Rank peer, const std::string& service, const std::string& request, Deadline deadline) override;

 private:
  Endpoint(ControlThread& control, std::shared_ptr<ControlClient> client);
  UniqueId id_opened_by(Rank leader, std::string_view purpose, const Places& places) const;
  void check_not_left() const;
  void check_usable() const;
  Fd open_stream(const std::vector<Address>& addresses, const Address* from, Rank peer, const std::string& label,
                 Deadline deadline);
  void describe_late_ranks(LeaveResult& result, double limit, double left) const;

  ControlThread& control_;
  std::shared_ptr<ControlClient> client_;
  std::atomic<bool> gone_{false};  // leave() was called
};

}  // namespace tutti::control
