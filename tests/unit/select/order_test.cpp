// Orders of ranks on topologies, and what algorithms cost on machines whose links differ.
#include "select/order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "select/decision_table.hpp"
#include "select/explain.hpp"
#include "select/machine.hpp"
#include "select/machine_view.hpp"
#include "select/select.hpp"
#include "support/scoped_env.hpp"
#include "topo/cluster.hpp"
#include "topo/constants.hpp"

namespace tutti::select {
namespace {

using topo::Figure;
using topo::NodeId;
using topo::NodeKind;

/// Two packages of two cores each, with a slow link between them, and a NIC.
topo::Graph host() {
  topo::Graph graph;
  const NodeId host = graph.add({.kind = NodeKind::Host, .name = "h", .processors = {0, 1, 2, 3}});
  std::vector<NodeId> packages;
  for (int p = 0; p < 2; ++p) {
    packages.push_back(
        graph.add({.kind = NodeKind::Package, .parent = host, .processors = {2 * p, 2 * p + 1}, .number = p}));
    for (int core = 2 * p; core < 2 * p + 2; ++core) {
      const NodeId id =
          graph.add({.kind = NodeKind::Core, .parent = packages.back(), .processors = {core}, .number = core});
      graph.connect({.a = id, .b = packages.back(), .kind = topo::LinkKind::Cache, .gbps = 50, .us = 0.02});
    }
  }
  graph.connect({.a = packages[0], .b = packages[1], .kind = topo::LinkKind::Socket, .gbps = 10, .us = 0.2});
  const NodeId nic = graph.add({.kind = NodeKind::Nic, .parent = packages[0], .name = "eth0", .port = 2});
  graph.connect({.a = nic, .b = packages[0], .kind = topo::LinkKind::Pci, .gbps = 30, .us = 0.5});
  return graph;
}

/// A job of one rank a place: (host, core).
topo::Graph job(uint32_t hosts, const std::vector<std::pair<uint32_t, int>>& places) {
  const std::vector<topo::Graph> parts(hosts, host());
  std::vector<topo::RankPlace> ranks;
  for (const auto& [host, core] : places) ranks.push_back({host, {core}});
  topo::Graph graph = topo::merge_ranks(parts, ranks);
  graph.figures = {{.between = Figure::Between::Processes,
                    .us = 0.5,
                    .gbps = 10,
                    .in_place = true,
                    .transport = "shm",
                    .origin = "test"},
                   {.between = Figure::Between::Hosts, .us = 20, .gbps = 1, .transport = "tcp", .origin = "test"}};
  return graph;
}

/// How often a ring in this order goes from one host (or package) to another.
int crossings(const Pairs& pairs, const std::vector<Rank>& order, NodeKind kind) {
  const topo::Graph& graph = pairs.graph();
  const auto place = [&](Rank rank) {
    NodeId node = pairs.places().nodes[static_cast<size_t>(rank)];
    while (graph.nodes[node].kind != kind) node = graph.nodes[node].parent;
    return node;
  };
  int count = 0;
  for (size_t i = 0; i < order.size(); ++i) count += place(order[i]) == place(order[(i + 1) % order.size()]) ? 0 : 1;
  return count;
}

std::vector<Rank> ranks_of(const plan::RankOrder& order, Rank ranks) {
  std::vector<Rank> list(static_cast<size_t>(ranks));
  std::iota(list.begin(), list.end(), 0);
  return order.is_given() ? std::vector<Rank>(order.ranks().begin(), order.ranks().end()) : list;
}

TEST(Order, OfInterleavedHostsCrossesEachHostsLinkOnceADirection) {
  const topo::Graph graph = job(4, {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {0, 1}, {1, 1}, {2, 1}, {3, 1}});
  const Pairs pairs(graph, place_ranks(graph, 0));
  const plan::RankOrder order = find_order(pairs);
  EXPECT_EQ(crossings(pairs, ranks_of({}, 8), NodeKind::Host), 8);
  EXPECT_EQ(crossings(pairs, ranks_of(order, 8), NodeKind::Host), 4);
}

TEST(Order, OfInterleavedPackagesCrossesTheirLinkOnceADirection) {
  const topo::Graph graph = job(1, {{0, 0}, {0, 2}, {0, 1}, {0, 3}});
  const Pairs pairs(graph, place_ranks(graph, 0));
  EXPECT_EQ(crossings(pairs, ranks_of({}, 4), NodeKind::Package), 4);
  EXPECT_EQ(crossings(pairs, ranks_of(find_order(pairs), 4), NodeKind::Package), 2);
}

TEST(Order, IsTheCommunicatorsWhereNoOtherIsBetter) {
  const topo::Graph graph = job(2, {{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}});
  EXPECT_FALSE(find_order(Pairs(graph, place_ranks(graph, 0))).is_given());
}

TEST(Order, PutsHostsWithFastLinksBesideEachOther) {
  topo::Graph graph = job(4, {{0, 0}, {1, 0}, {2, 0}, {3, 0}});
  const std::vector<NodeId> hosts = graph.all(NodeKind::Host);
  for (const auto& [a, b] : {std::pair(0, 1), std::pair(1, 2), std::pair(2, 3), std::pair(0, 3)}) {  // slow
    graph.figures.push_back({.between = Figure::Between::Hosts,
                             .a = hosts[static_cast<size_t>(a)],
                             .b = hosts[static_cast<size_t>(b)],
                             .us = 20,
                             .gbps = 0.1,
                             .transport = "tcp",
                             .origin = "measured"});
  }
  const Pairs pairs(graph, place_ranks(graph, 0));
  // Islands {0, 2} and {1, 3}: a ring crosses two slow links, not four.
  const std::vector<Rank> order{0, 2, 1, 3};
  EXPECT_LT(order_cost(pairs, order), order_cost(pairs, {0, 1, 2, 3}));
  EXPECT_EQ(ranks_of(find_order(pairs), 4), order);
}

/// A rank on each of four hosts, with a slow cable between two of them.
topo::Graph with_slow_cable(Rank a, Rank b) {
  topo::Graph graph = job(4, {{0, 0}, {1, 0}, {2, 0}, {3, 0}});
  const std::vector<NodeId> hosts = graph.all(NodeKind::Host);
  for (Rank high = 1; high < 4; ++high) {
    for (Rank low = 0; low < high; ++low) {
      const bool slow = std::pair(std::min(a, b), std::max(a, b)) == std::pair(low, high);
      graph.figures.push_back({.between = Figure::Between::Hosts,
                               .a = hosts[static_cast<size_t>(low)],
                               .b = hosts[static_cast<size_t>(high)],
                               .us = 20,
                               .gbps = slow ? 0.25 : 1,
                               .transport = "tcp",
                               .origin = "test"});
    }
  }
  return graph;
}

bool are_neighbours(const std::vector<Rank>& order, Rank a, Rank b) {
  const auto at = std::find(order.begin(), order.end(), a) - order.begin();
  const size_t n = order.size(), i = static_cast<size_t>(at);
  return order[(i + 1) % n] == b || order[(i + n - 1) % n] == b;
}

/// Who goes on to the nearest host each time may end at the far end of a slow cable, which closes the circle.
TEST(Order, OfARingAvoidsASlowCableWhereverItIs) {
  for (const auto& [a, b] : {std::pair(0, 1), std::pair(0, 3), std::pair(0, 2), std::pair(2, 3)}) {
    const CostInputs inputs = inputs_of(with_slow_cable(a, b), 0).inputs;
    EXPECT_FALSE(are_neighbours(ranks_of(inputs.order, 4), a, b)) << a << " and " << b;
    EXPECT_TRUE(inputs.own_orders.empty()) << "nothing is demanded";
  }
}

/// A circulant all-gather of four ranks tells its neighbour one block, and the rank across two.
TEST(Order, OfADemandedAlgorithmIsOneForIt) {
  const test::ScopedEnv demand("TUTTI_ALGO", "all_gather:circulant");
  const auto seconds = [](const CostInputs& inputs) {
    return priced_candidates(Collective::AllGather, 1 << 24, inputs).front().predicted.seconds();
  };
  for (const auto& [a, b] : {std::pair(0, 1), std::pair(0, 2)}) {
    CostInputs inputs = inputs_of(with_slow_cable(a, b), 0).inputs;
    ASSERT_EQ(inputs.own_orders.size(), 1u) << a << " and " << b;
    EXPECT_TRUE(are_neighbours(ranks_of(inputs.order_of(Collective::AllGather), 4), a, b)) << a << " and " << b;
    EXPECT_FALSE(are_neighbours(ranks_of(inputs.order_of(Collective::AllReduce), 4), a, b)) << "it has none of its own";
    const double own = seconds(inputs);
    const DecisionTable table(inputs);
    EXPECT_EQ(DecisionTable::parse(table.text(), inputs).order_of(Collective::AllGather),
              inputs.order_of(Collective::AllGather));
    inputs.own_orders.clear();
    EXPECT_LT(own, 0.6 * seconds(inputs));
  }
  const test::ScopedEnv natural("TUTTI_ORDER", "natural");
  EXPECT_TRUE(inputs_of(with_slow_cable(0, 2), 0).inputs.own_orders.empty());
}

TEST(Order, OfReproducibleFoldsIsTheCommunicators) {
  const topo::Graph graph = job(1, {{0, 0}, {0, 2}, {0, 1}, {0, 3}});
  EXPECT_TRUE(inputs_of(graph, 0).inputs.order.is_given());
  const test::ScopedEnv reproducible("TUTTI_REPRODUCIBLE", "1");
  EXPECT_FALSE(inputs_of(graph, 0).inputs.order.is_given());
  const test::ScopedEnv natural("TUTTI_ORDER", "natural");
  EXPECT_FALSE(inputs_of(graph, 0).inputs.order.is_given());
  const test::ScopedEnv forced("TUTTI_ORDER", "0,2,1,3");
  EXPECT_THROW(inputs_of(graph, 0), Error);
}

TEST(Order, IsReadFromTuttiOrder) {
  EXPECT_EQ(parse_order("natural", 4), plan::RankOrder());
  EXPECT_EQ(ranks_of(*parse_order("2,1,0", 3), 3), (std::vector<Rank>{2, 1, 0}));
  EXPECT_FALSE(parse_order("2,0,1", 3)->is_given()) << "1 follows 0, and 2 follows 1";
  EXPECT_FALSE(parse_order("2,0,1", 4)) << "it is for three ranks";
  EXPECT_THROW(parse_order("2,0,0", 3), Error);
  EXPECT_THROW(parse_order("2,x,0", 3), Error);
  EXPECT_THROW(parse_order("2,-1,0", 3), Error);
}

/// Facts of a file are not trusted.
TEST(Facts, ThatAJobCannotHaveAreRefused) {
  topo::Graph graph = job(1, {{0, 0}, {0, 1}});
  graph.facts = {{facts::kStaging, 1 << 20}, {facts::kReading, 2}, {facts::kShiftCma, -2}};
  EXPECT_EQ(inputs_of(graph, 0).inputs.staging, 1u << 20);
  for (const auto& [name, value] :
       {std::pair(facts::kStaging, -1.0), std::pair(facts::kStaging, 1e300), std::pair(facts::kReading, 3.0),
        std::pair(facts::kShiftCma, 3.0), std::pair(facts::kWidth, 0.0), std::pair(facts::kGamma, std::nan(""))}) {
    graph.facts = {{name, value}};
    EXPECT_THROW(inputs_of(graph, 0), Error) << name << " " << value;
  }
}

TEST(RankOrder, RenamesRanksBothWays) {
  const plan::RankOrder order({3, 1, 4, 0, 2});
  for (Rank root = 0; root < 5; ++root) {
    EXPECT_EQ(order.actual(0, root, 5), root);
    for (Rank planned = 0; planned < 5; ++planned) {
      EXPECT_EQ(order.planned(order.actual(planned, root, 5), root, 5), planned);
    }
  }
}

/// A machine of alike cores has no view; there the closed forms hold. Where it has one, both say about the same of a
/// machine that differs by a hair.
TEST(MachineView, SaysWhatTheClosedFormsSayWhereAllLinksAreAlike) {
  topo::Graph graph = job(1, {{0, 0}, {0, 1}});
  EXPECT_EQ(inputs_of(graph, 0).inputs.view, nullptr);
  topo::Graph four = job(4, {{0, 0}, {1, 0}, {2, 0}, {3, 0}});
  const Pairs pairs(four, place_ranks(four, 0));
  const MachineView view(pairs, machine_constants().message_share, true);
  EXPECT_TRUE(view.is_uniform());
  const CostInputs inputs = inputs_of(four, 0).inputs;
  for (const char* name : {"ring", "two_shot", "recursive_doubling", "one_shot", "rabenseifner"}) {
    const plan::Algorithm& algorithm = *plan::find_algorithm(Collective::AllReduce, name);
    const plan::Cost cost = algorithm.cost({Collective::AllReduce, 4});
    const Traffic traffic = view.traffic(algorithm, {Collective::AllReduce, 4}, {});
    for (const uint64_t bytes : {uint64_t{8}, uint64_t{1} << 20, uint64_t{64} << 20}) {
      const double closed = predict(cost, bytes, 1 << 18, prices_of(inputs)).seconds();
      const double viewed = predict(traffic, cost, bytes, 1 << 18, prices_of(inputs)).seconds();
      EXPECT_NEAR(viewed / closed, 1, 0.3) << name << " of " << bytes;
    }
  }
}

TEST(MachineView, PricesARingByTheLinksThatItCrosses) {
  // Two hosts of four: a ring in order crosses the slow link once, not with every message.
  const topo::Graph graph = job(2, {{0, 0}, {0, 1}, {0, 2}, {0, 3}, {1, 0}, {1, 1}, {1, 2}, {1, 3}});
  const CostInputs inputs = inputs_of(graph, 0).inputs;
  ASSERT_NE(inputs.view, nullptr);
  const auto seconds = [&](const char* name) {
    for (const Candidate& candidate : candidates(Collective::AllReduce, 64 << 20, inputs)) {
      if (std::string_view(candidate.row.algorithm->name) == name) return candidate.seconds;
    }
    return 0.0;
  };
  const double wire = 2 * 7.0 / 8 * (64 << 20) / 1e9;  // of one rank's part over 1 GB/s
  EXPECT_NEAR(seconds("ring"), wire, 0.2 * wire);
  EXPECT_GT(seconds("one_shot"), 4 * wire) << "each rank sends all to four others";
}

/// One host has a link at a quarter of the others' rate: the choice is another one, and says why.
TEST(MachineView, ASlowHostChangesTheChoice) {
  topo::Graph even = job(4, {{0, 0}, {1, 0}, {2, 0}, {3, 0}}), slow = even;
  const std::vector<NodeId> hosts = slow.all(NodeKind::Host);
  for (const NodeId other : hosts) {
    if (other == hosts[2]) continue;
    slow.figures.push_back({.between = Figure::Between::Hosts,
                            .a = hosts[2],
                            .b = other,
                            .us = 20,
                            .gbps = 0.25,
                            .transport = "tcp",
                            .origin = "measured"});
  }
  const auto best = [](const topo::Graph& graph) {
    return candidates(Collective::AllReduce, 16 << 20, inputs_of(graph, 0).inputs).front();
  };
  EXPECT_STRNE(best(even).row.algorithm->name, best(slow).row.algorithm->name);
  EXPECT_NE(best(slow).where.find("0.25 GB/s, measured"), std::string::npos) << best(slow).where;
}

/// A host of two packages of four cores each, with a slow link between, and ranks on some of its cores.
topo::Graph pinned(const std::vector<int>& cores) {
  topo::Graph part;
  const NodeId host = part.add({.kind = NodeKind::Host, .name = "h", .processors = {0, 1, 2, 3, 4, 5, 6, 7}});
  std::vector<NodeId> packages;
  for (int p = 0; p < 2; ++p) {
    const int first = 4 * p;
    packages.push_back(part.add({.kind = NodeKind::Package,
                                 .parent = host,
                                 .processors = {first, first + 1, first + 2, first + 3},
                                 .number = p}));
    for (int core = first; core < first + 4; ++core) {
      const NodeId id =
          part.add({.kind = NodeKind::Core, .parent = packages.back(), .processors = {core}, .number = core});
      part.connect({.a = id, .b = packages.back(), .gbps = 50, .us = 0.02});
    }
  }
  part.connect({.a = packages[0], .b = packages[1], .kind = topo::LinkKind::Socket, .gbps = 8, .us = 0.3});
  std::vector<topo::RankPlace> ranks;
  for (const int core : cores) ranks.push_back({0, {core}});
  topo::Graph graph = topo::merge_ranks(std::vector<topo::Graph>{part}, ranks);
  const auto figure = [&](Figure::Between between, double us, double gbps) {
    graph.figures.push_back({.between = between, .us = us, .gbps = gbps, .in_place = true, .transport = "shm"});
  };
  figure(Figure::Between::Processes, 0.5, 10);
  figure(Figure::Between::Threads, 0.3, 25);
  return graph;
}

/// Ranks on cores of one package, and on cores of both: the order and the rows follow, and name the link between.
TEST(Rows, FollowTheCoresOfRanks) {
  const topo::Graph near = pinned({0, 1, 2, 3}), far = pinned({0, 4, 1, 5});
  EXPECT_FALSE(inputs_of(near, 0).inputs.order.is_given());
  EXPECT_EQ(ranks_of(inputs_of(far, 0).inputs.order, 4), (std::vector<Rank>{0, 2, 1, 3}));
  EXPECT_NE(DecisionTable(inputs_of(near, 0).inputs).text(), DecisionTable(inputs_of(far, 0).inputs).text());
  const Candidate best = candidates(Collective::AllReduce, 16 << 20, inputs_of(far, 0).inputs).front();
  for (const Candidate& candidate : candidates(Collective::AllReduce, 16 << 20, inputs_of(far, 0).inputs)) {
    if (std::string_view(candidate.row.algorithm->name) != "one_shot") continue;
    EXPECT_EQ(candidate.where, "h: package 0 – package 1") << "four messages each way";
    EXPECT_GT(candidate.seconds, best.seconds);
  }
}

/// Two processes of two threads each, and four processes, on the same cores.
TEST(Rows, FollowTheProcessesOfRanks) {
  topo::Graph apart = pinned({0, 1, 2, 3}), mixed = apart, interleaved = apart;
  apart.processes = {0, 1, 2, 3};
  mixed.processes = {0, 0, 1, 1};
  interleaved.processes = {0, 1, 0, 1};
  EXPECT_EQ(inputs_of(apart, 0).inputs.view, nullptr);
  EXPECT_NE(inputs_of(mixed, 0).inputs.view, nullptr) << "threads are nearer to each other";
  EXPECT_FALSE(inputs_of(mixed, 0).inputs.order.is_given());
  EXPECT_EQ(ranks_of(inputs_of(interleaved, 0).inputs.order, 4), (std::vector<Rank>{0, 2, 1, 3}));
  EXPECT_NE(DecisionTable(inputs_of(apart, 0).inputs).text(), DecisionTable(inputs_of(mixed, 0).inputs).text());
}

}  // namespace
}  // namespace tutti::select
