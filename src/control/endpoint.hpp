// One rank of one communicator, as the control plane sees it: who the others are, how to reach them, whether they live.
//
// Every rank keeps one authenticated connection to the communicator's rendezvous server
// (control/rendezvous_server.hpp). What arrives there is handled by the process's control thread; the calls below only
// wait for it or leave work with it, so they may be made from any thread, and a rank that computes for an hour still
// answers its peers.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
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

/// How a communicator ended, as far as this rank knows.
struct Farewell {
  bool complete =
      false;  ///< every rank left or failed; false: not known (others of this process go on, or time ran out)
  std::string mismatch;    ///< "rank 2 left after 16 calls, rank 0 after 17"; empty where the ranks made the same calls
  Rank rank = 0;           ///< this process's, in the communicator that `mismatch` is about
  std::string late;        ///< "rank 0 waited 600.0 s for rank 2 to leave"; empty where the wait did not run out
  Rank awaited = kNoRank;  ///< the first of those, where they are of this communicator
};

class Endpoint final : public transports::Wireup {
 public:
  /// Takes the client of `rank` among `ranks` and waits until all are there. `info` (≤ 1 MiB) is handed to every rank
  /// as it is. Several ranks may live in one process, each joining on a thread of its own. Throws Error(Timeout) naming
  /// the missing ranks; InvalidArgument where the id is unknown to its maker, the rank is taken or the number of ranks
  /// is not the others'; PeerFailed; InvalidUsage in a forked child.
  static std::unique_ptr<Endpoint> join(const UniqueId& id, Rank ranks, Rank rank, std::string info, Deadline deadline,
                                        const std::atomic<uint32_t>* stop = nullptr);

  /// Without leave() before it, the destructor tells the others that this rank has gone, which fails the communicator.
  ~Endpoint() override;
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // ---- who is there
  Rank rank() const override;
  Rank ranks() const override;
  const transports::ProcessId& process_id(Rank rank) const override;
  const std::string& name() const override;
  /// What `rank` gave to join().
  const std::string& info(Rank rank) const;
  /// For people: "rank 2 (process 4711 on node17)".
  std::string describe(Rank rank) const;

  /// Every rank gives some bytes (≤ 16 MiB), every rank gets those of all, in order of rank. Collective, one at a time.
  /// A time-out fails the communicator, since the ranks are then no longer in step, and so do ranks with different
  /// purposes.
  /// Throws Error(Timeout | Mismatch | PeerFailed | Aborted | …).
  std::vector<std::string> exchange(std::string mine, Deadline deadline, const ExchangePurpose& purpose = {});

  // ---- failure
  /// 0 while all is well, else the Code of the first failure. One load: for loops that wait.
  const std::atomic<uint32_t>& failed() const;
  /// The first failure that this rank learnt of.
  std::optional<std::pair<Code, std::string>> failure() const;
  /// Throws the failure, if there is one.
  void check() const;
  /// Fails the communicator on all ranks, for the reason given; the first reason stands. Returns at once.
  void fail(Code code, const std::string& text);
  /// The same for whoever may outlive this endpoint; with it fail the communicators of the waits with these tickets.
  std::function<void(Code, const std::string&, const std::vector<uint64_t>& tickets)> failing() const;
  /// As fail(Code::Aborted), saying which rank did it.
  void abort();
  /// True once `rank` is known to have died, or to have been lost with its host.
  bool lost(Rank rank) const;

  // ---- call boards (DESIGN §7.1)
  /// `board` gives this rank's entry for a call (≤ 4096 bytes); it runs on the control thread, or on the thread of a
  /// rank in this process: it must be quick and must not throw. An empty function ends the service; then no call of it
  /// is under way any more.
  void serve_board(std::function<std::string(uint64_t call)> board);
  /// Asks for the entry of `peer`; nothing if it does not answer by the deadline, has no board, or has gone.
  std::future<std::optional<std::string>> ask_board(Rank peer, uint64_t call, Deadline deadline);

  // ---- leaving
  /// Says goodbye, having made `calls` calls with this digest, the last of them `last` (in words), and sent and
  /// received `traffic` (each peer once). Services stay open for slower ranks, under the control thread, until all
  /// ranks have left, unless they were removed: give them shared ownership of what they need. Returns at once, except
  /// in the last endpoint of this process to leave: that one waits until all communicators of this process are through,
  /// so that the process may then exit without harm to any other; it waits 2 s at most for those that have failed, and
  /// says (`late`) when the deadline ended its wait. If all is well
  /// with its own communicator, it tells of the first mismatch in those that this process left before, whose leave()
  /// could not know yet. Throws nothing; a second call only repeats the answer for this communicator.
  Farewell leave(uint64_t calls, Deadline deadline, uint64_t digest = 0, const std::string& last = "",
                 std::vector<PeerTransfers> traffic = {});
  /// What `rank` had done when it left, once it did.
  std::optional<Left> left(Rank rank) const;

  // ---- transports::Wireup
  Fd open_stream(Rank peer, const std::string& label, Deadline deadline) override;
  std::optional<Fd> take_stream(Rank peer, const std::string& label) override;
  void serve(const std::string& service, Service answer) override;
  /// Waits until `peer` offers the service, then for its answer.
  Reply ask(Rank peer, const std::string& service, const std::string& request, Deadline deadline) override;

 private:
  Endpoint(ControlThread& control, std::shared_ptr<ControlClient> client);
  void check_usable() const;
  void say_who_is_late(Farewell& farewell, double waited) const;

  ControlThread& control_;
  std::shared_ptr<ControlClient> client_;
  std::atomic<bool> gone_{false};  // leave() was called
};

}  // namespace tutti::control
