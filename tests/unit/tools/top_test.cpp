// tutti top: rates from two answers, their order, their lines.
#include <gtest/gtest.h>

#include "tools/top/rates.hpp"

namespace tutti::tools {
namespace {

using nlohmann::json;

json counted_rank(int rank, int entered, double sent, double waited, const std::string& communicator = "aaaa") {
  return {{"communicator", communicator},
          {"title", communicator == "aaaa" ? "world" : "split of world"},
          {"rank", rank},
          {"ranks", communicator == "aaaa" ? 4 : 2},
          {"entered", entered},
          {"transfers", 0},
          {"sent_bytes", sent},
          {"received_bytes", 2 * sent},
          {"waited_seconds", waited},
          {"call", communicator == "aaaa" ? "barrier()" : "all_gather(count=1, u8)"}};
}

json job_with(const std::vector<json>& ranks_of_processes) {
  json page{{"verdicts", json::array()}, {"processes", json::array()}};
  int process = 100;
  for (const json& ranks : ranks_of_processes) {
    page["processes"].push_back({{"host", "b"}, {"process", process++}, {"state", "answers"}, {"ranks", ranks}});
  }
  return page;
}

TEST(TopTable, HasWhatWasDoneBetweenTheAnswers) {
  const json before = job_with({{counted_rank(0, 10, 1e9, 1), counted_rank(1, 5, 0, 0, "bbbb")}});
  const json now = job_with({{counted_rank(0, 30, 5e9, 2), counted_rank(1, 15, 2e9, 0, "bbbb")}});
  const TopTable table = top_table(before, now, 2);
  EXPECT_EQ(table.title, "world");
  ASSERT_EQ(table.rows.size(), 1u) << "a process with one rank in the largest communicator is one row";
  EXPECT_DOUBLE_EQ(table.rows[0].calls, 15);
  EXPECT_DOUBLE_EQ(table.rows[0].sent, 3e9);
  EXPECT_DOUBLE_EQ(table.rows[0].received, 6e9);
  EXPECT_DOUBLE_EQ(table.rows[0].waiting, 0.5);
  EXPECT_EQ(table.rows[0].call, "barrier()");
}

TEST(TopTable, OfSeveralRanksInAProcessHasARowEach) {
  const json before = job_with({{counted_rank(0, 10, 0, 0), counted_rank(1, 10, 0, 0)}});
  const json now = job_with({{counted_rank(0, 20, 0, 0), counted_rank(1, 12, 0, 0)}});
  const TopTable table = top_table(before, now, 1);
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_DOUBLE_EQ(table.rows[0].calls, 10);
  EXPECT_DOUBLE_EQ(table.rows[1].calls, 2);
}

TEST(TopTable, CountsAWaitThatLastsAndShowsItsCall) {
  json waits = counted_rank(1, 10, 0, 0, "bbbb");
  waits["waits_seconds"] = 30.0;
  waits["waits_for"] = {0};
  const json page = job_with({{counted_rank(0, 10, 0, 0), waits}});
  waits["waits_seconds"] = 28.5;
  const TopTable table = top_table(job_with({{counted_rank(0, 10, 0, 0), waits}}), page, 2);
  EXPECT_DOUBLE_EQ(table.rows[0].waiting, 0.75);
  EXPECT_EQ(table.rows[0].call, "all_gather(count=1, u8)");
  EXPECT_EQ(table.rows[0].whom, "0");
}

TEST(TopTable, ANewRankHasNoRatesYet) {
  const TopTable table = top_table(job_with({}), job_with({{counted_rank(0, 1000, 1e9, 50)}}), 1);
  EXPECT_EQ(table.rows[0].calls, 0);
  EXPECT_EQ(table.rows[0].waiting, 0);
}

TEST(TopTable, PutsTheWorstFirst) {
  json silent{{"communicator", "aaaa"}, {"title", "world"}, {"rank", 3}};
  json waits = counted_rank(0, 10, 0, 0);
  waits["waits_seconds"] = 1.0;
  waits["waits_for"] = {2};
  json page = job_with({{waits}, {counted_rank(1, 10, 0, 0)}, {counted_rank(2, 10, 0, 0)}, {silent}});
  page["processes"][3]["state"] = "silent";
  TopTable table = top_table(page, page, 1);
  sort_rows(table.rows, TopOrder::Worst);
  std::vector<int64_t> order;
  for (const TopRow& row : table.rows) order.push_back(row.rank);
  EXPECT_EQ(order, (std::vector<int64_t>{3, 2, 0, 1}));
  sort_rows(table.rows, TopOrder::Rank);
  EXPECT_EQ(table.rows[0].rank, 0);
}

TEST(TopText, FitsItsWidthAndHeight) {
  std::vector<json> processes;
  for (int rank = 0; rank < 50; ++rank) processes.push_back(json::array({counted_rank(rank, 10, 0, 0)}));
  json page = job_with(processes);
  page["verdicts"] = {std::string(500, 'v')};
  const std::string text = top_text(top_table(page, page, 1), TopOrder::Worst, 80, 24);
  size_t lines = 0, begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1, ++lines) {
    EXPECT_LE(end - begin, 80u);
  }
  EXPECT_LE(lines, 23u) << "one is for the keys";
  EXPECT_NE(text.find("(50 ranks in all)"), std::string::npos);
  EXPECT_NE(text.find("world: 50 processes on 1 host; ranks the worst first\n"), std::string::npos);
}

}  // namespace
}  // namespace tutti::tools
