// The ring of a rank's last events, and the trace that is made of it.
#include "trace/ring.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "trace/rank_trace.hpp"

namespace tutti::trace {
namespace {

Event numbered(uint64_t i) {
  return {.kind = static_cast<Event::Kind>(i % 5), .at = i, .call = i + 1, .first = i + 2, .second = i + 3};
}

TEST(Ring, HasAllEventsInTheirOrderUntilItIsFull) {
  Ring ring;
  EXPECT_TRUE(ring.read().last.empty());
  for (uint64_t i = 0; i < 100; ++i) ring.write(numbered(i));
  const Ring::Events events = ring.read();
  EXPECT_EQ(events.earlier, 0u);
  ASSERT_EQ(events.last.size(), 100u);
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(events.last[i], numbered(i));
}

TEST(Ring, ThenHasTheLastOnes) {
  Ring ring;
  constexpr uint64_t kWritten = 3 * Ring::kEvents + 17;
  for (uint64_t i = 0; i < kWritten; ++i) ring.write(numbered(i));
  const Ring::Events events = ring.read();
  // Of a full ring, the oldest event may be the one that is overwritten now.
  ASSERT_EQ(events.last.size(), Ring::kEvents - 1);
  EXPECT_EQ(events.earlier, kWritten - Ring::kEvents + 1);
  for (uint64_t i = 0; i < events.last.size(); ++i) EXPECT_EQ(events.last[i], numbered(events.earlier + i));
}

TEST(Ring, AReaderSeesWholeEventsWhileOthersAreWritten) {
  Ring ring;
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint64_t i = 0; !stop; ++i) ring.write(numbered(i));
  });
  for (int reads = 0; reads < 300; ++reads) {
    const Ring::Events events = ring.read();
    for (uint64_t i = 0; i < events.last.size(); ++i) ASSERT_EQ(events.last[i], numbered(events.earlier + i));
  }
  stop = true;
  writer.join();
}

TEST(RankTrace, AsJsonHasEachEventInItsForm) {
  RankTrace rank{.communicator = "abcdefghijkl", .title = "world", .rank = 1, .ranks = 2, .events = {}, .call = {}};
  rank.call = [](const Event& event) {
    if (event.call == 8) return TracedCall{.number = 3, .text = "send()", .bytes = 4, .peer = 0, .sends = true};
    return TracedCall{.number = event.call, .text = "barrier()"};
  };
  rank.events.earlier = 5;
  rank.events.last = {{.kind = Event::Kind::Entered, .at = 10, .call = 7},
                      {.kind = Event::Kind::Waited, .at = 30, .first = 0xffffffff, .second = 20},
                      {.kind = Event::Kind::Left, .at = 40, .first = 2},
                      {.kind = Event::Kind::Within, .at = 50, .call = 8},
                      {.kind = Event::Kind::Enqueued, .at = 60, .call = 9}};
  const auto page = nlohmann::json::parse(to_json({.host = "b", .process = 47, .ranks = {to_json(rank)}}));
  EXPECT_EQ(page["tutti_trace"], 1);
  EXPECT_EQ(page["host"], "b");
  EXPECT_EQ(page["ranks"][0]["communicator"], "abcdefgh");
  EXPECT_EQ(page["ranks"][0]["earlier"], 5);
  const nlohmann::json expected = {{"enter", 10, 7, "barrier()", 0},
                                   {"wait", 30, 20, -1},
                                   {"leave", 40, 2},
                                   {"within", 50, 3, "send()", 4, 0, "to"},
                                   {"enqueue", 60, 9, "barrier()", 0}};
  EXPECT_EQ(page["ranks"][0]["events"], expected);
}

}  // namespace
}  // namespace tutti::trace
