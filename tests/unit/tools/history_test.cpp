// What the page of `tutti watch` is told.
#include "tools/watch/history.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tutti::tools {
namespace {

TopTable table_of(int64_t ranks, double waiting) {
  TopTable table{.title = "world", .processes = static_cast<size_t>(ranks), .hosts = 1, .rows = {}, .waits = {}};
  for (int64_t rank = ranks - 1; rank >= 0; --rank) {
    table.rows.push_back({.rank = rank, .state = "answers", .calls = 2, .sent = 10, .waiting = waiting});
  }
  return table;
}

TEST(History, TellsTheSamplesAfterTheOneThatIsKnown) {
  History history(1);
  for (int i = 1; i <= 5; ++i) history.add(table_of(3, 0.1 * i), i);
  const auto page = nlohmann::json::parse(history.page(3));
  EXPECT_EQ(page["last"], 5);
  EXPECT_EQ(page["error"], nullptr);
  ASSERT_EQ(page["samples"].size(), 2u);
  EXPECT_EQ(page["samples"][0],
            nlohmann::json::parse(R"({"number":4,"seconds":4.0,"calls":6.0,"sent":30.0,"waiting":[40,40,40]})"));
  EXPECT_EQ(nlohmann::json::parse(history.page(9))["samples"].size(), 0u);
}

TEST(History, HasNoShareOfARankThatDoesNotAnswerOrIsNotThere) {
  History history(1);
  TopTable table = table_of(4, 0.5);
  table.rows.erase(table.rows.begin());  // rank 3
  table.rows[0].state = "silent";        // rank 2
  table.rows.push_back({.rank = -1});
  table.rows.push_back({.rank = int64_t{1} << 40});
  history.add(table, 1);
  EXPECT_EQ(nlohmann::json::parse(history.page(0))["samples"][0]["waiting"], nlohmann::json::parse("[50,50,null]"));
}

TEST(History, ShowsTheRanksAsTheyWereLastWhenTheJobHasEnded) {
  History history(1);
  history.add(table_of(3, 0.5), 1);
  history.add({.title = "world", .processes = 1, .hosts = 1, .rows = {}, .waits = {}}, 2);
  EXPECT_EQ(nlohmann::json::parse(history.page(0))["rows"].size(), 0u);
  history.end("it has ended");
  const auto page = nlohmann::json::parse(history.page(0));
  EXPECT_EQ(page["error"], "it has ended");
  EXPECT_EQ(page["rows"].size(), 3u);
  EXPECT_EQ(page["processes"], 3);
}

TEST(History, ShowsTheJobThatEndedBeforeItsRanksWereSeen) {
  History history(1);
  history.add({.title = "world", .processes = 2, .hosts = 1, .rows = {}, .waits = {}}, 1);
  history.end("it has ended");
  const auto page = nlohmann::json::parse(history.page(0));
  EXPECT_EQ(page["title"], "world");
  EXPECT_EQ(page["processes"], 2);
}

TEST(History, TellsALimitedNumberOfThoseThatWait) {
  History history(1);
  TopTable table = table_of(1, 0);
  for (int64_t rank = 0; rank < 1000; ++rank) table.waits.emplace_back(rank, std::vector<int64_t>(1000, 1));
  history.add(table, 1);
  const auto waits = nlohmann::json::parse(history.page(0))["waits"];
  EXPECT_EQ(waits.size(), History::kMaxRows);
  EXPECT_EQ(waits[0][1].size(), History::kMaxAwaited);
}

TEST(History, KeepsALimitedNumberOfSamples) {
  History history(1);
  for (size_t i = 0; i < History::kMaxSamples + 10; ++i) history.add(table_of(1, 0), 1);
  EXPECT_EQ(nlohmann::json::parse(history.page(0))["samples"].size(), History::kMaxSamples);
  constexpr int64_t kRanks = 60'000;
  for (size_t i = 0; i < 20; ++i) history.add(table_of(kRanks, 0), 1);
  const auto page = nlohmann::json::parse(history.page(0));
  EXPECT_EQ(page["samples"].size(), History::kMaxCells / kRanks);
  EXPECT_EQ(page["rows"].size(), History::kMaxRows);
}

TEST(History, SaysThatTheJobHasEndedAndWhatItLastWas) {
  History history(1);
  EXPECT_EQ(nlohmann::json::parse(history.page(0))["error"], nullptr);
  EXPECT_EQ(nlohmann::json::parse(history.page(0))["last"], 0);
  history.add(table_of(2, 0), 1);
  history.end("gone");
  const auto page = nlohmann::json::parse(history.page(0));
  EXPECT_EQ(page["error"], "gone");
  EXPECT_EQ(page["rows"].size(), 2u);
}

}  // namespace
}  // namespace tutti::tools
