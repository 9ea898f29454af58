// A job of several ranks; each makes the calls of a script and reports their results.
//
// A script is lines of words: `all_reduce COUNT TYPE OP`, `reduce COUNT TYPE OP ROOT`, `reduce_scatter COUNT TYPE OP`,
// `all_gather COUNT TYPE`, `all_to_all COUNT TYPE`, `broadcast COUNT TYPE ROOT`, `gather`, `scatter` likewise,
// `split COLOUR KEY`, `shrink EXCLUDED…`, `use N` (calls that follow are made on the communicator of the N-th split or
// shrink; 0: the first one),
// `splits N` (N splits of all ranks, of halves and in reverse order by turns, with an all-reduce on each),
// `destroy_all` (the last one first), `hold` (first: the rank joins when the test says `go`), `tells` (first: it tells
// that it begins to join), `nonblocking` (first: it joins, and finalizes, in the background), `finalize`, `barrier`,
// `send COUNT TYPE PEER`, `recv COUNT TYPE PEER`, `start` and `end` of a group, `destroy`, `repeat LINE` (again and
// again until it fails), `exit` and `kill` (the process ends at once), `wait` (until the test says `go`), `fill` (all
// outputs so far get a pattern), `intact` (fails where an output has not kept it); `window COUNT` (an output of so many
// i64 becomes this rank's part of a window; `window_null COUNT`: NULL does), and on that `put COUNT PEER`,
// `put_signal COUNT PEER`, `get COUNT PEER` (of a part that holds zeros: other bytes are an error), `signal PEER`,
// `wait_signal PEER`, `flush PEER`, `deregister`; `revoke`, `until_revoked` (barriers until one is not tuttiPeerFailed,
// for 10 s at most), `suspend`, `resume`, `sum COUNT` (an all-reduce whose sums are
// checked), `resources` (its text: fault/resources.hpp's numbers).
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "fault/clock.hpp"
#include "support/child.hpp"

namespace tutti::fault {

/// The result of one line.
struct LineResult {
  int line = 0;        ///< from 0
  int code = 0;        ///< tuttiResult_t
  double at = 0;       ///< CLOCK_MONOTONIC, seconds, when it returned
  double seconds = 0;  ///< that it took
  std::string text;    ///< tuttiGetLastError, if it failed; or what the line tells
};

/// A rank's results, in order; fewer than its script's lines if its process ended before.
using Story = std::vector<LineResult>;

/// Where ranks run and which transport they use: "local" (threads), "shm" or "tcp" (processes).
struct Stage {
  std::string transport;
  int ranks = 2;
  std::string environment;     ///< more variables: "NAME=value NAME=value"
  std::string only_first;      ///< … for the first process only
  std::string role = "ranks";  ///< of the processes: their Role, which ends in live()
  int threads = 1;             ///< ranks in a process; of "local", all are
};

/// The main function of a process with ranks, for roles that prepare something first.
int live(const std::string& argument, test::Line& test);

class Job {
 public:
  /// Starts the ranks with their scripts, `script(rank)`.
  Job(const Stage& stage, const std::function<std::string(int)>& script);

  /// Sends `go` to a rank that waits, or will wait.
  void go(int rank);
  /// Waits until the rank has reported a line, or its process has ended.
  void await(int rank, int line);
  /// Waits until every rank has reported all lines, at most `seconds`; dumps stacks of those that have not.
  std::vector<Story> finish(double seconds = 60);
  const std::string& problem() const { return problem_; }

  test::Child& child_of(int rank) { return children_[static_cast<size_t>(child_of_[static_cast<size_t>(rank)])]; }

 private:
  bool hear_one(size_t child, double seconds);

  std::deque<test::Child> children_;
  std::vector<int> child_of_;  // by rank
  std::vector<bool> over_;     // by child
  std::vector<Story> stories_;
  std::string problem_;
};

}  // namespace tutti::fault
