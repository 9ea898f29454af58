#include "synth/folding.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "base/format.hpp"
#include "support/topologies.hpp"
#include "synth/machines.hpp"
#include "topo/cluster.hpp"
#include "topo/folding.hpp"

namespace tutti::synth {
namespace {

constexpr int kFolds = topo::kFirstFoldedSm;

/// Buffers that must cross, and over how many GB/s; "?": a lower bound.
std::string text_of(const Network& network, const Bound& bound) {
  return fmt::format("{} over {:g}{}", bound.cut.must.blocks,
                     static_cast<double>(bound.cut.must.capacity) * network.unit / 1e9, bound.exact ? "" : "?");
}
std::string folding(const Network& network) { return text_of(network, folding_bound_of(network)); }
std::string by_ranks(const Network& network) { return text_of(network, bound_of(network, Collective::AllReduce)); }

/// The drawing's NVSwitches fold for all GPUs of this compute capability.
Network folds(const Drawing& drawing, int sm = kFolds) {
  topo::Graph graph = drawing.graph();
  for (const topo::NodeId gpu : drawing.ranks()) graph.nodes[gpu].sm = sm;
  return network_of(graph, drawing.ranks());
}

TEST(Folding, ASwitchFoldsForGpusOfComputeCapability9) {
  EXPECT_EQ(folds(one_switch(4, 100)).folding, std::vector<Vertex>{4});
  EXPECT_TRUE(folds(one_switch(4, 100), kFolds - 1).folding.empty());
  EXPECT_EQ(folds(two_islands()).folding.size(), 2U);
  EXPECT_TRUE(folds(pcie_tree()).folding.empty()) << "PCIe switches do not";
  topo::Graph graph = one_switch(4, 100).graph();
  std::vector<topo::NodeId> gpus = graph.all(topo::NodeKind::Gpu);
  for (const topo::NodeId gpu : gpus) graph.nodes[gpu].sm = gpu == gpus.back() ? kFolds - 10 : kFolds;
  EXPECT_TRUE(network_of(graph, gpus).folding.empty()) << "not for all";
  gpus.pop_back();
  EXPECT_EQ(network_of(graph, gpus).folding.size(), 1U) << "for all that are ranks";
}

// By hand. A GPU's link takes the buffer once each way, where ranks alone that fold send 2 · 3/4 of it.
TEST(Folding, OfASwitch) {
  EXPECT_EQ(folding(folds(one_switch(4, 100))), "1 over 100");
  EXPECT_EQ(by_ranks(folds(one_switch(4, 100))), "6 over 400");
  EXPECT_EQ(folding(folds(one_switch(2, 100))), "1 over 100");
  EXPECT_EQ(by_ranks(folds(one_switch(2, 100))), "2 over 200") << "of two ranks it is the same";
}
/// One link is slow: the buffer crosses that.
TEST(Folding, OfASwitchWithASlowLink) {
  Drawing drawing;
  const auto gpus = drawing.gpus(4);
  const auto middle = drawing.node(topo::NodeKind::NvSwitch);
  for (const topo::NodeId gpu : gpus) drawing.join(gpu, middle, gpu == gpus[2] ? 40 : 100);
  EXPECT_EQ(folding(folds(drawing)), "1 over 40");
}
/// Between the islands the buffer crosses 24 GB/s; with 200 between them, each GPU's 100 bind.
TEST(Folding, OfTwoIslands) {
  EXPECT_EQ(folding(folds(two_islands())), "1 over 24?");
  Drawing wide;
  const auto a = wide.star(4, 100), b = wide.star(4, 100);
  wide.join(a, b, 200);
  EXPECT_EQ(folding(folds(wide)), "1 over 100?");
}
/// A spine folds what leaves folded, so the buffer crosses each link once each way: of a leaf with one GPU, its GPU's;
/// of one with two, 100 GB/s too, up to the spine. Ranks alone that fold take more: of 4 single ranks, 6 over 400.
TEST(Folding, OfLeavesAndASpine) {
  EXPECT_EQ(folds(leaves_and_spine(4, 1, 100)).folding.size(), 5U) << "the spine folds what its leaves' GPUs have";
  EXPECT_EQ(folding(folds(leaves_and_spine(4, 1, 100))), "1 over 100?");
  EXPECT_EQ(by_ranks(folds(leaves_and_spine(4, 1, 100))), "6 over 400");
  EXPECT_EQ(folding(folds(leaves_and_spine(8, 1, 100))), "1 over 100?") << "of likely splits";
  EXPECT_EQ(folding(folds(leaves_and_spine(2, 2, 100))), "1 over 100?");
  EXPECT_EQ(folding(folds(leaves_and_spine(4, 2, 100))), "1 over 100?") << "of likely splits";
  const Drawing old = leaves_and_spine(2, 2, 100);
  topo::Graph graph = old.graph();
  for (const topo::NodeId gpu : old.ranks()) graph.nodes[gpu].sm = gpu == old.ranks()[3] ? kFolds - 10 : kFolds;
  EXPECT_TRUE(network_of(graph, old.ranks()).folding.empty()) << "not for all";
}
/// Three hosts of two GPUs: each host's switch folds, but the network does not. 4 buffers leave hosts of 10 GB/s each:
/// 2/15, where one cut has 1/10.
TEST(Folding, OfHostsWhoseNetworkDoesNotFold) {
  Drawing drawing;
  const auto fabric = drawing.node(topo::NodeKind::Fabric);
  for (int host = 0; host < 3; ++host) {
    drawing.host();
    const auto middle = drawing.star(2, 100);
    for (int i = 0; i < 2; ++i) {
      const auto nic = drawing.node(topo::NodeKind::Nic), bridge = drawing.node(topo::NodeKind::Bridge);
      drawing.join(bridge, drawing.ranks()[drawing.ranks().size() - 1 - static_cast<size_t>(i)], 50,
                   topo::LinkKind::Pci);
      drawing.join(bridge, nic, 50, topo::LinkKind::Pci);
      drawing.join(nic, fabric, 5, topo::LinkKind::Network);
    }
    (void)middle;
  }
  const Network network = folds(drawing);
  EXPECT_EQ(folding(network), "4 over 30?");
  EXPECT_EQ(text_of(network, folding_bound_of(network, 0)), "4 over 30?") << "without all splits";
}
TEST(Folding, WithoutSwitchesItIsTheBoundOfAllPartitions) {
  EXPECT_EQ(folding(ring(4, 10).network()), "6 over 80?");
  EXPECT_EQ(folding(line({10, 10, 10}).network()), "1 over 10?");
  EXPECT_EQ(folding(one_switch(4, 100).network()), "6 over 400?");
}

/// How many sends it takes at least until all of `parts` know what each of them has, with so many helpers, which need
/// not know it: all states of knowledge, by the number of sends.
int least_sends(int parts, int helpers) {
  const int all = parts + helpers, whole = (1 << parts) - 1;
  const auto know = [&](uint64_t state, int who) { return static_cast<int>(state >> (who * parts)) & whole; };
  uint64_t start = 0;
  for (int part = 0; part < parts; ++part) start |= uint64_t{1} << (part * parts + part);
  std::set<uint64_t> seen = {start}, now = {start};
  for (int sends = 0;; ++sends) {
    std::set<uint64_t> next;
    for (const uint64_t state : now) {
      bool done = true;
      for (int part = 0; part < parts; ++part) done = done && know(state, part) == whole;
      if (done) return sends;
      for (int from = 0; from < all; ++from) {
        for (int to = 0; to < all; ++to) {
          const uint64_t after = state | static_cast<uint64_t>(know(state, from)) << (to * parts);
          if (seen.insert(after).second) next.insert(after);
        }
      }
    }
    now = std::move(next);
  }
}

TEST(Folding, TheLemma) {
  for (int parts = 2; parts <= 4; ++parts) EXPECT_EQ(least_sends(parts, 0), 2 * (parts - 1));
  EXPECT_EQ(least_sends(2, 1), 2) << "a switch in no part saves no sends, ...";
  EXPECT_EQ(least_sends(3, 1), 4) << "... of which those to and from it count";
}
TEST(Folding, OfOneRankIsNothing) {
  const Network network = folds(one_switch(1, 10));
  EXPECT_EQ(folding_bound_of(network).seconds_per_byte(), 0);
  EXPECT_EQ(words_of(network, folding_bound_of(network)), "one rank: nothing is sent");
}
TEST(Folding, RefusesWhatIsNotConnected) {
  Drawing apart;
  apart.star(2, 10);
  apart.star(2, 10);
  EXPECT_THROW(folding_bound_of(folds(apart)), Error);
}

TEST(Folding, IsACertificate) {
  const Network one = folds(one_switch(4, 100));
  EXPECT_EQ(words_of(one, folding_bound_of(one)),
            "{rank 0 | ranks 1-3}: 100 GB/s cross, the buffer must -> >= 10.74 ms/GiB where switches fold");
  EXPECT_EQ(words_of(one, bound_of(one, Collective::AllReduce)),
            "{rank 0 | rank 1 | … | rank 3}: 400 GB/s cross, 6 times the buffer must -> >= 16.11 ms/GiB where ranks "
            "alone fold");
  const Network islands = folds(two_islands());
  EXPECT_EQ(words_of(islands, bound_of(islands, Collective::AllReduce)),
            "{ranks 0-3 | ranks 4-7}: 24 GB/s cross, the buffer must -> >= 44.74 ms/GiB")
      << "whatever folds";
  const Network network = folds(one_switch(3, 100));
  Bound parts = folding_bound_of(network);
  parts.cut = {{4, 400}, {{true, false, false, true}, {false, true, false, false}, {false, false, true, false}}};
  EXPECT_NE(words_of(network, parts).find("{rank 0 and switch | rank 1 | rank 2}: "), std::string::npos)
      << words_of(network, parts);
}

/// By definition, over all splits of ranks and folding switches into parts with a rank, and for each part over all
/// sides with its agents and no others.
Ratio of_all_splits(const Network& network) {
  std::vector<Vertex> agents;
  for (Vertex v = 0; v < network.vertices; ++v) {
    const bool switches = std::count(network.folding.begin(), network.folding.end(), v) > 0;
    if (network.is_rank(v) || switches) agents.push_back(v);
  }
  uint32_t all = 0;
  for (const Vertex v : agents) all |= uint32_t{1} << v;
  const auto least_out = [&](uint32_t part) {
    Capacity least = std::numeric_limits<Capacity>::max();
    for (uint32_t side = 1; side < uint32_t{1} << network.vertices; ++side) {
      if ((side & all) != part) continue;
      Capacity out = 0;
      for (const Arc& arc : network.arcs) {
        out += (side >> arc.from & 1) != 0 && (side >> arc.to & 1) == 0 ? arc.capacity : 0;
      }
      least = std::min(least, out);
    }
    return least;
  };
  std::map<uint32_t, Capacity> known;
  Ratio best{0, 1};
  std::vector<uint32_t> parts;
  const std::function<void(size_t)> visit = [&](size_t agent) {
    if (agent < agents.size()) {
      for (size_t part = 0; part <= parts.size(); ++part) {
        if (part == parts.size()) parts.push_back(0);
        parts[part] |= uint32_t{1} << agents[agent];
        visit(agent + 1);
        parts[part] &= ~(uint32_t{1} << agents[agent]);
        if (parts[part] == 0) {  // it was new
          parts.pop_back();
          break;
        }
      }
      return;
    }
    if (parts.size() < 2) return;
    Capacity out = 0;
    for (const uint32_t part : parts) {
      if ((part & ((uint32_t{1} << static_cast<uint32_t>(network.ranks)) - 1)) == 0) return;  // a switch alone
      const auto [at, is_new] = known.emplace(part, 0);
      if (is_new) at->second = least_out(part);
      out += at->second;
    }
    best = std::max(best, Ratio{2 * (static_cast<int64_t>(parts.size()) - 1), out});
  };
  visit(0);
  return best;
}

/// Some of its switches fold.
Network random_folding(unsigned seed) {
  Network network = random_network(seed);
  for (auto v = static_cast<Vertex>(network.ranks); v < network.vertices; ++v) {
    if ((seed >> (v % 8) & 1) == 0) network.folding.push_back(v);
  }
  return network;
}

/// No rank is on one of them.
TEST(Folding, IsThatOfAllSplitsOfLeavesAndASpine) {
  for (const auto& [leaves, each] : {std::pair(2, 1), std::pair(3, 1), std::pair(4, 1), std::pair(2, 2)}) {
    const Network network = folds(leaves_and_spine(leaves, each, 100));
    const Vertex spine = network.folding.back();
    const bool apart = std::none_of(network.arcs.begin(), network.arcs.end(),
                                    [&](const Arc& arc) { return arc.from == spine && network.is_rank(arc.to); });
    EXPECT_TRUE(apart) << leaves << " leaves";
    EXPECT_EQ(folding_bound_of(network).cut.must, of_all_splits(network)) << leaves << " leaves";
    EXPECT_EQ(folding_bound_of(network, 0).cut.must, of_all_splits(network)) << leaves << " leaves, likely splits";
  }
}

TEST(Folding, IsThatOfAllSplitsOfRandomNetworks) {
  int below = 0, better = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    const Network network = random_folding(seed);
    const Ratio all = of_all_splits(network);
    const Bound bound = folding_bound_of(network);
    EXPECT_EQ(bound.cut.must, all) << seed;
    const Ratio likely = folding_bound_of(network, 0).cut.must;
    EXPECT_FALSE(all < likely) << seed;
    below += likely < all ? 1 : 0;
    Network ranks_alone = network;
    ranks_alone.folding.clear();
    const Ratio alone = folding_bound_of(ranks_alone).cut.must;
    EXPECT_FALSE(alone < all) << seed << ": what ranks alone fold, switches need not";
    better += all < alone ? 1 : 0;
  }
  EXPECT_LT(below, 40) << "of 400 where likely splits miss the tightest";
  EXPECT_GE(better, 10) << "of 400 where switches may save something";
}

/// What crosses the sides of a certificate is what it says.
TEST(Folding, EachSideOfACertificateHoldsAPart) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    const Network network = random_folding(seed);
    for (const size_t all_splits : {size_t{0}, kAllSplits}) {
      const Bound bound = folding_bound_of(network, all_splits);
      if (bound.cut.sides.size() == 1) continue;
      Capacity out = 0;
      for (const Side& side : bound.cut.sides) {
        for (const Arc& arc : network.arcs) out += side[arc.from] && !side[arc.to] ? arc.capacity : 0;
      }
      EXPECT_EQ(out, bound.cut.must.capacity) << seed;
      for (Vertex v = 0; v < network.vertices; ++v) {
        const bool switches = std::count(network.folding.begin(), network.folding.end(), v) > 0;
        if (!network.is_rank(v) && !switches) continue;
        EXPECT_EQ(std::count_if(bound.cut.sides.begin(), bound.cut.sides.end(), [&](const Side& s) { return s[v]; }), 1)
            << seed << ", vertex " << v;
      }
    }
  }
}

/// Published machines: no looser than one GPU's links, no tighter than where ranks alone fold.
TEST(Folding, OfPublishedMachines) {
  const topo::Graph host = test::sample("nccl-8-gpus-8-nics.xml");
  const auto at = [](const topo::Graph& graph) { return network_of(graph, graph.all(topo::NodeKind::Gpu)); };
  EXPECT_EQ(folding(at(host)), "1 over 370.8");
  EXPECT_EQ(by_ranks(at(host)), "14 over 2966.4");
  for (const uint32_t hosts : {2U, 4U}) {
    const Network network = at(topo::cluster(host, hosts));
    EXPECT_EQ(network.folding.size(), hosts);
    EXPECT_FALSE(bound_of(network, Collective::AllReduce).cut.must < folding_bound_of(network).cut.must) << hosts;
  }
}

}  // namespace
}  // namespace tutti::synth
