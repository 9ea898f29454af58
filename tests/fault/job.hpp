// A job of several ranks, each of which makes the calls of a script and tells what came of them.
//
// A script is lines of words: `all_reduce COUNT TYPE OP`, `reduce COUNT TYPE OP ROOT`, `reduce_scatter COUNT TYPE OP`,
// `all_gather COUNT TYPE`, `all_to_all COUNT TYPE`, `broadcast COUNT TYPE ROOT`, `gather`, `scatter` likewise,
// `split COLOUR KEY`, `use N` (calls that follow are made on the communicator of the N-th split; 0: the first one),
// `barrier`, `send COUNT TYPE PEER`, `recv COUNT TYPE PEER`, `start` and `end` of a group, `destroy`, `repeat LINE`
// (again and again until it fails), `exit` (the process ends at once), `wait` (until the test says `go`), `fill` (all
// outputs so far get a pattern), `intact` (fails where an output has not kept it).
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "fault/clock.hpp"
#include "support/child.hpp"

namespace tutti::fault {

/// What came of one line.
struct Told {
  int line = 0;        ///< from 0
  int code = 0;        ///< tuttiResult_t
  double at = 0;       ///< CLOCK_MONOTONIC, seconds, when it returned
  double seconds = 0;  ///< that it took
  std::string text;    ///< tuttiGetLastError, if it failed
};

/// A rank's lines, in order; less than its script has where its process ended before.
using Story = std::vector<Told>;

/// Where ranks live and over what they talk: "local" (threads), "shm" or "tcp" (processes).
struct Stage {
  std::string transport;
  int ranks = 2;
  std::string environment;     ///< more variables: "NAME=value NAME=value"
  std::string only_first;      ///< … of the first process alone
  std::string role = "ranks";  ///< of the processes: their Role, which ends in live()
};

/// What a process of ranks does: for roles that prepare something first.
int live(const std::string& argument, testing::Line& test);

class Job {
 public:
  /// Starts the ranks; `script(rank)` is each one's.
  Job(const Stage& stage, const std::function<std::string(int)>& script);

  /// Says `go` to a rank that waits, or will.
  void go(int rank);
  /// Waits until the rank has told of a line, or its process has ended.
  void await(int rank, int line);
  /// Waits until every rank has told all it has to tell, at most `seconds`; stacks of those that have not are dumped.
  std::vector<Story> finish(double seconds = 60);
  const std::string& problem() const { return problem_; }

  testing::Child& child_of(int rank) { return children_[static_cast<size_t>(child_of_[static_cast<size_t>(rank)])]; }

 private:
  bool hear_one(size_t child, double seconds);

  std::deque<testing::Child> children_;
  std::vector<int> child_of_;  // by rank
  std::vector<bool> over_;     // by child
  std::vector<Story> stories_;
  std::string problem_;
};

}  // namespace tutti::fault
