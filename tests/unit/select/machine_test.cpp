#include "select/machine.hpp"
#include "select/decision_table.hpp"
#include "select/links_alone.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>

#include "plan/verify.hpp"
#include "select/explain.hpp"
#include "select/machine_view.hpp"
#include "support/topologies.hpp"
#include "topo/cluster.hpp"
#include "tutti/error.hpp"

namespace tutti::select {
namespace {

/// The samples that are written for the tests, and one beside the repository where that is there.
std::vector<std::string> nodes_of_eight_gpus() {
  std::vector<std::string> paths{test::topology_path("nccl-8-gpus-8-nics.xml")};
  for (const char* beside : {"/../shared/topologies/", "/../../shared/topologies/"}) {
    const std::string path = std::string(TUTTI_SOURCE_DIR) + beside + "hgx-8xH200.xml";
    if (std::ifstream(path).good()) paths.push_back(path);
  }
  return paths;
}

MachineInputs cluster_of(const std::string& path, uint32_t hosts) {
  return inputs_of(topo::cluster(topo::import_file(path), hosts), 0);
}

const plan::Algorithm& chosen(Collective collective, uint64_t bytes, const CostInputs& inputs) {
  return *DecisionTable(inputs).row(collective, bytes, {}).algorithm;
}

/// Ranks of each group that send to another group.
std::map<Rank, std::set<Rank>> senders_between(const plan::Algorithm& algorithm, const CostInputs& inputs) {
  std::map<Rank, std::set<Rank>> senders;
  const plan::Grouping& groups = *inputs.groups;
  const auto plans = plan::generate_all(algorithm, {algorithm.collective, inputs.ranks, inputs.groups});
  for (const plan::LinkCount& link : plan::count(plans).links) {
    if (groups.group_of(link.from) != groups.group_of(link.to)) senders[groups.group_of(link.from)].insert(link.from);
  }
  return senders;
}

TEST(Machine, FourNodesOfEightGpusAreSeenAsTheyAre) {
  for (const std::string& path : nodes_of_eight_gpus()) {
    const auto [inputs, notes] = cluster_of(path, 4);
    EXPECT_EQ(inputs.ranks, 32);
    EXPECT_EQ(inputs.groups->groups(), 4);
    EXPECT_EQ(notes.rails, 8u) << path;
    EXPECT_EQ(notes.sharing, 1) << path;
    EXPECT_NEAR(1e-9 / inputs.inside.beta, 371, 15) << path;
    EXPECT_NEAR(1e-9 / inputs.between.beta, 47, 1.5) << path;
    EXPECT_GT(inputs.between.alpha, inputs.inside.alpha);
  }
}

TEST(Machine, OnFourNodesOfEightGpusAFewBytesGoInFewRounds) {
  for (const std::string& path : nodes_of_eight_gpus()) {
    const CostInputs inputs = cluster_of(path, 4).inputs;
    const plan::Algorithm& algorithm = chosen(Collective::AllReduce, 8, inputs);
    const plan::Cost cost = algorithm.cost({Collective::AllReduce, inputs.ranks, inputs.groups});
    EXPECT_LE(cost.rounds, 10) << algorithm.name << ": about twice log2 32 at most";
    EXPECT_LE(cost.stages, 10) << algorithm.name << ": not a message to everyone";
  }
}

TEST(Machine, OnFourNodesOfEightGpusAGibibyteUsesAllNics) {
  for (const std::string& path : nodes_of_eight_gpus()) {
    const CostInputs inputs = cluster_of(path, 4).inputs;
    const plan::Algorithm& algorithm = chosen(Collective::AllReduce, 1 << 30, inputs);
    const auto senders = senders_between(algorithm, inputs);
    ASSERT_EQ(senders.size(), 4u) << algorithm.name;
    for (const auto& [group, ranks] : senders) EXPECT_EQ(ranks.size(), 8u) << algorithm.name << ", host " << group;
    // 2(G−1)/G of the buffer leaves a host, in eight equal parts.
    const plan::Cost cost = algorithm.cost({Collective::AllReduce, inputs.ranks, inputs.groups});
    ASSERT_TRUE(cost.between) << algorithm.name;
    EXPECT_NEAR(cost.between->moved.value(), 2 * 0.75 / 8, 0.01) << algorithm.name;
  }
}

/// Of the hierarchical all-reduce, on four hosts (counted in its plans) and on 20 (by the closed form).
TEST(Machine, LinksOfGpusInsideAHostAndBetweenHostsWorkAtTheSameTime) {
  for (const Rank hosts : {4, 20}) {
    const CostInputs inputs = cluster_of(nodes_of_eight_gpus().front(), hosts).inputs;
    const auto links_and_parts = [&](uint64_t bytes) {
      for (const Candidate& candidate : candidates(Collective::AllReduce, bytes, inputs)) {
        if (std::string_view(candidate.row.algorithm->name) != "hierarchical" || !candidate.rejected.empty()) continue;
        const plan::Cost cost = candidate.row.algorithm->cost({Collective::AllReduce, inputs.ranks, inputs.groups});
        const double size = static_cast<double>(bytes), far = cost.between->moved.value();
        return std::array{links_alone(candidate, bytes, inputs).value_or(0),
                          size * (cost.sent.value() - far) * inputs.inside.beta, size * far * inputs.between.beta};
      }
      return std::array{0.0, 0.0, 0.0};
    };
    const auto [long_call, inside, between] = links_and_parts(uint64_t{14} << 30);
    EXPECT_NEAR(long_call / std::max(inside, between), 1, 0.03) << hosts << " hosts: the slower ones hide the others";
    const auto [short_call, first, second] = links_and_parts(1 << 20);
    EXPECT_GE(short_call, first + second) << hosts << " hosts: a single window goes through one after the other";
  }
}

TEST(Machine, RanksOfAHostShareItsOnlyNic) {
  const topo::Graph host = test::sample("nccl-pcie-2-sockets.xml");
  const auto [inputs, notes] = inputs_of(topo::cluster(host, 2), 0);
  ASSERT_EQ(notes.rails, 1u);
  EXPECT_EQ(notes.sharing, inputs.groups->largest());
  const topo::Graph two = topo::cluster(host, 2);
  const CostInputs alone = inputs_of(two, 2).inputs;
  EXPECT_NEAR(inputs.between.beta / alone.inside.beta, notes.sharing, 0.01) << "one rank a host has all of it";
}

TEST(Machine, TooFewRanksAndUnconnectedHostsAreRefused) {
  const topo::Graph host = test::sample("nccl-nvlink-pairs.xml");
  EXPECT_THROW(inputs_of(topo::cluster(host, 4), 3), Error);
  EXPECT_THROW(inputs_of(topo::Graph(), 2), Error);
}

TEST(Explain, EveryCandidateHasAVerdict) {
  const CostInputs inputs = inputs_here(8, 1).inputs;
  const auto all = candidates(Collective::AllReduce, 1 << 20, inputs);
  const std::string text = explanation(all, 1 << 20, inputs);
  for (const Candidate& candidate : all) {
    EXPECT_NE(text.find(candidate.row.algorithm->name), std::string::npos);
    EXPECT_DOUBLE_EQ(candidate.seconds, candidate.predicted.seconds());
  }
  EXPECT_EQ(verdict(all.front(), all.front()), "chosen");
  EXPECT_EQ(verdict(all.back(), all.front()).rfind("rejected: ", 0), 0u);
  Candidate other = all[1];
  other.seconds = 1.0004 * all.front().seconds;
  EXPECT_EQ(verdict(other, all.front()), "hardly longer");
  other.seconds = 1.5 * all.front().seconds;
  EXPECT_EQ(verdict(other, all.front()), "1.5 times as long");
}

TEST(MachineView, LooksAtRootsOfAllParts) {
  for (Rank ranks = 1; ranks <= 70; ++ranks) {
    const std::vector<Rank> roots = likely_roots(ranks);
    ASSERT_EQ(roots.size(), static_cast<size_t>(std::min(ranks, 8)));
    EXPECT_EQ(roots.front(), 0);
    for (size_t i = 0; i < roots.size(); ++i) {  // one of each eighth
      EXPECT_GE(roots[i], static_cast<Rank>(i) * ranks / static_cast<Rank>(roots.size())) << ranks;
      EXPECT_LT(roots[i], (static_cast<Rank>(i) + 1) * ranks / static_cast<Rank>(roots.size())) << ranks;
    }
  }
}

}  // namespace
}  // namespace tutti::select
