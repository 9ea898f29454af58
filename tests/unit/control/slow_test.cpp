// Ranks that come late again and again, and links that carry less than others: found, and nothing else is.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>

#include "base/median.hpp"
#include "control/status/slow_findings.hpp"
#include "control/status/slow_links.hpp"
#include "control/status/slow_ranks.hpp"

namespace tutti::control {
namespace {

constexpr double kLeast = 0.03;

/// A job as the watch sees it: before each call each rank works for so many seconds; then they are in it until the last
/// one has come, and a moment longer.
class Job {
 public:
  using Work = std::function<double(Rank rank, uint64_t call)>;

  explicit Job(Rank ranks) : free_(static_cast<size_t>(ranks), 1.0), timings_(free_.size()) {
    for (RankTiming& timing : timings_) timing.thread = 1;
  }

  /// Runs for so long, and looks at it each second, as the watch does.
  void run(double seconds, const Work& work, SlowRanks& judge) {
    for (const double end = now_ + seconds; now_ < end; now_ += 1) look(work, judge);
  }
  /// The rank's next calls are another thread's.
  void change_thread(Rank rank) { ++timings_[static_cast<size_t>(rank)].thread; }

 private:
  void look(const Work& work, SlowRanks& judge) {
    for (RankTiming& timing : timings_) timing.numbers.clear(), timing.left.clear(), timing.in_calls.clear();
    while (*std::max_element(free_.begin(), free_.end()) < now_ + 1) call(work);
    std::vector<const RankTiming*> all;
    for (const RankTiming& timing : timings_) all.push_back(&timing);
    judge.take(all);
  }

  void call(const Work& work) {
    ++call_;
    std::vector<double> entered;
    for (size_t i = 0; i < free_.size(); ++i) entered.push_back(free_[i] + work(static_cast<Rank>(i), call_));
    const double last = *std::max_element(entered.begin(), entered.end()) + 20e-6;
    for (size_t i = 0; i < free_.size(); ++i) {
      free_[i] = last + (i == 1 ? 0 : 5e-6);  // rank 1 is always the first to leave
      total_[i] += static_cast<uint64_t>((free_[i] - entered[i]) * 1e9);
      if (call_ % 5 != 0) continue;
      timings_[i].numbers.push_back(call_);
      timings_[i].left.push_back(static_cast<uint64_t>(free_[i] * 1e9));
      timings_[i].in_calls.push_back(total_[i]);
    }
  }

  std::vector<double> free_;  // when it has left its last call
  std::vector<RankTiming> timings_;
  std::vector<uint64_t> total_ = std::vector<uint64_t>(free_.size());  // in calls
  double now_ = 1;
  uint64_t call_ = 0;
};

double jitter(std::mt19937& random, double mean, double share) {
  return mean * (1 + share * std::uniform_real_distribution(-1.0, 1.0)(random));
}

TEST(SlowRanks, FindsARankThatIsATenthSlowerWithinAThousandCalls) {
  for (const Rank ranks : {2, 4, 17}) {
    for (const double work : {20e-3, 50e-3}) {
      std::mt19937 random(7);
      SlowRanks judge(kLeast);
      Job job(ranks);
      job.run(
          1000 * work, [&](Rank rank, uint64_t) { return jitter(random, rank == 1 ? 1.1 * work : work, 0.1); }, judge);
      const auto found = judge.found();
      ASSERT_EQ(found.size(), 1u) << ranks << " ranks, " << work;
      EXPECT_EQ(found[0].rank, 1);
      EXPECT_NEAR(found[0].late_by, 0.1 * work, 0.03 * work);
      EXPECT_NEAR(found[0].lost, 0.09, 0.03);
      EXPECT_GT(found[0].seconds, 14);
    }
  }
}

TEST(SlowRanks, FindsARankThatIsLateToTheFirstCallOfLongStepsOnly) {
  std::mt19937 random(7);
  SlowRanks judge(kLeast);
  Job job(4);
  const auto work = [&](Rank rank, uint64_t call) {
    return call % 40 == 0 ? jitter(random, rank == 2 ? 2.4 : 2.0, 0.02) : jitter(random, 2e-3, 0.1);
  };
  job.run(90, work, judge);
  ASSERT_EQ(judge.found().size(), 1u);
  EXPECT_EQ(judge.found()[0].rank, 2);
}

TEST(SlowRanks, FindsNoneWhereAllAreTheSameOrSlowBecomesWell) {
  std::mt19937 random(7);
  for (const Rank ranks : {2, 3, 8}) {
    SlowRanks judge(kLeast);
    Job job(ranks);
    for (int i = 0; i < 60; ++i) {
      job.run(
          10, [&](Rank, uint64_t) { return jitter(random, 10e-3, 0.5); }, judge);
      ASSERT_TRUE(judge.found().empty()) << ranks << " ranks, " << 10 * i << " s";
    }
    job.run(
        20, [](Rank rank, uint64_t) { return rank == 0 ? 12e-3 : 10e-3; }, judge);
    EXPECT_EQ(judge.found().size(), 1u);
    job.run(
        20, [](Rank, uint64_t) { return 10e-3; }, judge);
    EXPECT_TRUE(judge.found().empty());
  }
}

TEST(SlowRanks, FindsNoneWhereACoreIsStolenAtTimes) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    SlowRanks judge(kLeast);
    Job job(4);
    for (int second = 0; second < 1800;) {
      job.run(
          1, [&](Rank, uint64_t) { return jitter(random, 10e-3, 0.1); }, judge);
      ASSERT_TRUE(judge.found().empty()) << second << " s, seed " << seed;
      ++second;
      if (std::uniform_int_distribution(0, 9)(random) != 0) continue;
      const int stolen = std::uniform_int_distribution(1, 4)(random);
      job.run(
          stolen, [&](Rank rank, uint64_t) { return jitter(random, rank == 3 ? 20e-3 : 10e-3, 0.1); }, judge);
      ASSERT_TRUE(judge.found().empty()) << second << " s, seed " << seed;
      second += stolen;
    }
  }
}

TEST(SlowRanks, FindNoneThatIsMuchLessLateAtTimes) {
  SlowRanks judge(kLeast);
  Job job(3);
  for (int second = 0; second < 400; ++second) {
    const double late = second % 16 < 12 ? 2.5e-3 : 0.5e-3;
    job.run(
        1, [&](Rank rank, uint64_t) { return 10e-3 + (rank == 1 ? late : 0); }, judge);
    ASSERT_TRUE(judge.found().empty()) << second << " s";
  }
}

TEST(SlowRanks, CompareNoCallsOfDifferentThreads) {
  SlowRanks judge(kLeast);
  Job job(2);
  const auto run = [&](int seconds, int each) {
    for (int i = 0; i < seconds; ++i) {
      if (i % each == 0) job.change_thread(1);
      job.run(
          1, [](Rank rank, uint64_t) { return rank == 1 ? 15e-3 : 10e-3; }, judge);
    }
  };
  run(60, 1);
  EXPECT_TRUE(judge.found().empty());
  run(60, 10);
  EXPECT_EQ(judge.found().size(), 1u);
}

TEST(SlowRanks, IgnoreFiveMicroseconds) {
  SlowRanks judge(kLeast);
  Job job(2);
  job.run(
      40, [](Rank rank, uint64_t) { return rank == 0 ? 105e-6 : 100e-6; }, judge);
  EXPECT_TRUE(judge.found().empty());
}

TEST(SlowRanks, TakeWhateverRanksSay) {
  SlowRanks judge(kLeast);
  RankTiming whole, ragged;
  whole.numbers = {1, 2, 3};
  whole.left = {10, 20, 30};
  whole.in_calls = {5, 7, 5};
  ragged.numbers = {1, 2, 9, 3, 3};
  ragged.left = {1, ~uint64_t{0}, 0, 5, 5};
  ragged.in_calls = {7, ~uint64_t{0}, 1};
  for (size_t i = 0; i < 40; ++i) {
    judge.take({&whole, &ragged});
    judge.take({&ragged, &whole});
    whole.numbers[i % 3] += i * i;
    ragged.numbers[i % 2] = whole.numbers[i % 3];
  }
  judge.take({&whole});
  judge.take({});
  EXPECT_TRUE(judge.found().empty());
}

/// Links of a communicator whose ranks are hosts of their own.
class Links {
 public:
  explicit Links(size_t ranks) : timings_(ranks) {
    for (size_t i = 0; i < ranks; ++i) {
      timings_[i].rank = static_cast<Rank>(i);
      timings_[i].now = 1;
    }
  }
  std::vector<std::string> hosts() const {
    std::vector<std::string> names;
    for (const RankTiming& rank : timings_) names.push_back("h" + std::to_string(rank.rank));
    return names;
  }
  /// In the next second the link carries so many MB, at so many MB/s while it is busy.
  void carry(Rank from, Rank to, double megabytes, double rate, uint32_t lane = 0) {
    std::vector<LinkTiming>& links = timings_[static_cast<size_t>(from)].links;
    auto link = std::find_if(links.begin(), links.end(), [&](const auto& l) { return l.peer == to && l.lane == lane; });
    if (link == links.end()) link = links.insert(links.end(), {.transport = "tcp", .peer = to, .lane = lane});
    link->sent += static_cast<uint64_t>(megabytes * 1e6);
    link->busy += static_cast<uint64_t>(megabytes / rate * 1e9);
  }
  void second(SlowLinks& judge) {
    std::vector<const RankTiming*> all;
    for (RankTiming& rank : timings_) {
      rank.now += 1'000'000'000;
      all.push_back(&rank);
    }
    judge.take(all);
  }
  std::vector<RankTiming> timings_;
};

/// A ring of four, with these rates.
void carry_ring(Links& links, const std::vector<double>& rates, double megabytes = 40) {
  for (Rank i = 0; i < 4; ++i) links.carry(i, (i + 1) % 4, megabytes, rates[static_cast<size_t>(i)]);
}

TEST(SlowLinks, FindsTheOneThatIsLimitedToHalf) {
  Links links(4);
  SlowLinks judge(links.hosts());
  for (int i = 0; i < 17; ++i) {
    carry_ring(links, {100, 100, 50, 100});
    links.second(judge);
  }
  const auto found = judge.found();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].from, 2);
  EXPECT_EQ(found[0].to, 3);
  EXPECT_EQ(found[0].transport, "tcp");
  EXPECT_NEAR(found[0].rate, 50e6, 1e6);
  EXPECT_NEAR(found[0].others, 100e6, 1e6);
  EXPECT_NEAR(found[0].busy, 0.8, 0.01);
  for (size_t i = 0; i < SlowLinks::kSlices; ++i) links.second(judge);
  EXPECT_TRUE(judge.found().empty()) << "it has carried nothing for so long that nothing is known of it";
}

TEST(SlowLinks, FindsNoneThatIsSlowAtTimesOrHasShortMessagesOnly) {
  Links links(4);
  SlowLinks judge(links.hosts()), another(links.hosts());
  for (int i = 0; i < 100; ++i) {
    carry_ring(links, {100, i % 10 < 5 ? 40.0 : 100.0, 100, 100});
    links.second(judge);
    ASSERT_TRUE(judge.found().empty()) << i;
  }
  for (int i = 0; i < 40; ++i) {
    carry_ring(links, {100, 40, 100, 100}, 2);
    links.second(another);
  }
  EXPECT_TRUE(another.found().empty());
}

TEST(SlowLinks, FindsNoneThatSharesItsHostsInterface) {
  Links links(8);  // a binomial tree: rank 0 has three children, others two, one or none
  SlowLinks judge(links.hosts());
  const std::vector<std::vector<Rank>> children = {{4, 2, 1}, {}, {3}, {}, {6, 5}, {}, {7}, {}};
  for (int i = 0; i < 30; ++i) {
    for (Rank from = 0; from < 8; ++from) {
      const auto& to = children[static_cast<size_t>(from)];
      for (const Rank child : to) links.carry(from, child, 30, 100.0 / static_cast<double>(to.size()));
    }
    links.second(judge);
  }
  EXPECT_TRUE(judge.found().empty());
}

TEST(SlowLinks, FindsNoneWhereOtherLinksHaveAnotherLaneThatIsIdle) {
  Links links(4);
  SlowLinks judge(links.hosts());
  for (Rank i = 0; i < 3; ++i) links.carry(i, i + 1, 1, 100, 1);
  for (int i = 0; i < 30; ++i) {
    carry_ring(links, {100, 100, 100, 100});
    links.second(judge);
  }
  EXPECT_TRUE(judge.found().empty());
}

TEST(SlowLinks, TakeWhateverRanksSay) {
  Links links(2);
  SlowLinks judge(links.hosts());
  for (uint32_t i = 0; i < 60; ++i) {
    links.carry(0, 1, 40, 100);
    links.carry(1, 0, 40, 50);
    for (const Rank peer : {-1, 2, 1 << 30}) links.carry(0, peer, 40, 50);
    links.carry(0, 1, 40, 50, LinkTiming::kMaxLanes + i);
    links.second(judge);
    links.timings_[1].links[0].sent = links.timings_[1].links[0].busy = 0;  // no counter of a link goes back
  }
  EXPECT_TRUE(judge.found().empty());
  judge.take({});
}

TEST(SlowLinks, RememberNoMoreThanALimitedNumber) {
  Links links(2);
  SlowLinks judge(links.hosts());
  for (size_t i = 0; i < 200; ++i) {
    links.timings_[0].links.clear();
    for (size_t j = 0; j < RankTiming::kMaxLinks; ++j) {
      const std::string transport = "made up " + std::to_string(i * RankTiming::kMaxLinks + j);
      links.timings_[0].links.push_back({.transport = transport, .peer = 1, .busy = 1});
    }
    links.second(judge);
  }
  EXPECT_EQ(judge.known(), 2 * SlowLinks::kMaxLinks);
}

TEST(SlowLinks, OfManyTakeAMoment) {
  constexpr Rank kRanks = 400;
  Links links(kRanks);
  SlowLinks judge(links.hosts());
  for (int i = 0; i < 3; ++i) {
    for (Rank from = 0; from < kRanks; ++from) {
      for (Rank step = 1; step <= static_cast<Rank>(RankTiming::kMaxLinks); ++step) {
        links.carry(from, (from + step) % kRanks, 5, 40);
      }
    }
    links.second(judge);
  }
  EXPECT_TRUE(judge.found().empty());
}

TEST(SlowFindings, AreWarnedOfOnceAndToldForAWhile) {
  SlowFindings findings;
  EXPECT_EQ(findings.update({{"rank 1", "slow"}}), (std::vector<std::string>{"slow"}));
  EXPECT_TRUE(findings.update({{"rank 1", "slower"}}).empty());
  EXPECT_EQ(findings.texts(), (std::vector<std::string>{"slower"}));
  for (int i = 1; i < SlowFindings::kKept; ++i) findings.update({});
  EXPECT_EQ(findings.texts().size(), 1u);
  findings.update({});
  EXPECT_TRUE(findings.texts().empty());
  EXPECT_TRUE(findings.update({{"rank 1", "slow"}}).empty()) << "again";
  EXPECT_EQ(findings.texts().size(), 1u);
  findings.forget();
  EXPECT_TRUE(findings.texts().empty());
  std::map<std::string, std::string> many;
  for (int i = 0; i < 50; ++i) many["rank " + std::to_string(i)] = "slow";
  EXPECT_EQ(findings.update(many).size(), SlowFindings::kMaxWarned - 1);
  EXPECT_EQ(findings.texts().size(), 50u);
}

TEST(Medians, AreThoseOfTheOthers) {
  const Medians odd({5, 1, 3}), even({4, 1, 3, 2}), same({2, 2, 2});
  EXPECT_EQ(odd.of_all(), 3);
  EXPECT_EQ(odd.of_others(3), 3);
  EXPECT_EQ(odd.of_others(1), 4);
  EXPECT_EQ(odd.of_others(5), 2);
  EXPECT_EQ(even.of_all(), 2.5);
  EXPECT_EQ(even.of_others(1), 3);
  EXPECT_EQ(even.of_others(4), 2);
  EXPECT_EQ(same.of_others(2), 2);
  EXPECT_EQ(Medians({1, 9}).of_others(9), 1);
}

}  // namespace
}  // namespace tutti::control
