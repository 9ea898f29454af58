#include "fault/job.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <thread>

#include "fault/script.hpp"
#include "support/id_text.hpp"
#include "support/watchdog.hpp"
#include "tutti/tutti.h"

namespace tutti::fault {
namespace {

using test::Child;
using test::hex_of;
using test::id_from;
using test::Line;

}  // namespace

/// A process with ranks. Argument: the number of ranks, the range [begin, end) of this process, whether it makes the
/// id. The id, the scripts and the ranks' results are sent over the line.
int live(const std::string& argument, Line& test) {
  int ranks = 0, begin = 0, end = 0;
  std::istringstream(argument) >> ranks >> begin >> end;
  tuttiUniqueId id;
  if (begin == 0) {
    if (tuttiGetUniqueId(&id) != tuttiSuccess) return 2;
    test.tell(hex_of(id));
  } else {
    id = id_from(test.receive());
  }
  std::vector<std::string> scripts;
  for (int rank = begin; rank < end; ++rank) {
    std::string script = test.receive();
    std::replace(script.begin(), script.end(), ';', '\n');
    scripts.push_back(script);
  }
  std::vector<std::thread> threads;
  for (int rank = begin; rank < end; ++rank) {
    threads.emplace_back([&, rank] { play(ranks, rank, id, scripts[static_cast<size_t>(rank - begin)], test); });
  }
  for (std::thread& thread : threads) thread.join();
  return 0;
}

namespace {
const test::Role role("ranks", live);

/// FAULT_NETWORK takes the place of tcp, for tests where there is another one (tests/cluster/verbs).
std::string transport_of(const Stage& stage) {
  const char* const network = std::getenv("FAULT_NETWORK");
  return stage.transport == "tcp" && network != nullptr ? network : stage.transport;
}

}  // namespace

Job::Job(const Stage& stage, const std::function<std::string(int)>& script)
    : stories_(static_cast<size_t>(stage.ranks)) {
  const int processes = stage.transport == "local" ? 1 : stage.ranks / stage.threads;
  std::string id;
  for (int p = 0; p < processes; ++p) {
    const int begin = p * stage.ranks / processes, end = (p + 1) * stage.ranks / processes;
    Child& child = children_.emplace_back(stage.role, fmt::format("{} {} {}", stage.ranks, begin, end),
                                          // Of a variable that is given twice, the first value counts.
                                          fmt::format("TUTTI_TRANSPORT={} {} {}", transport_of(stage),
                                                      p == 0 ? stage.only_first : "", stage.environment));
    if (p == 0) {
      id = child.receive();
    } else {
      child.tell(id);
    }
    for (int rank = begin; rank < end; ++rank) {
      child_of_.push_back(p);
      std::string lines = script(rank);
      std::replace(lines.begin(), lines.end(), '\n', ';');
      child.tell(lines);
    }
    over_.push_back(false);
  }
}

void Job::go(int rank) { child_of(rank).tell("go"); }

/// Reads one result line of a child; false if there are no more, or none arrived in time.
bool Job::hear_one(size_t child, double seconds) {
  const std::string line = children_[child].receive(seconds);
  if (line == "(late)") return false;
  if (line == "(nothing)") {
    over_[child] = true;
    return false;
  }
  std::istringstream words(line);
  size_t rank = 0;
  LineResult report;
  words >> rank >> report.line >> report.code >> report.at >> report.seconds;
  words.get();
  std::getline(words, report.text);
  if (rank < stories_.size()) stories_[rank].push_back(report);
  return true;
}

void Job::await(int rank, int line) {
  const auto child = static_cast<size_t>(child_of_[static_cast<size_t>(rank)]);
  const auto& story = stories_[static_cast<size_t>(rank)];
  while ((story.empty() || story.back().line < line) && hear_one(child, 60)) {
  }
}

std::vector<Story> Job::finish(double seconds) {
  const double deadline = now() + seconds;
  for (size_t child = 0; child < children_.size(); ++child) {
    while (!over_[child] && hear_one(child, std::max(0.01, deadline - now()))) {
    }
    if (over_[child]) continue;
    problem_ += fmt::format("process {} had more to tell after {} s; ", child, seconds);
    test::dump_stacks(children_[child].process());
  }
  for (size_t child = 0; child < children_.size(); ++child) {
    if (over_[child]) children_[child].wait();
  }
  return stories_;
}

}  // namespace tutti::fault
