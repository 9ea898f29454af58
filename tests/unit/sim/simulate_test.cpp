#include "sim/simulate.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "select/machine.hpp"
#include "select/order.hpp"
#include "select/pairs.hpp"
#include "select/select.hpp"
#include "sim/draw.hpp"
#include "support/host_of_cores.hpp"
#include "support/topologies.hpp"
#include "topo/cluster.hpp"
#include "tutti/error.hpp"

namespace tutti::sim {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

/// Ranks of eight GPUs a host.
class Gpus {
 public:
  explicit Gpus(uint32_t hosts, Rank ranks = 0)
      : graph_(topo::cluster(test::sample("nccl-8-gpus-8-nics.xml"), hosts)),
        inputs_(select::inputs_of(graph_, ranks).inputs),
        placed_(select::place_ranks(graph_, ranks)),
        machine_(graph_, placed_.nodes, WorkCosts{}) {
    inputs_.staging = 128 << 20;
    inputs_.message = 1 << 20;
  }

  Call call(Collective collective, const char* name, uint64_t block, uint32_t width = 16) const {
    const plan::Algorithm* const algorithm = plan::find_algorithm(collective, name);
    const uint64_t window = std::min(select::window_bytes(*algorithm, inputs_), std::max<uint64_t>(128, block / width));
    Call call{.algorithm = algorithm, .shape = {collective, inputs_.ranks, inputs_.groups}};
    call.geometry = {
        .count = block / 4, .window = std::max<uint64_t>(1, window / 4), .element_bytes = 4, .width = width};
    call.hosts.assign(placed_.hosts.begin(), placed_.hosts.end());
    return call;
  }
  double all_reduce_busbw(const char* name, uint64_t bytes, const SimulateOptions& options = {}) {
    const double seconds = simulate(call(Collective::AllReduce, name, bytes), machine_, options).seconds;
    const double n = inputs_.ranks;
    return 2 * (n - 1) / n * static_cast<double>(bytes) / seconds / 1e9;
  }
  Machine& machine() { return machine_; }
  const select::CostInputs& inputs() const { return inputs_; }

 private:
  topo::Graph graph_;
  select::CostInputs inputs_;
  select::RankNodes placed_;
  Machine machine_;
};

// Published: nccl-tests on 8 H100 or H200 print some 360 to 370 GB/s for ring all-reduces without NVLink SHARP.
TEST(Simulate, RingAllReduceOnEightGpusIsAsFastAsPublished) {
  const double busbw = Gpus(1).all_reduce_busbw("ring", kGiB);
  EXPECT_GT(busbw, 340);
  EXPECT_LT(busbw, 375);
}

// Published: 46 to 48 GB/s of a 400 Gb/s port. Two hosts with one rank each: all goes through one port.
TEST(Simulate, APortOfFourHundredGigabitsCarriesWhatIsPublished) {
  Gpus two(2, 2);
  const Simulated all = simulate(two.call(Collective::AllGather, "ring", kGiB), two.machine());
  const double rate = static_cast<double>(kGiB) / all.seconds / 1e9;
  EXPECT_GT(rate, 44);
  EXPECT_LT(rate, 48.5);
  EXPECT_NE(all.busiest.name.find("NIC"), std::string::npos) << all.busiest.name;
  EXPECT_GT(all.busiest.share, 0.9);
  EXPECT_LE(all.busiest.share, 1 + 1e-9);
}

TEST(Simulate, NoLinkCarriesMoreThanItCan) {
  Gpus gpus(2);
  for (const plan::Algorithm* algorithm : plan::algorithms_of(Collective::AllReduce)) {
    const Call call = gpus.call(Collective::AllReduce, algorithm->name, 64 << 20);
    if (!algorithm->allows(call.shape)) continue;
    const Simulated all = simulate(call, gpus.machine());
    EXPECT_LE(all.busiest.share, 1 + 1e-9) << algorithm->name;
    EXPECT_GT(all.seconds, 0) << algorithm->name;
    EXPECT_TRUE(all.verified) << algorithm->name;
  }
}

TEST(Simulate, ExtrapolatedRoundsTakeAsLongAsReplayedOnes) {
  Gpus gpus(1);
  const Call call = gpus.call(Collective::AllReduce, "ring", 512 << 20, 4);
  const Simulated part = simulate(call, gpus.machine(), {.max_generations = 8});
  const Simulated whole = simulate(call, gpus.machine(), {.max_work = ~uint64_t{0}, .max_generations = 1000});
  ASSERT_LT(part.replayed, part.rounds);
  EXPECT_NEAR(part.seconds / whole.seconds, 1, 0.03);
  EXPECT_NEAR(part.messages / whole.messages, 1, 0.01);
}

TEST(Simulate, AllCollectivesEnd) {
  Gpus gpus(2);
  for (int c = 0; c < kCollectives; ++c) {
    const auto collective = static_cast<Collective>(c);
    for (const plan::Algorithm* algorithm : plan::algorithms_of(collective)) {
      for (const uint64_t block : {4U, 1U << 16}) {
        const Call call = gpus.call(collective, algorithm->name, block);
        if (algorithm->allows(call.shape)) {
          EXPECT_GT(simulate(call, gpus.machine()).seconds, 0) << name_of(collective) << " " << algorithm->name;
        }
      }
    }
  }
}

TEST(Simulate, RanksOnCoresShareThem) {
  const WorkCosts costs{.software = 250e-9, .copy = 1e-10, .write = 1e-10, .second = 1e-10, .context_switch = 1e-6};
  const auto seconds = [&](Rank cores) {
    Machine machine(4, cores, costs);
    Call call{.algorithm = plan::find_algorithm(Collective::AllReduce, "ring"), .shape = {Collective::AllReduce, 4}};
    call.geometry = {.count = 1 << 16, .window = 1 << 16, .element_bytes = 4};
    call.hosts.assign(4, 0);
    return simulate(call, machine).seconds;
  };
  EXPECT_GT(seconds(2), 1.8 * seconds(4));
  // A quarter of 256 KiB goes round the ring twice: 6 messages are written and read one after the other.
  EXPECT_NEAR(seconds(4), 6 * (64 * 1024 * 2e-10 + 250e-9), 20e-6);
}

// A rank that has read its messages frees their slots, for which writers on the same core may wait.
TEST(Simulate, AllCollectivesEndWhereRanksShareCores) {
  const WorkCosts costs{.software = 250e-9, .copy = 1e-10, .write = 1e-10, .context_switch = 1e-6};
  for (const auto& [ranks, cores] : {std::pair<Rank, Rank>{6, 2}, {8, 2}, {9, 4}}) {
    Machine machine(ranks, cores, costs);
    for (int c = 0; c < kCollectives; ++c) {
      const auto collective = static_cast<Collective>(c);
      for (const plan::Algorithm* algorithm : plan::algorithms_of(collective)) {
        Call call{.algorithm = algorithm, .shape = {collective, ranks}};
        call.geometry = {.count = 1 << 16, .window = 1 << 14, .element_bytes = 4};
        call.hosts.assign(static_cast<size_t>(ranks), 0);
        if (algorithm->allows(call.shape)) {
          EXPECT_NO_THROW(simulate(call, machine)) << name_of(collective) << " " << algorithm->name << " " << ranks;
        }
      }
    }
  }
}

// Of eight ranks each sends seven messages and reads seven; the first of either is part of a message's latency.
TEST(Simulate, MessagesThatFollowEachOtherTakeTimeAtBothEnds) {
  const auto seconds = [](double share) {
    Machine machine(8, 8, {.software = 300e-9, .message_share = share, .copy = 1e-12, .write = 1e-12});
    Call call{.algorithm = plan::find_algorithm(Collective::AllToAll, "one_shot"), .shape = {Collective::AllToAll, 8}};
    call.geometry = {.count = 2, .window = 2, .element_bytes = 4};
    call.hosts.assign(8, 0);
    return simulate(call, machine).seconds;
  };
  EXPECT_NEAR(seconds(0), 300e-9, 1e-9);
  // A rank has sent its seven messages after 600 ns, and reads seven; it may wait for the last one's way.
  EXPECT_GE(seconds(1.0 / 3), (6 + 6) * 100e-9 - 1e-9);
  EXPECT_LE(seconds(1.0 / 3), 300e-9 + (6 + 6) * 100e-9 + 1e-9);
}

/// Bytes that cross the memory of the package of four ranks, whose buffers no cache holds.
double through_memory(Collective collective, const char* name, uint64_t block, Engine engine = Engine::Fast) {
  const topo::Graph graph = test::host_of_cores(1, 1, 4);
  const WorkCosts costs{.software = 1e-7, .copy = 1e-10, .write = 1e-10, .memory_load = 1, .memory_store = 2};
  Machine machine(graph, select::place_ranks(graph, 0).nodes, costs);
  Call call{.algorithm = plan::find_algorithm(collective, name), .shape = {collective, 4}};
  call.geometry = {.count = block / 4, .window = block / 4, .element_bytes = 4};
  call.hosts.assign(4, 0);
  const Simulated all = simulate(call, machine, {.engine = engine});
  const uint32_t memory = machine.memory_of(0);
  const double bytes = all.replay.carried[memory] + all.replay.carried_last[memory];
  EXPECT_GE(all.seconds, bytes / machine.resources()[memory].rate);
  return bytes;
}

// A store fetches its line, too. What a rank has used before, a cache holds.
TEST(Simulate, BuffersThatNoCacheHoldsCrossTheMemoryOfTheirPackageOnce) {
  constexpr double kBlock = 1 << 20;
  for (const char* const name : {"one_shot", "ring"}) {
    EXPECT_EQ(through_memory(Collective::AllGather, name, 1 << 20), 4 * (1 + 2 * 4) * kBlock) << name;
  }
  for (const char* const name : {"one_shot", "two_shot", "ring", "rabenseifner", "recursive_doubling"}) {
    EXPECT_EQ(through_memory(Collective::AllReduce, name, 1 << 20), 4 * (1 + 2) * kBlock) << name;
  }
  if (!simgrid_version().empty()) {
    EXPECT_EQ(through_memory(Collective::AllReduce, "ring", 1 << 20, Engine::SimGrid), 4 * (1 + 2) * kBlock);
  }
}

// With so many windows, most are extrapolated.
TEST(Simulate, NoMemoryCarriesMoreThanItCan) {
  const topo::Graph graph = test::host_of_cores(1, 2, 8);
  const WorkCosts costs{.software = 1e-7, .copy = 4e-11, .write = 4e-11, .memory_load = 1, .memory_store = 2};
  Machine machine(graph, select::place_ranks(graph, 0).nodes, costs);
  for (const char* const name : {"double_tree", "ring", "rabenseifner"}) {
    Call call{.algorithm = plan::find_algorithm(Collective::AllReduce, name), .shape = {Collective::AllReduce, 16}};
    call.geometry = {.count = 16 << 20, .window = 1 << 16, .element_bytes = 4};
    call.hosts.assign(16, 0);
    const Simulated all = simulate(call, machine, {.calls = 3});
    ASSERT_LT(all.replayed, all.rounds) << name;
    EXPECT_LE(all.busiest.share, 1 + 1e-9) << name;
    EXPECT_GE(all.interval, all.busiest.share * all.seconds * (1 - 1e-9)) << name;
  }
}

TEST(Simulate, TheMemoryOfAHostOfUnknownPartsIsNotModelled) {
  EXPECT_EQ(Machine(4, 4, WorkCosts{.copy = 1e-10}).memory_of(3), Machine::kNoMemory);
  EXPECT_EQ(Gpus(1).machine().memory_of(3), Machine::kNoMemory);
}

/// Ranks on cores of their own, on a machine that costs what `costs` says.
Simulated on_cores(Collective collective, const char* name, uint64_t block, const WorkCosts& costs,
                   const SimulateOptions& options, const exec::DeliveryRules& rules = {}) {
  Machine machine(2, 2, costs);
  Call call{.algorithm = plan::find_algorithm(collective, name), .shape = {collective, 2}};
  call.geometry = {.count = block / 4, .window = std::max<uint64_t>(1, block / 4), .element_bytes = 4, .rules = rules};
  call.near = {.cma = true};
  call.hosts.assign(2, 0);
  return simulate(call, machine, options);
}

TEST(Simulate, CallsBackToBackOverlapWhereNobodyWaits) {
  const WorkCosts costs{.call = 50e-9, .software = 1e-6, .copy = 1e-10, .write = 1e-10};
  const Simulated rooted = on_cores(Collective::Broadcast, "one_shot", 8, costs, {.calls = 6});
  EXPECT_GT(rooted.seconds, 1e-6) << "a message's way";
  EXPECT_LT(rooted.interval, 0.5e-6) << "the root does not wait for it";
  const Simulated mutual = on_cores(Collective::AllGather, "one_shot", 8, costs, {.calls = 6});
  EXPECT_GT(mutual.interval, 1e-6) << "each waits for the other";
  EXPECT_EQ(on_cores(Collective::AllGather, "one_shot", 8, costs, {}).interval, 0);
}

TEST(Simulate, ACallEndsWhenWhatItLentHasBeenRead) {
  const WorkCosts costs{.software = 1e-7, .copy = 1e-10, .write = 1e-10};
  const exec::DeliveryRules by_kernel{.cma_from = 1};
  const Simulated lent = on_cores(Collective::Broadcast, "one_shot", 1 << 20, costs, {.calls = 6}, by_kernel);
  EXPECT_GT(lent.interval, 0.9 * (1 << 20) * 1e-10) << "the root waits for its reader";
}

TEST(Simulate, TheFirstBytesOfAMessageComeLater) {
  const WorkCosts without{.software = 1e-7, .copy = 1e-10, .write = 1e-10};
  WorkCosts with = without;
  with.first_read = 5e-7;
  const auto seconds = [](uint64_t bytes, const WorkCosts& costs) {
    return on_cores(Collective::AllGather, "one_shot", bytes, costs, {}).seconds;
  };
  EXPECT_NEAR(seconds(4096, with) - seconds(4096, without), 5e-7, 1e-9);
  EXPECT_NEAR(seconds(16, with) - seconds(16, without), 0, 1e-9) << "they are in the descriptor";
}

TEST(Simulate, OwnMemoryThatNoCacheHoldsCostsMore) {
  const WorkCosts cached{.copy = 1e-10, .write = 1e-10};
  WorkCosts beyond = cached;
  beyond.load = 2e-11;
  beyond.store = 3e-11;
  const auto seconds = [](const WorkCosts& costs) {
    return on_cores(Collective::AllGather, "one_shot", 1 << 20, costs, {}).seconds;
  };
  // Its block is read to be staged and read to be copied; this copy and the other's block are stored.
  EXPECT_NEAR((seconds(beyond) - seconds(cached)) / (1 << 20), 2 * 2e-11 + 2 * 3e-11, 1e-12);
}

/// The last window is short, and most of the others are extrapolated.
TEST(Simulate, WhatLinksCarryIsCountedToTheByte) {
  Gpus gpus(1);
  for (const Engine engine : {Engine::Fast, Engine::Fair}) {
    for (const uint64_t window : {uint64_t{1} << 20, uint64_t{1000000}, uint64_t{3000000}}) {
      Call call = gpus.call(Collective::AllGather, "ring", kGiB / 8);
      call.geometry.window = window / 4;
      call.geometry.width = 8;
      const Simulated all = simulate(call, gpus.machine(), {.engine = engine, .max_generations = 3});
      ASSERT_LT(all.replayed, all.rounds);
      EXPECT_NEAR(all.busiest.bytes, kGiB / 8 * 7, 1) << window;
      EXPECT_LE(all.busiest.share, 1 + 1e-9) << window;
    }
  }
}

TEST(Simulate, AllNetworksAgreeWhereLinksAreEvenlyShared) {
  Gpus gpus(1);
  const double equal = gpus.all_reduce_busbw("ring", 64 << 20);
  EXPECT_NEAR(gpus.all_reduce_busbw("ring", 64 << 20, {.engine = Engine::Fair}) / equal, 1, 0.05);
  if (simgrid_version().empty()) return;
  const SimulateOptions with{.engine = Engine::SimGrid, .max_work = 1 << 14};
  EXPECT_NEAR(gpus.all_reduce_busbw("ring", 64 << 20, with) / equal, 1, 0.05);
}

/// The times of SimGrid's fluid model, on a plan whose messages have other bottlenecks.
TEST(Simulate, FairSharesTakeAsLongAsSimGrids) {
  if (simgrid_version().empty()) GTEST_SKIP() << "no SimGrid in this build";
  Gpus gpus(2);
  for (const char* const name : {"double_tree", "hierarchical", "recursive_doubling"}) {
    const double fair = gpus.all_reduce_busbw(name, 64 << 20, {.engine = Engine::Fair, .max_work = 1 << 14});
    const double other = gpus.all_reduce_busbw(name, 64 << 20, {.engine = Engine::SimGrid, .max_work = 1 << 14});
    EXPECT_NEAR(fair / other, 1, 0.01) << name;
  }
}

TEST(Simulate, AThousandRanksTakeLessThanAMinute) {
  const auto start = std::chrono::steady_clock::now();
  Gpus cluster(128);
  ASSERT_EQ(cluster.inputs().ranks, 1024);
  const Simulated all = simulate(cluster.call(Collective::AllReduce, "hierarchical", kGiB), cluster.machine());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
  EXPECT_GT(all.messages, 1e6);
  EXPECT_GT(all.seconds, 2.0 * kGiB / 8 / 48e9) << "each port carries an eighth of the bytes twice";
  EXPECT_LT(all.seconds, 10.0 * kGiB / 8 / 48e9);
}

TEST(Simulate, TooManyStepsAreRefused) {
  Gpus cluster(512);
  ASSERT_EQ(cluster.inputs().ranks, 4096);
  EXPECT_THROW(simulate(cluster.call(Collective::AllToAll, "pairwise", 4096), cluster.machine()), Error);
}

TEST(Simulate, WhatRanksDoIsTraced) {
  Gpus gpus(1);
  const Simulated all =
      simulate(gpus.call(Collective::AllReduce, "ring", 1 << 20), gpus.machine(), {.max_events = 1000});
  ASSERT_EQ(all.replay.events.size(), 1000u);
  const auto page = nlohmann::json::parse(chrome_trace(all.replay, "ring"));
  EXPECT_GE(page["traceEvents"].size(), 1000u);
  EXPECT_NE(page["otherData"]["note"].get<std::string>().find("model"), std::string::npos);
  for (const auto& event : page["traceEvents"]) {
    if (event["ph"] == "X") {
      EXPECT_GE(event["dur"], 0);
    }
  }
}

/// The GPUs of two such hosts, with ranks that are numbered across the hosts: 0, 2, 4 … on the first.
class Interleaved {
 public:
  explicit Interleaved(const char* host) : graph_(topo::cluster(test::sample(host), 2)) {
    natural_ = select::place_ranks(graph_, 0);
    const size_t half = natural_.nodes.size() / 2;
    for (size_t rank = 0; rank < natural_.nodes.size(); ++rank) {
      const size_t place = rank % 2 * half + rank / 2;
      permuted_.nodes.push_back(natural_.nodes[place]);
      permuted_.hosts.push_back(natural_.hosts[place]);
    }
    graph_.ranks = permuted_.nodes;
    graph_.figures = {{.between = topo::Figure::Between::Processes}};  // a job's: all else is the links' own
    order_ = select::find_order(select::Pairs(graph_, select::place_ranks(graph_, 0)));
  }

  double natural(const char* name) const { return seconds(name, natural_, {}); }
  double as_numbered(const char* name) const { return seconds(name, permuted_, {}); }
  double in_order(const char* name) const { return seconds(name, permuted_, order_); }
  const plan::RankOrder& order() const { return order_; }

 private:
  double seconds(const char* name, const select::RankNodes& placed, const plan::RankOrder& order) const {
    constexpr uint64_t kCount = 16 << 20;
    Machine machine(graph_, placed.nodes, WorkCosts{});
    const auto groups = std::make_shared<const plan::Grouping>(placed.hosts);
    Call call{.algorithm = plan::find_algorithm(Collective::AllReduce, name),
              .shape = {Collective::AllReduce, static_cast<Rank>(placed.nodes.size()), order.seen(groups, 0)}};
    call.geometry = {.count = kCount, .window = kCount / 16, .element_bytes = 4, .width = 16, .order = order};
    call.hosts.assign(placed.hosts.begin(), placed.hosts.end());
    return simulate(call, machine, {}).seconds;
  }

  topo::Graph graph_;
  select::RankNodes natural_, permuted_;
  plan::RankOrder order_;
};

TEST(Simulate, RanksInTheOrderOfTheTopologyAreAsFastAsIfTheyWereNumberedSo) {
  for (const char* host : {"nccl-8-gpus-8-nics.xml", "nccl-pcie-2-sockets.xml"}) {
    const Interleaved ranks(host);
    ASSERT_TRUE(ranks.order().is_given()) << host;
    for (const char* name : {"ring", "rabenseifner", "hierarchical", "two_shot"}) {
      EXPECT_NEAR(ranks.in_order(name) / ranks.natural(name), 1, 0.02) << name << ", " << host;
    }
  }
  // All ranks of a host share its only NIC: a ring had better cross it once in each direction.
  const Interleaved ranks("nccl-pcie-2-sockets.xml");
  EXPECT_GT(ranks.as_numbered("ring"), 1.5 * ranks.in_order("ring"));
}

}  // namespace
}  // namespace tutti::sim
