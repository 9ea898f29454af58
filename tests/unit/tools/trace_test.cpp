// tutti trace: calls from events, clocks of hosts, who came late, the picture.
#include <gtest/gtest.h>

#include <random>

#include "tools/trace/chrome.hpp"
#include "tools/trace/report.hpp"
#include "tutti/error.hpp"

namespace tutti::tools {
namespace {

using nlohmann::json;

json page_with(const json& events, int rank = 0, int ranks = 2, const std::string& host = "a") {
  return {{"tutti_trace", 1},
          {"host", host},
          {"process", 47 + rank},
          {"version", "0"},
          {"now", 1'000'000'000},
          {"wall", 5'000'000'000},
          {"ranks",
           {{{"communicator", "aaaa"},
             {"title", "world"},
             {"rank", rank},
             {"ranks", ranks},
             {"earlier", 0},
             {"events", events}}}}};
}

json enter(int64_t at, int call, const std::string& text = "all_reduce(count=4, f32, sum)") {
  return {"enter", at, call, text, 16};
}
json leave(int64_t at) { return {"leave", at, 0}; }

TEST(TraceCalls, OnWindowsAreNoCollectivesOrTransfers) {
  const json put{"enter", 10, 1, "put(8 bytes, to rank 1)", 8, 1, "on"};
  const json flush{"enter", 50, 2, "flush()", 0, -1, "on"};
  const ProcessCalls process = read_trace(page_with({put, leave(40), flush, leave(60)}));
  const std::vector<TracedCall>& calls = process.ranks.front().calls;
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].kind, TracedCall::Kind::OneSided);
  EXPECT_EQ(calls[0].peer, 1);
  EXPECT_EQ(calls[0].left, 40);
  EXPECT_EQ(calls[1].peer, -1);
  const json picture = json::parse(chrome_trace({process, read_trace(page_with({put, leave(45)}, 1))}));
  for (const json& event : picture.at("traceEvents")) EXPECT_NE(event.at("ph"), "s") << "no arrows: " << event;
}

TEST(TraceCalls, BeginAndEndWithTheirEvents) {
  const ProcessCalls process = read_trace(page_with({leave(1),  // of a call that the ring no longer has
                                                     enter(10, 1),
                                                     {"wait", 30, 20, 1},
                                                     leave(40),
                                                     enter(50, 2)}));
  const std::vector<TracedCall>& calls = process.ranks.front().calls;
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].entered, 10);
  EXPECT_EQ(calls[0].left, 40);
  ASSERT_EQ(calls[0].waits.size(), 1u);
  EXPECT_EQ(calls[0].waits[0].began, 20);
  EXPECT_EQ(calls[0].waits[0].peer, 1);
  EXPECT_EQ(calls[1].left, 0);
}

TEST(TraceCalls, OfAGroupEndTogether) {
  const json events = {{"enter", 10, 1, "send(count=1, u8, to rank 1)", 1, 1, "to"},
                       {"enter", 11, 1, "recv(count=1, u8, from rank 1)", 1, 1, "from"},
                       leave(20)};
  const ProcessCalls process = read_trace(page_with(events));
  const std::vector<TracedCall>& calls = process.ranks.front().calls;
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].kind, TracedCall::Kind::Send);
  EXPECT_EQ(calls[1].kind, TracedCall::Kind::Recv);
  EXPECT_EQ(calls[0].left, 20);
  EXPECT_EQ(calls[1].left, 20);
}

TEST(TraceCalls, AreRefusedIfTheyAreNone) {
  json later = page_with(json::array());
  later["tutti_trace"] = 2;
  for (const json& wrong :
       {json::array(), json::object(), json(3), later, page_with({{"enter"}}), page_with({{"jump", 1}}), page_with({3}),
        page_with({enter(-5, 1)}), page_with({{"enter", 1e300, 1, "x", 0}}), page_with({{"wait", 30, 20}}),
        page_with({{"enter", uint64_t{1} << 63, 1, "x", 0}})}) {
    EXPECT_THROW(read_trace(wrong), Error) << wrong;
  }
}

/// Ranks on hosts with clocks of their own, in calls that last from the last entry to a moment after it.
struct Job {
  std::mt19937 random{7};
  std::vector<int64_t> offsets;  // of host i's clock: true time = its time + offset
  std::vector<json> events;      // by rank: a rank a host

  explicit Job(std::vector<int64_t> clocks) : offsets(std::move(clocks)), events(offsets.size(), json::array()) {}
  void call(int number, int64_t at, const std::vector<int64_t>& late) {
    const int64_t all_in = at + *std::max_element(late.begin(), late.end());
    for (size_t r = 0; r < offsets.size(); ++r) {
      events[r].push_back(enter(at + late[r] - offsets[r], number));
      events[r].push_back(leave(all_in + 1000 + static_cast<int64_t>(random() % 500) - offsets[r]));
    }
  }
  std::vector<ProcessCalls> processes() const {
    std::vector<ProcessCalls> all;
    for (size_t r = 0; r < offsets.size(); ++r) {
      all.push_back(read_trace(
          page_with(events[r], static_cast<int>(r), static_cast<int>(offsets.size()), "host " + std::to_string(r))));
    }
    return all;
  }
};

TEST(TraceClocks, LieWithinTheirErrorOfTheTruth) {
  Job job({0, 700'000, -250'000, 12});
  for (int call = 1; call <= 200; ++call) {
    std::vector<int64_t> late;
    for (size_t r = 0; r < 4; ++r) late.push_back(static_cast<int64_t>(job.random() % 5000));
    job.call(call, 10'000'000 + call * 100'000, late);
  }
  const auto clocks = host_clocks(job.processes());
  ASSERT_EQ(clocks.size(), 4u);
  for (size_t r = 0; r < 4; ++r) {
    const HostClock& clock = clocks.at("host " + std::to_string(r));
    EXPECT_TRUE(clock.by_calls);
    EXPECT_LE(std::abs(clock.offset - job.offsets[r]), clock.error) << r;
    EXPECT_LT(clock.error, 4000) << r;  // a call lasts 1 to 1.5 us after the last rank has come, all of them 20 ms
  }
}

TEST(TraceClocks, MayDrift) {
  Job job({0, 300'000});
  constexpr int64_t kSecond = 1'000'000'000;
  std::vector<int64_t> truth;
  for (int call = 1; call <= 100; ++call) {
    job.offsets[1] = 300'000 + call * 20'000;  // 20 millionths: calls a second apart
    truth.push_back(job.offsets[1]);
    job.call(call, call * kSecond,
             {static_cast<int64_t>(job.random() % 5000), static_cast<int64_t>(job.random() % 5000)});
  }
  const HostClock clock = host_clocks(job.processes()).at("host 1");
  EXPECT_TRUE(clock.by_calls);
  for (const int64_t offset : truth) EXPECT_LE(std::abs(clock.offset - offset), clock.error);
}

TEST(TraceClocks, ThatContradictEachOtherAreThoseOfTheDay) {
  std::vector<ProcessCalls> hosts;
  std::mt19937 random(3);
  for (int host = 0; host < 40; ++host) {
    json events = json::array();
    for (int call = 1; call <= 20; ++call) {
      const int64_t at = 1'000'000 + static_cast<int64_t>(random() % 1'000'000'000);
      events.insert(events.end(), {enter(at, call), leave(at + 10)});
    }
    hosts.push_back(read_trace(page_with(events, host, 40, "host " + std::to_string(host))));
  }
  const auto clocks = host_clocks(hosts);
  EXPECT_FALSE(clocks.at("host 7").by_calls);
  shift(hosts, clocks);
}

TEST(TraceClocks, AreThoseOfTheDayWhereNoCallJoinsHosts) {
  const std::vector<ProcessCalls> apart = {read_trace(page_with({enter(10, 1), leave(20)}, 0, 2, "a")),
                                           read_trace(page_with({enter(10, 2), leave(20)}, 1, 2, "b"))};
  const auto clocks = host_clocks(apart);
  EXPECT_TRUE(clocks.at("a").by_calls);
  EXPECT_FALSE(clocks.at("b").by_calls);
  EXPECT_NE(trace_text(apart, clocks).find("Not those of b"), std::string::npos);
}

TEST(TraceClocks, AVaguelyKnownEntryBoundsNothing) {
  json within = enter(30, 1);
  within[0] = "within";  // it was entered earlier: the other rank has left before
  const std::vector<ProcessCalls> job = {read_trace(page_with({enter(10, 1), leave(20)}, 0, 2, "a")),
                                         read_trace(page_with({within, leave(40)}, 1, 2, "b"))};
  EXPECT_FALSE(host_clocks(job).at("b").by_calls);
}

TEST(Lateness, NamesTheRankThatComesLastAndItsCost) {
  Job job({0, 0, 0, 0});
  for (int call = 1; call <= 100; ++call) {
    const bool third = call % 10 != 0;
    job.call(call, call * 1'000'000, {0, 1000, 2000, third ? 500'000 : 1500});
  }
  const std::vector<Lateness> all = lateness(job.processes());
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].name, "all_reduce");
  EXPECT_EQ(all[0].calls, 100u);
  ASSERT_EQ(all[0].last.size(), 2u);
  EXPECT_EQ(all[0].last[0].rank, 3);
  EXPECT_EQ(all[0].last[0].calls, 90u);
  EXPECT_NEAR(all[0].last[0].late_by, 499e-6, 1e-9);
  EXPECT_NEAR(all[0].last[0].others_lost, 90 * (500 + 499 + 498) * 1e-6, 1e-9);
  EXPECT_EQ(all[0].last[1].rank, 2);
  const std::string text = trace_text(job.processes(), host_clocks(job.processes()));
  EXPECT_NE(text.find("rank 3 came last in 90 %, by 499.0 us in the median: the others lost 45 % of their time to it"),
            std::string::npos)
      << text;
}

TEST(Lateness, AWaitAfterAllHaveComeIsThePeers) {
  json slow = json::array(), fast = json::array();
  for (int call = 1; call <= 10; ++call) {
    const int64_t at = call * 1'000'000;
    fast.insert(fast.end(), {enter(at, call), {"wait", at + 600'000, at + 50'000, 1}, leave(at + 600'000)});
    slow.insert(slow.end(), {enter(at + 100'000, call), leave(at + 600'000)});
  }
  const auto all = lateness({read_trace(page_with(fast, 0)), read_trace(page_with(slow, 1))});
  ASSERT_EQ(all.size(), 1u);
  ASSERT_EQ(all[0].waits.size(), 1u);
  EXPECT_EQ(all[0].waits[0].rank, 0);
  EXPECT_EQ(all[0].waits[0].peer, 1);
  EXPECT_NEAR(all[0].waits[0].seconds, 10 * 500e-6, 1e-9);  // what came before rank 1 is its lateness
  EXPECT_NEAR(all[0].last[0].others_lost, 10 * 100e-6, 1e-9);
}

TEST(Lateness, CountsCallsThatWereLeftOutByThoseThatWereNot) {
  json fast = json::array(), slow = json::array();
  for (int call = 1; call <= 641; ++call) {
    const int64_t at = call * 1'000'000;  // the others wait 0.9 ms in each
    fast.insert(fast.end(), {enter(at, call), leave(at + 901'000)});
    if (call % 64 == 1) slow.insert(slow.end(), {enter(at + 900'000, call), leave(at + 901'000)});
  }
  const std::vector<ProcessCalls> job = {read_trace(page_with(fast, 0)), read_trace(page_with(slow, 1))};
  const auto all = lateness(job);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].calls, 11u);
  EXPECT_NEAR(all[0].weight, 641.0 / 11, 1e-9);
  EXPECT_NEAR(all[0].last[0].others_lost, 641 * 900e-6, 1e-6);
  const std::string text = trace_text(job, host_clocks(job));
  EXPECT_NE(text.find("11 calls by 2 ranks in 640.9 ms, which stand for 58 each\n"), std::string::npos) << text;
  EXPECT_NE(text.find("the others lost 90 % of their time to it"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 1 of world: 0.0 % in long waits"), std::string::npos) << text;
}

TEST(Lateness, BlamesNoRankThatMayHaveEnteredBefore) {
  json within = enter(50, 1);
  within[0] = "within";
  EXPECT_TRUE(
      lateness({read_trace(page_with({enter(10, 1), leave(60)}, 0)), read_trace(page_with({within, leave(60)}, 1))})
          .empty());
}

TEST(Lateness, IsNotToldOfACommunicatorWhoseRanksAreNotAllThere) {
  EXPECT_TRUE(lateness({read_trace(page_with({enter(10, 1), leave(20)}, 0, 2))}).empty());
}

TEST(ChromeTrace, HasCallsWaitsAndArrows) {
  json fast = {enter(1'000, 1), {"wait", 9'000, 2'000, 1}, leave(9'500)};
  json slow = {enter(8'000, 1), leave(9'600), {"enqueue", 9'700, 2, "barrier()", 0}};
  const std::string text = chrome_trace({read_trace(page_with(fast, 0)), read_trace(page_with(slow, 1))});
  const json page = json::parse(text);
  std::map<std::string, std::vector<json>> events;
  for (const json& event : page["traceEvents"]) events[event["ph"]].push_back(event);
  ASSERT_EQ(events["X"].size(), 4u);
  EXPECT_EQ(events["X"][0]["name"], "all_reduce(count=4, f32, sum)");
  EXPECT_EQ(events["X"][0]["ts"], 0.0);
  EXPECT_EQ(events["X"][0]["dur"], 8.5);
  EXPECT_EQ(events["X"][1]["name"], "waits for rank 1");
  EXPECT_EQ(events["X"][1]["ts"], 1.0);
  EXPECT_EQ(events["X"][3]["args"]["state"], "enqueued on a device");
  ASSERT_EQ(events["s"].size(), 1u);
  ASSERT_EQ(events["f"].size(), 1u);
  EXPECT_EQ(events["s"][0]["pid"], 1);
  EXPECT_EQ(events["f"][0]["pid"], 0);
  EXPECT_EQ(events["s"][0]["id"], events["f"][0]["id"]);
}

}  // namespace
}  // namespace tutti::tools
