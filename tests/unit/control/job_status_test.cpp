// What follows from the states of a job's ranks: for whom they wait in the end, and why.
#include "control/status/job_status.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace tutti::control {
namespace {

constexpr const char* kCommunicator = "aaaa";

RankStatus at(Rank rank, uint64_t entered, uint64_t left) {
  return {.communicator = kCommunicator,
          .title = "world",
          .rank = rank,
          .ranks = 4,
          .entered = entered,
          .left = left,
          .call = entered == 41 ? "all_reduce(count=8, f32, sum)" : "barrier()",
          .still_ms = 12'340,
          .awaited = {},
          .failure = {}};
}

RankStatus waiting(Rank rank, std::vector<Rank> on) {
  RankStatus status = at(rank, 41, 40);
  status.stuck_ms = 12'000;
  status.awaited = std::move(on);
  return status;
}

JobProcess process_of(RankStatus rank) {
  const auto process = static_cast<uint32_t>(4700 + rank.rank);
  return {.host = "b",
          .process = process,
          .state = JobProcess::State::Answers,
          .known = {},
          .status = {.version = "0", .ranks = {std::move(rank)}}};
}

JobProcess without_answer(Rank rank, JobProcess::State state) {
  return {.host = "b",
          .process = static_cast<uint32_t>(4700 + rank),
          .state = state,
          .known = {{.communicator = kCommunicator, .title = "world", .rank = rank}},
          .status = {}};
}

JobStatus job_of(std::vector<JobProcess> processes) {
  return {.host = "b", .process = processes.front().process, .processes = std::move(processes)};
}

/// Ranks 0, 1 and 3 wait: 3 for 1, 1 for 0, 0 for 2.
JobStatus chain_to(JobProcess second) {
  return job_of(
      {process_of(waiting(0, {2})), process_of(waiting(1, {0})), std::move(second), process_of(waiting(3, {1}))});
}

TEST(JobStatus, NamesTheRankAtTheEndOfAllWaits) {
  EXPECT_EQ(
      verdicts(chain_to(process_of(at(2, 40, 40)))),
      (std::vector<std::string>{"world: ranks 0, 1, 3 wait, directly or not, for rank 2 (process 4702 on b), which has "
                                "not entered all_reduce(count=8, f32, sum), call 41: its last call was barrier(), "
                                "call 40, and it has made none for 12.3 s"}));
  EXPECT_NE(
      verdicts(chain_to(process_of(at(2, 40, 39)))).at(0).find("call 41: it is in barrier(), call 40, for 12.3 s"),
      std::string::npos);
  EXPECT_NE(
      verdicts(chain_to(process_of(at(2, 41, 40)))).at(0).find("which is in all_reduce(count=8, f32, sum), call 41"),
      std::string::npos);
}

TEST(JobStatus, SaysWhereAProcessIsGoneStoppedOrSilent) {
  EXPECT_NE(verdicts(chain_to(without_answer(2, JobProcess::State::Stopped))).at(0).find("whose process is stopped"),
            std::string::npos);
  EXPECT_NE(verdicts(chain_to(without_answer(2, JobProcess::State::Gone))).at(0).find("whose process is gone"),
            std::string::npos);
  EXPECT_NE(
      verdicts(chain_to(without_answer(2, JobProcess::State::Silent))).at(0).find("does not answer: it is stopped"),
      std::string::npos);
}

RankStatus in_row(RankStatus status) {
  status.communicator = "bbbb";
  status.title = "row";
  return status;
}

/// Process 2 has not entered world's call: it waits in `row`, as rank 1, for its rank 0, which is in process 4.
JobStatus chain_through_row(JobProcess fourth) {
  JobProcess busy = process_of(at(2, 40, 40));
  busy.status.is_free = 0;
  busy.status.ranks.push_back(in_row(waiting(1, {0})));
  JobStatus job = chain_to(std::move(busy));
  job.processes.push_back(std::move(fourth));
  return job;
}

TEST(JobStatus, FollowsWaitsThroughOtherCommunicators) {
  JobProcess fourth = process_of(in_row(at(0, 40, 40)));
  fourth.process = 4704;
  EXPECT_EQ(
      verdicts(chain_through_row(fourth)),
      (std::vector<std::string>{"rank 1 of row, ranks 0, 1, 3 of world wait, directly or not, for rank 0 of row "
                                "(process 4704 on b), which has not entered all_reduce(count=8, f32, sum), call "
                                "41: its last call was barrier(), call 40, and it has made none for 12.3 s (through "
                                "rank 2 of world, whose process 4702 on b waits as rank 1 of row)"}));
}

TEST(JobStatus, FollowsWaitsOfReceivesToo) {
  JobProcess fourth = process_of(in_row(at(0, 40, 40)));
  JobStatus job = chain_through_row(fourth);
  for (JobProcess& process : job.processes) process.status.ranks[0].is_transfer = process.process != 4702 ? 1 : 0;
  ASSERT_EQ(verdicts(job).size(), 1u);
  EXPECT_NE(verdicts(job)[0].find("(through rank 2 of world"), std::string::npos) << verdicts(job)[0];
}

TEST(JobStatus, FollowsNoWaitOfAProcessThatMayGoOn) {
  JobProcess fourth = process_of(in_row(at(0, 40, 40)));
  JobStatus job = chain_through_row(fourth);
  job.processes[2].status.is_free = 1;
  const auto all = verdicts(job);
  ASSERT_EQ(all.size(), 2u) << "each communicator's by itself";
  const size_t world = all[0].starts_with("world") ? 0 : 1;
  EXPECT_NE(all[world].find("its process waits, as rank 1 of row, in all_reduce"), std::string::npos) << all[world];
}

TEST(JobStatus, TellsCommunicatorsOfOneTitleApart) {
  JobStatus job = job_of({process_of(waiting(0, {1})), process_of(waiting(1, {0}))});
  for (JobProcess& process : job.processes) {
    process.status.ranks.push_back(in_row(process.status.ranks[0]));
    process.status.ranks.back().title = "world";
  }
  EXPECT_EQ(verdicts(job), (std::vector<std::string>{"world [aaaa]: ranks 0, 1 seem to wait for each other",
                                                     "world [bbbb]: ranks 0, 1 seem to wait for each other"}));
}

TEST(JobStatus, IsNotMisledByRanksThatThereAreNot) {
  JobStatus job = chain_to(process_of(at(2, 40, 40)));
  job.processes[0].status.ranks[0].awaited = {-1, 4, 2'000'000'000, 2};
  job.processes[3].status.ranks.push_back(at(2, 41, 40));  // says that it is rank 2, too
  ASSERT_EQ(verdicts(job).size(), 1u);
  EXPECT_NE(verdicts(job)[0].find("for rank 2 (process 4702 on b), which has not entered"), std::string::npos);
}

TEST(JobStatus, FindsCirclesThroughCommunicators) {
  JobStatus job = job_of({process_of(waiting(0, {1})), process_of(in_row(waiting(0, {1})))});
  job.processes[0].status.ranks.push_back(in_row(at(1, 40, 40)));
  job.processes[1].status.ranks.push_back(at(1, 40, 40));
  for (JobProcess& process : job.processes) process.status.is_free = 0;
  job.processes[0].process = 4711;
  job.processes[1].process = 4712;
  EXPECT_EQ(verdicts(job), std::vector<std::string>{
                               "rank 0 of row, rank 0 of world seem to wait for each other (through rank 1 of row, "
                               "whose process 4711 on b waits as rank 0 of world; rank 1 of world, whose process "
                               "4712 on b waits as rank 0 of row)"});
}

TEST(JobStatus, SaysWhereAThreadOfAProcessWaitsElsewhereButDoesNotFollowIt) {
  JobProcess busy = process_of(at(2, 40, 40));
  busy.status.ranks.push_back(at(4, 41, 41));
  busy.status.ranks.push_back(in_row(waiting(1, {0})));
  const auto all = verdicts(chain_to(std::move(busy)));
  ASSERT_EQ(all.size(), 2u) << "the other communicator's wait is told too";
  EXPECT_NE(all[0].find("its process waits, as rank 1 of row, in all_reduce"), std::string::npos) << all[0];
}

TEST(JobStatus, TellsWhenAProcessThatDoesNotAnswerWasHeardOf) {
  JobStatus job = chain_to(without_answer(2, JobProcess::State::Silent));
  job.processes[0].status.ranks[0].heard = {{.rank = 2, .ms = 4200}, {.rank = 1, .ms = 300}, {.rank = 9, .ms = 1}};
  job.processes[1].status.ranks[0].heard = {{.rank = 2, .ms = 2600}};
  note_heard(job);
  EXPECT_EQ(job.processes[2].heard_ms, 2600u) << "the last time that anybody heard of it";
  EXPECT_EQ(job.processes[1].heard_ms, 300u);
  EXPECT_EQ(job.processes[3].heard_ms, std::nullopt);
  EXPECT_NE(verdicts(job).at(0).find("cannot be reached; it was last heard of 2.6 s ago"), std::string::npos);
  EXPECT_NE(to_json(job).find(R"("state":"silent","heard_seconds":2.6,)"), std::string::npos) << to_json(job);
}

TEST(JobStatus, TellsRanksThatWaitForEachOther) {
  EXPECT_EQ(verdicts(job_of({process_of(waiting(0, {1})), process_of(waiting(1, {0})), process_of(at(2, 41, 41))})),
            std::vector<std::string>{"world: ranks 0, 1 seem to wait for each other"});
}

TEST(JobStatus, TellsCirclesApartAndWhoWaitsForThem) {
  EXPECT_EQ(verdicts(job_of({process_of(waiting(0, {1})), process_of(waiting(1, {0})), process_of(waiting(2, {3})),
                             process_of(waiting(3, {2})), process_of(waiting(4, {0}))})),
            (std::vector<std::string>{
                "world: ranks 0, 1 seem to wait for each other",
                "world: rank 4 waits, directly or not, for ranks 0, 1, which seem to wait for each other",
                "world: ranks 2, 3 seem to wait for each other"}));
}

TEST(JobStatus, ClaimsNoCircleWhereItIsNotKnownForWhomARankWaits) {
  const auto all = verdicts(job_of({process_of(waiting(0, {1})), process_of(waiting(1, {}))}));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_NE(
      all[0].find("for rank 1 (process 4701 on b), which waits in all_reduce(count=8, f32, sum), call 41, it is not "
                  "known for whom"),
      std::string::npos)
      << all[0];
}

TEST(JobStatus, DoesNotCompareCallsWithTransfers) {
  RankStatus receives = waiting(0, {1});
  receives.call = "recv(count=4, f32, from rank 1)";
  receives.is_transfer = 1;
  const auto all = verdicts(job_of({process_of(receives), process_of(at(1, 40, 40))}));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_NE(all[0].find("whose last call was barrier(), call 40, 13.3 s ago or less"), std::string::npos) << all[0];
}

TEST(JobStatus, HasNothingToSayWhereNobodyWaits) {
  EXPECT_TRUE(verdicts(job_of({process_of(at(0, 41, 40)), process_of(at(1, 40, 40))})).empty());
}

TEST(StatusBook, TellsOfTheProcessesNotHeardOfForLongest) {
  StatusBook book;
  RankStatus first = at(0, 3, 2), second = at(1, 3, 2);
  book.add(&first, {.status = [&first] { return first; }, .trace = {}});
  book.add(&second, {.status = [&second] { return second; }, .trace = {}});
  StatusBook::HeardAt heard;
  const auto now = Deadline::Clock::now();
  for (Rank rank = 0; rank < 100; ++rank) heard[kCommunicator][rank] = now - std::chrono::seconds(rank);
  book.set_heard(heard);
  const auto ranks = book.read().ranks;
  ASSERT_EQ(ranks.at(0).heard.size(), RankStatus::kMaxHeard);
  EXPECT_EQ(ranks[0].heard.front().rank, 99);
  EXPECT_GE(ranks[0].heard.front().ms, 99'000u);
  EXPECT_LT(ranks[0].heard.front().ms, 109'000u);
  EXPECT_TRUE(ranks.at(1).heard.empty()) << "the process's first rank tells it";
}

TEST(StatusBook, RemembersSinceWhenNothingHasChanged) {
  StatusBook book;
  RankStatus now = at(0, 3, 2);
  book.add(&now, {.status = [&now] { return now; }, .trace = {}});
  EXPECT_LT(book.read().ranks.at(0).still_ms, 1000u) << "since it was added, whatever its source says";
  EXPECT_EQ(book.read().ranks.at(0).entered, 3u);
  book.remove(&now);
  EXPECT_TRUE(book.read().ranks.empty());
}

TEST(StatusBook, LeavesOutWhatAnAnswerHasNoRoomFor) {
  StatusBook book;
  RankStatus long_one = at(0, 3, 2);
  long_one.failure = std::string(kMaxSmall, 'x');
  std::vector<int> many(10);
  for (int& who : many) book.add(&who, {.status = [&] { return long_one; }, .trace = {}});
  const std::string bytes = book.answer();
  EXPECT_LE(bytes.size(), kMaxEntry);
  const auto status = unpack_fields<ProcessStatus>(bytes);
  EXPECT_EQ(status.ranks.size() + status.omitted, many.size());
  EXPECT_GT(status.omitted, 0u);
  EXPECT_GT(status.ranks.size(), 2u);
}

}  // namespace
}  // namespace tutti::control
