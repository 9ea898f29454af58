// NCCL's RAS protocol: lines of a client, and the two forms of the report.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "control/status/ras/report.hpp"
#include "control/status/ras/session.hpp"
#include "tutti/types.hpp"

namespace tutti::control::ras {
namespace {

using Then = Session::Then;

TEST(RasSession, AnswersEachLineAsItComes) {
  Session session;
  std::string replies;
  EXPECT_EQ(session.take("client protocol 2\r\nTIMEOUT 5\nSET FO", replies), Then::Listen);
  EXPECT_EQ(replies, "SERVER PROTOCOL 2\nOK\n");
  replies.clear();
  EXPECT_EQ(session.take("RMAT Json\nVERBOSE STATUS\n", replies), Then::Report);
  EXPECT_EQ(replies, "OK\n");
  EXPECT_TRUE(session.json());
  EXPECT_TRUE(session.verbose());
}

TEST(RasSession, NamesWhatItDoesNotKnowAndGoesOn) {
  Session session;
  std::string replies;
  EXPECT_EQ(session.take("\nMONITOR\nTIMEOUT -1\nTIMEOUT 2x\nTIMEOUT 2.5\nSET FORMAT xml\n", replies), Then::Listen);
  EXPECT_EQ(replies,
            "ERROR: Unknown command \nERROR: Unknown command MONITOR\nERROR: Invalid timeout value -1\n"
            "ERROR: Invalid timeout value 2x\nOK\nERROR: Invalid format xml\n");
}

TEST(RasSession, EndsTheConnectionAtALineWithoutEnd) {
  Session session;
  std::string replies;
  EXPECT_EQ(session.take(std::string(1023, 'x'), replies), Then::Listen);
  EXPECT_EQ(session.take("x", replies), Then::Close);
}

RankStatus status_of(int32_t rank, uint64_t reduces) {
  RankStatus status{.communicator = "00ab34ef00000001ffff",
                    .title = "world",
                    .rank = rank,
                    .ranks = 4,
                    .transports = {},
                    .call = {},
                    .awaited = {},
                    .failure = {},
                    .counts = {}};
  status.counts.assign(kCollectives, 0);
  status.counts[static_cast<size_t>(Collective::AllReduce)] = reduces;
  return status;
}

JobProcess process_of(int32_t rank, uint64_t reduces) {
  JobProcess process{.host = "b",
                     .address = "10.0.0.7",
                     .process = 100 + static_cast<uint32_t>(rank),
                     .state = JobProcess::State::Answers,
                     .known = {},
                     .status = {}};
  process.known.push_back({.communicator = "00ab34ef00000001ffff", .title = "world", .rank = rank});
  process.status.ranks.push_back(status_of(rank, reduces));
  return process;
}

JobStatus healthy() {
  return {.host = "b",
          .process = 100,
          .processes = {process_of(0, 7), process_of(1, 7), process_of(2, 7), process_of(3, 7)}};
}

std::string text_of(const JobStatus& status) { return to_text(job_of(status), false); }

TEST(RasText, OfAHealthyJob) {
  const std::string text = text_of(healthy());
  EXPECT_NE(text.find("Job summary\n===========\n\n"
                      "  Nodes  Processes         GPUs  Processes     GPUs\n"
                      "(total)   per node  per process    (total)  (total)\n"
                      "      1          4            1          4        4\n\n"
                      "Communicators... (0.000s)\n=============\n\n"
                      "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
                      "    #  in group  per comm  per node  per comm  in group\n"
                      "    0         1         1         4         4         4   RUNNING      OK\n\n"
                      "Errors\n======\n\nWarnings\n========\n\n"),
            std::string::npos)
      << text;
}

TEST(RasText, NamesRanksThatHaveMadeFewerCalls) {
  JobStatus status = healthy();
  status.processes[2] = process_of(2, 6);
  const std::string text = text_of(status);
  EXPECT_NE(text.find("         4   RUNNING  MISMATCH\n"), std::string::npos) << text;
  EXPECT_NE(text.find("#0-0 (00ab34ef00000001) MISMATCH\n"
                      "  Communicator ranks have different AllReduce operation counts\n"
                      "  3 ranks have launched up to operation 7\n"
                      "  Rank 2 has launched up to operation 6 -- GPU -1 managed by process 102 on node 10.0.0.7\n\n"),
            std::string::npos)
      << text;
}

TEST(RasText, TellsSilentProcessesFromDeadOnes) {
  JobStatus status = healthy();
  for (const auto& [at, state] : {std::pair(1, JobProcess::State::Stopped), std::pair(3, JobProcess::State::Gone)}) {
    status.processes[static_cast<size_t>(at)].status = {};
    status.processes[static_cast<size_t>(at)].state = state;
  }
  const std::string text = text_of(status);
  EXPECT_NE(text.find("         2   RUNNING  INCOMPLETE\n"), std::string::npos) << text;
  EXPECT_NE(text.find("INCOMPLETE\n  Missing communicator data from 1 job process\n"
                      "  Process 101 on node 10.0.0.7 managing GPU -1\n\n"
                      "DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n"
                      "  Process 103 on node 10.0.0.7 managing GPU -1\n\n"
                      "#0-0 (00ab34ef00000001) INCOMPLETE\n  Missing communicator data from 2 ranks\n"),
            std::string::npos)
      << text;
}

TEST(RasText, NamesFailures) {
  JobStatus status = healthy();
  for (JobProcess& process : status.processes) {
    process.status.ranks[0].failure = "rank 3 is gone";
    process.status.ranks[0].failure_code = static_cast<uint8_t>(Code::PeerFailed);
  }
  const std::string text = text_of(status);
  EXPECT_NE(text.find("#0-0 (00ab34ef00000001) ERROR\n  Asynchronous errors on 4 ranks\n"
                      "  4 ranks reported Remote process error\n"
                      "  Rank 0 -- GPU -1 managed by process 100 on node 10.0.0.7\n"),
            std::string::npos)
      << text;
}

TEST(RasText, OfProcessesWithDifferentNumbersOfRanks) {
  JobStatus status = healthy();
  status.processes[0].status.ranks.push_back(status_of(4, 7));
  status.processes[3].address = "10.0.0.8";
  const std::string text = text_of(status);
  EXPECT_NE(text.find("  Nodes  Processes\n          per node\n      1          1\n      1          3\n\n"
                      "         Processes         GPUs\n                    per process\n"
                      "                 3            1\n                 1            2\n\n"
                      "  Nodes  Processes         GPUs\n(total)    (total)      (total)\n"
                      "      2          4            5\n"),
            std::string::npos)
      << text;
}

TEST(RasJson, HasEveryFieldOfItsReaders) {
  JobStatus status = healthy();
  status.processes[3].status = {};
  status.processes[3].state = JobProcess::State::Gone;
  const std::string text = to_json(job_of(status), "2026-01-31 13:06:53");
  EXPECT_EQ(text.find('{'), 0u);
  EXPECT_EQ(text.back(), '\n');
  const auto page = nlohmann::json::parse(text);
  EXPECT_EQ(page["timestamp"], "2026-01-31 13:06:53");
  EXPECT_EQ(page["communicators_count"], 1);
  const auto& communicator = page["communicators"][0];
  EXPECT_EQ(communicator["hash"], "0xab34ef00000001");
  EXPECT_EQ(communicator["size"], 4);
  EXPECT_EQ(communicator["ranks_count"], 3);
  EXPECT_EQ(communicator["missing_ranks_count"], 1);
  const auto& rank = communicator["ranks"][1];
  EXPECT_EQ(rank["rank"], 1);
  EXPECT_EQ(rank["host"], "10.0.0.7");
  EXPECT_EQ(rank["pid"], 101);
  EXPECT_EQ(rank["status"]["abort_flag"], false);
  EXPECT_EQ(rank["status"]["async_error"], 0);
  EXPECT_EQ(
      rank["collective_counts"],
      (nlohmann::json{{"Broadcast", 0}, {"Reduce", 0}, {"AllGather", 0}, {"ReduceScatter", 0}, {"AllReduce", 7}}));
  EXPECT_EQ(communicator["missing_ranks"][0]["status"],
            (nlohmann::json{{"unresponsive", true}, {"considered_dead", true}}));
}

}  // namespace
}  // namespace tutti::control::ras
