// The measured network: what a profile has of it, what is concluded from it, and how rows and orders follow.
#include "select/network.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/format.hpp"
#include "select/decision_table.hpp"
#include "select/explain.hpp"
#include "select/islands.hpp"
#include "select/machine.hpp"
#include "select/machine_view.hpp"
#include "select/order.hpp"
#include "select/profile.hpp"
#include "select/select.hpp"
#include "support/four_hosts.hpp"
#include "topo/cluster.hpp"
#include "topo/graph_json.hpp"
#include "tutti/error.hpp"

namespace tutti::select {
namespace {

using namespace four_hosts;

const MeasuredHosts kEven = four_hosts::measured({kFast, 0.95 * kFast, 0.9 * kFast, kFast});
const MeasuredHosts kSlowHost = four_hosts::measured({kFast, kFast, kSlow, kFast});
const MeasuredHosts kIslands = four_hosts::measured({kFast, kFast, kFast, kFast}, {0, 1, 0, 1});

std::vector<Rank> order_of(const topo::Graph& graph) {
  const plan::RankOrder order = inputs_of(graph, 0).inputs.order;
  return {order.ranks().begin(), order.ranks().end()};
}

TEST(RoundRobin, HasEachPairOnceAndNoHostTwiceInARound) {
  for (size_t n = 2; n <= 9; ++n) {
    std::set<HostPair> all;
    const auto rounds = round_robin(n);
    EXPECT_EQ(rounds.size(), n - 1 + n % 2);
    for (const auto& round : rounds) {
      std::set<size_t> busy;
      for (const auto& [a, b] : round) {
        EXPECT_LT(a, b);
        EXPECT_LT(b, n);
        EXPECT_TRUE(all.emplace(a, b).second);
        EXPECT_TRUE(busy.insert(a).second && busy.insert(b).second);
      }
    }
    EXPECT_EQ(all.size(), n * (n - 1) / 2);
  }
}

TEST(Wiring, OfEvenLinksHasNoIslands) {
  EXPECT_TRUE(kEven.islands.empty());
  EXPECT_TRUE(lines_of(kEven).empty());
}

TEST(Wiring, NamesAHostWithASlowLink) {
  EXPECT_TRUE(kSlowHost.islands.empty());
  EXPECT_DOUBLE_EQ(1 / kSlowHost.links.at("host2"), kSlow);
  EXPECT_DOUBLE_EQ(1 / kSlowHost.links.at("host1"), kFast);
  EXPECT_EQ(lines_of(kSlowHost), std::vector<std::string>{"link host2: 25 MB/s"});
}

TEST(Doubts, AreToldAndKept) {
  MeasuredHosts hosts = kEven;
  EXPECT_EQ(doubts_of(hosts), "");
  EXPECT_EQ(to_json(hosts).dump().find("doubtful"), std::string::npos);
  hosts.pairs.front().doubtful = true;
  hosts.doubtful.insert("host3");
  const std::string pair = fmt::format("{} – {}", hosts.pairs.front().a, hosts.pairs.front().b);
  const std::string rate = rate_text(1 / hosts.pairs.front().beta), of_links = rate_text(1 / hosts.links.at("host3"));
  EXPECT_EQ(doubts_of(hosts), fmt::format("{} ({} at best), all links of host3 ({} at best)", pair, rate, of_links));
  const MeasuredHosts kept = measured_hosts_of(to_json(hosts));
  EXPECT_TRUE(kept.pairs.front().doubtful);
  EXPECT_FALSE(kept.pairs.back().doubtful);
  EXPECT_EQ(kept.doubtful, std::set<std::string>{"host3"});
  const std::string in_doubt = " (in doubt: no two measurements agreed)";
  EXPECT_EQ(lines_of(kept), (std::vector<std::string>{fmt::format("link host3: {}{}", of_links, in_doubt),
                                                      fmt::format("link {}: {}{}", pair, rate, in_doubt)}));
  MeasuredHosts again = kept;
  again.update(kEven);
  EXPECT_EQ(doubts_of(again), "") << "measured anew";
}

TEST(Wiring, FindsIslandsAndTheRateOfTheLinkThatTheirPairsShare) {
  ASSERT_EQ(kIslands.islands.size(), 2u);
  EXPECT_EQ(kIslands.islands[0].hosts, (std::vector<std::string>{"host0", "host2"}));
  EXPECT_EQ(kIslands.islands[1].hosts, (std::vector<std::string>{"host1", "host3"}));
  EXPECT_NEAR(1 / kIslands.islands[0].beta, kSlow, 1) << "of all pairs together, not of each";
  EXPECT_DOUBLE_EQ(1 / kIslands.links.at("host0"), kFast);
}

/// Each pair alone is as fast as any: only together they are not.
TEST(Wiring, FindsALinkThatIsOnlyTooSlowForSeveral) {
  const MeasuredHosts hosts = four_hosts::measured({kFast, kFast, kFast, kFast}, {0, 0, 1, 1}, kFast);
  ASSERT_EQ(hosts.islands.size(), 2u);
  EXPECT_NEAR(1 / hosts.islands[0].beta, kFast, 1);
  for (const MeasuredPair& pair : hosts.pairs) EXPECT_DOUBLE_EQ(1 / pair.beta, kFast);
  const MachineInputs machine = inputs_of(with(hosts), 0);
  ASSERT_NE(machine.inputs.view, nullptr) << "pairs are alike, but share a link";
  EXPECT_EQ(machine.notes.links.size(), 1u);
}

/// TCP shares a link out unevenly.
TEST(Wiring, DoesNotDependOnAPairsShare) {
  const auto rounds = round_robin(4);
  const std::vector<size_t> islands{0, 1, 0, 1};
  std::vector<std::vector<double>> betas;
  for (const auto& round : rounds) {
    betas.emplace_back();
    double share = 0.8;
    for (const auto& [a, b] : round) {
      const bool crosses = islands[a] != islands[b];
      betas.back().push_back(1 / (crosses ? share * kSlow : kFast));
      if (crosses) share = 1 - share;
    }
  }
  const MeasuredHosts found = wiring_of(kNames, kIslands.pairs, betas, kAtOnce);
  ASSERT_EQ(found.islands.size(), 2u);
  EXPECT_NEAR(1 / found.islands[0].beta, kSlow, 1);
}

/// On a busy machine some pairs are disturbed in some rounds. What pairs reach together in the best round counts.
TEST(Wiring, OfDisturbedHostsHasNoIslands) {
  for (const double disturbed : {0.2, 0.4, 0.6}) {
    const auto rounds = round_robin(4);
    std::vector<std::vector<double>> betas;
    for (size_t round = 0; round < rounds.size(); ++round) {
      betas.emplace_back(rounds[round].size(), 1 / (round == 0 ? disturbed * kFast : kFast));
    }
    EXPECT_TRUE(wiring_of(kNames, kEven.pairs, betas, kAtOnce).islands.empty()) << disturbed;
    betas[1] = {1 / (0.9 * kFast), 1 / (0.6 * kFast)};
    EXPECT_TRUE(wiring_of(kNames, kEven.pairs, betas, kAtOnce).islands.empty()) << disturbed;
  }
}

TEST(Network, OfEvenLinksChangesNothing) {
  const MachineInputs before = inputs_of(job(), 0), after = inputs_of(with(kEven), 0);
  EXPECT_EQ(after.inputs.view, nullptr) << "5 and 10 % are noise";
  EXPECT_FALSE(after.inputs.order.is_given());
  EXPECT_TRUE(after.notes.links.empty());
  for (const auto collective : {Collective::AllReduce, Collective::AllGather, Collective::Broadcast}) {
    EXPECT_EQ(best(job(), collective).row.algorithm, best(with(kEven), collective).row.algorithm);
  }
}

/// A cable between two hosts that is slow, and one that was measured on a busy machine.
/// What counts as alike was not: bounds need the most that was measured.
TEST(Network, LinksThatCountAsAlikeKeepTheMostThatWasMeasured) {
  const topo::Graph graph = with(four_hosts::measured({1.1 * kFast, kFast, kFast, 0.95 * kFast}));
  for (const topo::Link& link : graph.links) {
    if (!link.measured) continue;
    EXPECT_DOUBLE_EQ(link.gbps, kFast * 1e-9);
    EXPECT_DOUBLE_EQ(link.most, 1.1 * kFast * 1e-9);
  }
}

TEST(Network, APairHasARateOfItsOwnIfItsLinksDoNotExplainIt) {
  MeasuredHosts noisy = kEven, slow = kEven;
  noisy.pairs.front().beta *= 1.4;
  slow.pairs.front().beta *= 4;
  EXPECT_EQ(inputs_of(with(noisy), 0).inputs.view, nullptr);
  const MachineInputs machine = inputs_of(with(slow), 0);
  ASSERT_NE(machine.inputs.view, nullptr);
  EXPECT_EQ(machine.notes.links.size(), 1u) << "the cable";
  EXPECT_NEAR(1e-9 / machine.inputs.inside.beta, kSlow * 1e-9, 1e-3);
}

TEST(Network, ASlowHostStandsAtTheEndOfTheChainAndIsNamed) {
  const topo::Graph graph = with(kSlowHost);
  EXPECT_EQ(order_of(graph), (std::vector<Rank>{0, 1, 3, 2}));
  EXPECT_EQ(inputs_of(graph, 0).notes.links, std::vector<std::string>{"link host2: 25 MB/s, measured by `tutti tune`"});
  const Candidate even = best(with(kEven), Collective::AllReduce), slow = best(graph, Collective::AllReduce);
  EXPECT_STRNE(even.row.algorithm->name, slow.row.algorithm->name);
  // It sends its share once and receives the result once, where others send more.
  EXPECT_NEAR(slow.seconds, (16 << 20) / kSlow, 0.02);
}

TEST(Network, IslandsAreCrossedOnceADirection) {
  const topo::Graph graph = with(kIslands);
  EXPECT_EQ(order_of(graph), (std::vector<Rank>{0, 2, 1, 3}));
  EXPECT_EQ(inputs_of(graph, 0).notes.links,
            std::vector<std::string>{"link host0, host2 – host1, host3: 25 MB/s, measured by `tutti tune`"});
  const double once = (16 << 20) / kSlow;
  EXPECT_NEAR(best(graph, Collective::Broadcast).seconds, once, 0.02);
  EXPECT_NEAR(best(graph, Collective::AllReduce).seconds, once, 0.02);
  EXPECT_NEAR(best(graph, Collective::AllGather).seconds, once / 2, 0.02) << "two of four blocks cross";
  EXPECT_NE(best(graph, Collective::AllReduce).where.find("host1, host3: 25 MB/s, measured"), std::string::npos);
}

TEST(Network, RanksOfAHostShareItsLink) {
  const topo::Graph graph = with(kSlowHost, 2);
  const MachineInputs machine = inputs_of(graph, 0);
  ASSERT_NE(machine.inputs.view, nullptr);
  const plan::Algorithm& pairwise = *plan::find_algorithm(Collective::AllToAll, "pairwise");
  const Traffic traffic = machine.inputs.view->traffic(pairwise, {Collective::AllToAll, 8}, machine.inputs.order);
  EXPECT_NEAR(traffic.busiest, 2 * 6 / kSlow, 1e-9) << "two ranks, six blocks each";
  EXPECT_EQ(traffic.where, "link host2: 25 MB/s, measured by `tutti tune`");
}

TEST(Network, IsTheSameInAFileOfTheJob) {
  for (const MeasuredHosts& hosts : {kSlowHost, kIslands}) {
    const topo::Graph graph = with(hosts), read = topo::graph_of_json(topo::to_json(graph), "job");
    EXPECT_EQ(DecisionTable(inputs_of(graph, 0).inputs).text(), DecisionTable(inputs_of(read, 0).inputs).text());
    EXPECT_EQ(topo::to_json(graph), topo::to_json(read));
    for (size_t i = 0; i < graph.links.size(); ++i) EXPECT_EQ(graph.links[i].most, read.links[i].most);
    for (size_t i = 0; i < graph.figures.size(); ++i) EXPECT_EQ(graph.figures[i].most, read.figures[i].most);
    EXPECT_EQ(inputs_of(graph, 0).notes.links, inputs_of(read, 0).notes.links);
  }
}

TEST(Network, HostsThatAreUnknownOrNotUniqueAreLeftAsTheyAre) {
  topo::Graph two = job();
  for (topo::Node& node : two.nodes) {
    if (node.kind == NodeKind::Host && node.name == "host3") node.name = "host2";
  }
  add_measured_hosts(two, kSlowHost);
  for (const Figure& figure : two.figures) EXPECT_TRUE(figure.a == topo::kNoNode || figure.gbps > 0.09);
  topo::Graph others = job();
  for (topo::Node& node : others.nodes) {
    if (node.kind == NodeKind::Host) node.name += ".elsewhere";
  }
  const std::string before = topo::to_json(others);
  add_measured_hosts(others, kIslands);
  EXPECT_EQ(topo::to_json(others), before);
}

TEST(Network, AHostOfUnknownPartsGetsANic) {
  topo::Graph unknown;
  unknown.add({.kind = NodeKind::Host});
  std::vector<topo::Graph> parts(4, unknown);
  for (size_t i = 0; i < 4; ++i) parts[i].nodes.front().name = kNames[i];
  topo::Graph graph = topo::merge_ranks(parts, std::vector<topo::RankPlace>{{0, {}}, {1, {}}, {2, {}}, {3, {}}});
  graph.figures = job().figures;
  add_measured_hosts(graph, kIslands);
  topo::check(graph);
  EXPECT_EQ(order_of(graph), (std::vector<Rank>{0, 2, 1, 3}));
  EXPECT_NEAR(best(graph, Collective::AllGather).seconds, (8 << 20) / kSlow, 0.02);
}

TEST(MeasuredHosts, AreReadAsTheyWereWritten) {
  Profile profile;
  profile.hosts = kIslands;
  const Profile read = parse_profile(profile.text(), "p");
  EXPECT_EQ(read.text(), profile.text());
  EXPECT_EQ(read.hosts.pairs.size(), 6u);
}

TEST(MeasuredHosts, NewerFiguresReplaceThoseOfTheSameHosts) {
  MeasuredHosts hosts = kIslands;
  MeasuredHosts newer;
  newer.transport = "tcp";
  newer.links = {{"host0", 1e-9}, {"host9", 1e-9}};
  newer.pairs = {{"host0", "host9", 1e-5, 1e-9}};
  hosts.update(newer);
  EXPECT_EQ(hosts.pairs.size(), 7u);
  EXPECT_EQ(hosts.islands.size(), 1u) << "host0's island is no longer certain";
  hosts.update(kSlowHost);
  EXPECT_EQ(hosts.pairs.size(), 7u);
  EXPECT_TRUE(hosts.islands.empty());
  newer.transport = "verbs";
  hosts.update(newer);
  EXPECT_EQ(hosts.pairs.size(), 1u) << "of another transport";
}

/// The ranks of two hosts share what joins them, whatever it is.
TEST(Network, FlowsOfTheSameTwoHostsAddUp) {
  MeasuredHosts hosts = kEven;
  for (MeasuredPair& pair : hosts.pairs) {
    if (pair.a == "host0" && pair.b == "host1") pair.beta = 1 / kSlow;
  }
  const plan::Algorithm& pairwise = *plan::find_algorithm(Collective::AllToAll, "pairwise");
  for (const uint32_t each : {1U, 2U}) {
    const MachineInputs machine = inputs_of(with(hosts, each), 0);
    ASSERT_NE(machine.inputs.view, nullptr);
    const plan::Shape shape{Collective::AllToAll, static_cast<Rank>(4 * each)};
    const double busiest = machine.inputs.view->traffic(pairwise, shape, machine.inputs.order).busiest;
    EXPECT_NEAR(busiest, each * each / kSlow, 1e-9) << each << " ranks a host";
  }
}

TEST(Network, OfAnotherTransportIsNotUsed) {
  MeasuredHosts other = kSlowHost;
  other.transport = "verbs";
  EXPECT_TRUE(slow_links(with(other)).empty());
  EXPECT_FALSE(slow_links(with(kSlowHost)).empty());
}

/// A job on hosts of one island has no link to others.
TEST(Network, HasNoLinkOfAnIslandThatHoldsTheWholeJob) {
  MeasuredHosts all = kIslands;
  all.islands = {{.hosts = kNames, .beta = 1e-6}, {.hosts = {"elsewhere"}, .beta = 1e-6}};
  const topo::Graph graph = with(all);
  for (const topo::Link& link : graph.links) EXPECT_FALSE(joins_islands(graph, link));
}

/// A profile may come from anywhere.
TEST(MeasuredHosts, ThatNoNetworkCanHaveAreRefused) {
  using nlohmann::json;
  const json good = to_json(kIslands);
  const auto refused = [&](const char* list, const char* field, const json& value) {
    json page = good;
    page[list][0][field] = value;
    const json profile{{"format", "tutti-profile"},
                       {"version", 1},
                       {"links", json::object()},
                       {"measured", json::array()},
                       {"hosts", page}};
    try {
      parse_profile(profile.dump(), "bad.json");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::InvalidArgument);
      return std::string(error.what()).find("bad.json: ") == 0;
    }
    return false;
  };
  for (const json& value :
       {json(0), json(-1), json(1e300), json(1e-300), json(nullptr), json("x"), json(json::array())}) {
    EXPECT_TRUE(refused("pairs", "beta", value)) << value;
    EXPECT_TRUE(refused("links", "beta", value)) << value;
    EXPECT_TRUE(refused("islands", "beta", value)) << value;
  }
  EXPECT_TRUE(refused("pairs", "alpha", -1));
  EXPECT_TRUE(refused("pairs", "a", good["pairs"][0]["b"])) << "paired with itself";
  EXPECT_TRUE(refused("pairs", "a", ""));
  EXPECT_TRUE(refused("links", "host", std::string(256, 'x')));
  EXPECT_TRUE(refused("islands", "hosts", json::array({"host1"}))) << "in two islands";
  EXPECT_TRUE(refused("islands", "hosts", json(std::vector<std::string>(2000, "x"))));
  EXPECT_TRUE(refused("islands", "hosts", 7));
}

}  // namespace
}  // namespace tutti::select
