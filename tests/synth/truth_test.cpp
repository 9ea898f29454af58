// A bound is a bound: no algorithm's time is below it, whether the cost model or the simulator tells that time, and
// whatever a job has measured of its links.
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "base/format.hpp"
#include "select/machine_view.hpp"
#include "select/network.hpp"
#include "select/synthesis.hpp"
#include "sim/simulate.hpp"
#include "support/four_hosts.hpp"
#include "support/topologies.hpp"
#include "synth/bound.hpp"
#include "synth/machines.hpp"
#include "tools/perf/report.hpp"
#include "tools/sim/scene.hpp"
#include "topo/cluster.hpp"
#include "topo/folding.hpp"

namespace tutti::tools {
namespace {

constexpr Collective kAll[] = {Collective::AllGather, Collective::ReduceScatter, Collective::AllReduce,
                               Collective::Broadcast, Collective::Reduce,        Collective::AllToAll};
constexpr double kRounding = 1e-4;

void expect_at_least(const std::optional<select::LeastTime>& least, double seconds, const std::string& what) {
  ASSERT_TRUE(least) << what;
  EXPECT_GE(seconds, (1 - kRounding) * least->seconds)
      << what << ": " << 100 * least->seconds / seconds << " % of " << least->words;
}

/// As `tutti explain` prices calls; `by`: those by this method alone.
void expect_prices_above(const topo::Graph& graph, const std::string& name, const exec::Method* by = nullptr) {
  for (const Collective collective : kAll) {
    select::CostInputs inputs = select::inputs_of(graph, 0).inputs;
    add_bound(graph, select::place_ranks(graph, 0).nodes, collective, 0, inputs);
    for (const uint64_t bytes : {uint64_t{64}, uint64_t{64} << 10, uint64_t{1} << 28}) {
      const uint64_t block = select::block_bytes(collective, bytes, inputs.ranks);
      for (const select::Candidate& one : select::priced_candidates(collective, block, inputs)) {
        if (!one.rejected.empty() || (by != nullptr && one.row.method != by)) continue;
        expect_at_least(select::least_time(one, block, inputs), one.seconds,
                        fmt::format("{}: {} of {} by {}, {}", name, name_of(collective), bytes, one.row.algorithm->name,
                                    one.row.method->name));
      }
    }
  }
}

/// As `tutti sim` replays them.
void expect_simulations_above(const topo::Graph& graph, const std::string& name) {
  sim::SimulateOptions options = effort_of("fair");
  options.max_work = 1 << 14;
  for (const Collective collective : kAll) {
    for (const uint64_t bytes : {uint64_t{1} << 10, uint64_t{1} << 24}) {
      Scene scene(collective, bytes, {.topology = name, .graph = &graph});
      for (const select::Candidate& one : scene.candidates()) {
        if (!one.rejected.empty()) continue;
        const double seconds = sim::simulate(scene.call_of(one), scene.machine(), options).seconds;
        expect_at_least(
            scene.least(), seconds,
            fmt::format("{}, simulated: {} of {} by {}", name, name_of(collective), bytes, one.row.algorithm->name));
      }
    }
  }
}

TEST(Truth, NoPriceIsBelowTheBoundOfAPublishedMachine) {
  for (const char* file : {"hwloc-2-sockets.xml", "nccl-8-gpus-8-nics.xml", "nccl-hidden-nvswitch.xml",
                           "nccl-nvlink-pairs.xml", "nccl-pcie-2-sockets.xml", "two-sockets.json"}) {
    const topo::Graph host = test::sample(file);
    expect_prices_above(host, file);
    if (!host.all(topo::NodeKind::Nic).empty())
      expect_prices_above(topo::cluster(host, 2), fmt::format("2 x {}", file));
  }
}

/// What nvls runs is faster than ranks that fold can be, and not than switches that fold: 8/9 of their bound, and 0.82
/// of that, since so much of a link's rate is what accesses through a switch reach (cuda_multimem_share).
TEST(Truth, WhatASwitchFoldsHasABoundOfItsOwn) {
  const topo::Graph graph = test::sample("nccl-8-gpus-8-nics.xml");
  const std::vector<topo::NodeId> gpus = select::place_ranks(graph, 0).nodes;
  const uint64_t bytes = uint64_t{1} << 30;
  const auto by_nvls = [&](Collective collective, const select::CostInputs& inputs) {
    std::optional<select::Candidate> found;
    for (const select::Candidate& one :
         select::priced_candidates(collective, select::block_bytes(collective, bytes, inputs.ranks), inputs)) {
      if (one.rejected.empty() && one.row.method == &exec::methods::nvls && !found) found = one;
    }
    return found;
  };
  for (const Collective collective : {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter}) {
    SCOPED_TRACE(name_of(collective));
    select::CostInputs inputs = select::inputs_of(graph, 0).inputs;
    add_bound(graph, gpus, collective, 0, inputs);
    const uint64_t block = select::block_bytes(collective, bytes, inputs.ranks);
    const auto one = by_nvls(collective, inputs);
    ASSERT_TRUE(one);
    const auto least = select::least_time(*one, block, inputs), ranks = select::least_time(collective, block, inputs);
    ASSERT_TRUE(least && ranks);
    const bool reduces = collective == Collective::AllReduce;
    EXPECT_EQ(least->words == ranks->words, !reduces) << "of others it is the same";
    EXPECT_EQ(one->seconds < ranks->seconds, reduces);
    EXPECT_NEAR(least->seconds / one->seconds, 0.82 * (reduces ? 8.0 / 9 : 7.0 / 8), 0.01);
  }
  select::CostInputs inputs = select::inputs_of(graph, 0).inputs;
  EXPECT_FALSE(known_folding_bound(graph, gpus, Collective::Broadcast, inputs)) << "which nvls does not run";
  inputs = select::inputs_of(graph, 2).inputs;
  EXPECT_TRUE(known_folding_bound(graph, {gpus[0], gpus[1]}, Collective::AllReduce, inputs));
  const topo::Graph pcie = test::sample("nccl-pcie-2-sockets.xml");
  EXPECT_FALSE(known_folding_bound(pcie, select::place_ranks(pcie, 0).nodes, Collective::AllReduce,
                                   select::inputs_of(pcie, 0).inputs));
}

/// A switch without GPUs of its own folds, too: nothing that nvls runs is faster than the bound.
TEST(Truth, NoPriceIsBelowTheBoundWhereASpineFolds) {
  for (const auto& [leaves, each] : {std::pair(8, 1), std::pair(4, 2)}) {
    const synth::Drawing drawing = synth::leaves_and_spine(leaves, each, 100);
    topo::Graph graph = drawing.graph();
    for (const topo::NodeId gpu : drawing.ranks()) graph.nodes[gpu].sm = topo::kFirstFoldedSm;
    const select::CostInputs inputs = select::inputs_of(graph, 0).inputs;
    EXPECT_TRUE(known_folding_bound(graph, drawing.ranks(), Collective::AllReduce, inputs)) << "nvls runs it";
    expect_prices_above(graph, fmt::format("{} leaves", leaves), &exec::methods::nvls);
  }
}

/// `tutti perf --bound`, of 8 ranks: 1 MB in 10 us, but by nvls in 5 us.
TEST(Truth, PerfShowsTheBoundOfTheMethodThatRan) {
  PerfOptions options;
  options.bound = true;
  options.sizes = {1000000};
  const std::vector<PerfRow> rows = rows_of(options, 8);
  const select::KnownBound ranks{.seconds_per_byte = 1e-11, .words = "of ranks"};
  select::KnownBound switches{.seconds_per_byte = 5e-12, .words = "where switches fold"};
  const auto printed = [&](const std::string& method, std::optional<select::KnownBound> of_nvls) {
    testing::internal::CaptureStdout();
    Report report(options, std::vector<RankPlace>(8), rows, {{0, {ranks, std::move(of_nvls)}}});
    report.header();
    report.row(rows.front(), {.seconds = 1e-4, .algorithm = "two_shot", .method = method}, {});
    return testing::internal::GetCapturedStdout();
  };
  constexpr double kBus = 2.0 * 7 / 8;
  const auto has = [](const std::string& text, const std::string& what) {
    return text.find(what) != std::string::npos;
  };
  const std::string of_ranks = fmt::format(" {:.1f} ", 100 * kBus), of_switches = fmt::format(" {:.1f} ", 200 * kBus);
  EXPECT_TRUE(has(printed("get", switches), of_ranks)) << printed("get", switches);
  EXPECT_TRUE(has(printed("nvls", switches), of_switches)) << printed("nvls", switches);
  EXPECT_TRUE(has(printed("nvls", switches), "# bound of calls by nvls: where switches fold\n"));
  EXPECT_TRUE(has(printed("nvls", {}), " N/A  two_shot/nvls"));
  EXPECT_FALSE(has(printed("get", {}), "by nvls"));
  switches.words = ranks.words;
  EXPECT_FALSE(has(printed("get", switches), "by nvls")) << "it is the same bound";
}

TEST(Truth, NoSimulationIsBelowTheBoundOfAPublishedMachine) {
  for (const char* file :
       {"nccl-8-gpus-8-nics.xml", "nccl-nvlink-pairs.xml", "nccl-pcie-2-sockets.xml", "two-sockets.json"}) {
    expect_simulations_above(test::sample(file), file);
  }
  expect_simulations_above(topo::cluster(test::sample("nccl-pcie-2-sockets.xml"), 2), "2 x nccl-pcie-2-sockets.xml");
}

/// Jobs of four hosts: of what `tutti tune` measures, and of figures far above the published ones.
std::vector<std::pair<std::string, topo::Graph>> jobs() {
  namespace four = select::four_hosts;
  std::vector<std::pair<std::string, topo::Graph>> all;
  const double one = four::kFast, slow = four::kSlow;
  all.emplace_back("alike", four::with(four::measured({one, one, one, one})));
  all.emplace_back("nearly alike", four::with(four::measured({one, 1.15 * one, 1.1 * one, 0.97 * one})));
  all.emplace_back("a slow link", four::with(four::measured({one, one, slow, one})));
  all.emplace_back("two ranks each", four::with(four::measured({one, one, slow, one}), 2));
  all.emplace_back("islands", four::with(four::measured({one, one, one, one}, {0, 0, 1, 1}), 2));
  all.emplace_back("not measured", four::job(2));
  select::MeasuredHosts cables{.transport = "tcp"};  // which add up to a little less than a host's port
  for (size_t a = 0; a < four::kNames.size(); ++a) {
    for (size_t b = 0; b < a; ++b) cables.pairs.push_back({four::kNames[b], four::kNames[a], 20e-6, 1 / slow});
    cables.links[four::kNames[a]] = 1 / (3 * 1.006 * slow);
  }
  all.emplace_back("cables", four::with(cables));
  const double fast = 30e9;  // of ports of 1.2 GB/s
  all.emplace_back("fast network", four::with(four::measured({fast, fast, fast, fast}), 2));
  topo::Graph quick = four::job(2);  // 400 GB/s where cores were published to copy 50
  quick.figures = {
      {.between = topo::Figure::Between::Processes, .us = 0.01, .gbps = 400, .most = 2000, .in_place = true},
      {.between = topo::Figure::Between::Hosts, .us = 0.1, .gbps = 90, .origin = "test"}};
  all.emplace_back("fast everything", quick);
  return all;
}

TEST(Truth, NoPriceIsBelowTheBoundOfAJob) {
  for (const auto& [name, graph] : jobs()) expect_prices_above(graph, name);
}

TEST(Truth, NoSimulationIsBelowTheBoundOfAJob) {
  for (const auto& [name, graph] : jobs()) expect_simulations_above(graph, name);
}

TEST(Truth, ACertificateSaysWhichRatesWereMeasured) {
  topo::Graph graph = select::four_hosts::with(select::four_hosts::measured({50e6, 50e6, 50e6, 50e6}), 2);
  const auto words = [&](const topo::Graph& of) {
    const auto bound =
        known_bound(of, select::place_ranks(of, 0).nodes, Collective::AllGather, 0, select::inputs_of(of, 0).inputs);
    return bound->words;
  };
  EXPECT_TRUE(words(graph).ends_with(" (rates: measured by `tutti tune`)")) << words(graph);
  EXPECT_TRUE(words(select::four_hosts::job(2)).ends_with(" (rates: published)")) << words(select::four_hosts::job(2));
  EXPECT_TRUE(words(test::sample("two-sockets.json")).ends_with(" (rates: assumed)"));
  const topo::Graph host = test::sample("nccl-pcie-2-sockets.xml");
  EXPECT_TRUE(words(host).ends_with(" (rates: published)")) << words(host);
}

constexpr double kPort = 12;

/// Two hosts with so many NICs, and a GPU behind each. What a message reaches between them is known.
synth::Drawing hosts_of_nics(size_t nics, double known) {
  synth::Drawing drawing;
  const auto fabric = drawing.node(topo::NodeKind::Fabric);
  for (int host = 0; host < 2; ++host) {
    drawing.host();
    const auto numa = drawing.node(topo::NodeKind::Numa);
    for (size_t i = 0; i < nics; ++i) {
      const auto bridge = drawing.star(1, 2 * kPort, topo::NodeKind::Bridge), nic = drawing.node(topo::NodeKind::Nic);
      drawing.join(bridge, numa, 2 * kPort, topo::LinkKind::Pci);
      drawing.join(bridge, nic, 2 * kPort, topo::LinkKind::Pci);
      drawing.join(nic, fabric, kPort, topo::LinkKind::Network);
    }
  }
  drawing.know(0, nics, known);
  return drawing;
}

/// GB/s from one such host to the other, by the bound, the cost model (of an all-to-all) and the simulator.
TEST(Truth, HostsOfSeveralNicsHaveOneRateForAll) {
  for (const double known : {kPort / 2, kPort}) {
    for (const size_t nics : {2U, 4U, 8U}) {
      const synth::Drawing drawing = hosts_of_nics(nics, known);
      const std::string what = fmt::format("{} NICs, a message at {} GB/s", nics, known);
      const double blocks = static_cast<double>(nics * nics), expected = static_cast<double>(nics) * known;
      const auto bound =
          synth::bound_of(synth::network_at_most(drawing.graph(), drawing.ranks()), Collective::AllToAll);
      EXPECT_NEAR(static_cast<double>(bound.cut.must.capacity) * bound.unit / 1e9, expected, 1e-6) << what;

      const select::CostInputs inputs = select::inputs_of(drawing.graph(), 0).inputs;
      const plan::Algorithm& pairwise = *plan::find_algorithm(Collective::AllToAll, "pairwise");
      ASSERT_NE(inputs.view, nullptr);
      const plan::Shape shape{Collective::AllToAll, inputs.ranks};
      EXPECT_NEAR(blocks / inputs.view->traffic(pairwise, shape, {}).busiest / 1e9, expected, 1e-6) << what;

      sim::Machine machine(drawing.graph(), drawing.ranks(), {});
      std::set<uint32_t> used;
      double together = 0;
      for (Rank rank = 0; rank < static_cast<Rank>(nics); ++rank) {
        double least = 1e18;
        for (const uint32_t resource : machine.route(rank, rank + static_cast<Rank>(nics)).resources) {
          EXPECT_TRUE(used.insert(resource).second) << what << ": messages by other NICs share nothing";
          least = std::min(least, machine.resources()[resource].rate);
        }
        together += least;
      }
      EXPECT_NEAR(together / 1e9, expected, 1e-6) << what << ", simulated";
    }
  }
}

/// Links behind a GPU's own do not keep it from sending to others.
TEST(Truth, AGpuIsAsBusyAsItsOwnLinks) {
  synth::Drawing drawing;
  const auto middle = drawing.star(1, 24, topo::NodeKind::Bridge);
  for (int i = 0; i < 2; ++i) {
    const auto far = drawing.star(1, 24, topo::NodeKind::Bridge);
    drawing.join(middle, far, 10, topo::LinkKind::Pci);
  }
  const select::CostInputs inputs = select::inputs_of(drawing.graph(), 0).inputs;
  ASSERT_NE(inputs.view, nullptr);
  const plan::Algorithm& linear = *plan::find_algorithm(Collective::Scatter, "linear");
  EXPECT_NEAR(inputs.view->traffic(linear, {Collective::Scatter, 3}, {}).busiest, 1 / 10e9, 1e-15)
      << "one block through each of the slow links, both at the same time";
}

TEST(Truth, APriceIsThatOfTheCallsRoot) {
  const topo::Graph graph = topo::cluster(test::sample("nccl-pcie-2-sockets.xml"), 2);
  const auto nodes = select::place_ranks(graph, 0).nodes;
  select::CostInputs inputs = select::inputs_of(graph, 0).inputs;
  const select::SynthesisedText page = synthesise_for(
      graph, nodes, inputs, [](const std::string&) {}, Collective::Broadcast);
  inputs.synthesised = select::read_synthesised(select::to_text(page), page.key, inputs.ranks);
  const auto price = [&](const char* name, std::optional<Rank> root) {
    inputs.root = root;
    for (const select::Candidate& one : select::priced_candidates(Collective::Broadcast, 1 << 28, inputs)) {
      const std::string_view its = one.row.algorithm->name;
      if (one.rejected.empty() && (its == name || its.starts_with(fmt::format("{}@", name))))
        return one.predicted.seconds();
    }
    ADD_FAILURE() << "no " << name;
    return 0.0;
  };
  std::vector<double> of_roots;
  for (Rank root = 0; root < inputs.ranks; ++root) of_roots.push_back(price("synth", root));
  const double mean = std::accumulate(of_roots.begin(), of_roots.end(), 0.0) / static_cast<double>(of_roots.size());
  EXPECT_NEAR(price("synth", {}), mean, 1e-3 * mean);
  EXPECT_LT(of_roots[0], 0.9 * *std::max_element(of_roots.begin(), of_roots.end())) << "it was made for root 0";
  EXPECT_NE(price("chain", 1), price("chain", 3)) << "the catalogue's too";
  for (Rank root = 0; root < inputs.ranks; ++root) {
    const auto bound = known_bound(graph, nodes, Collective::Broadcast, root, inputs);
    EXPECT_GE(of_roots[static_cast<size_t>(root)], (1 - kRounding) * bound->of(1 << 28)) << "root " << root;
    EXPECT_LE(known_bound(graph, nodes, Collective::Broadcast, {}, inputs)->of(1 << 28), bound->of(1 << 28));
  }
}

}  // namespace
}  // namespace tutti::tools
