// Tests with a cache folder of their own, in which plans are kept.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/format.hpp"
#include "select/machine.hpp"
#include "select/plan_maker.hpp"
#include "select/synthesised.hpp"
#include "support/scoped_env.hpp"
#include "support/topologies.hpp"
#include "topo/cluster.hpp"

namespace tutti::select {

class CacheFolder : public testing::Test {
 protected:
  /// Files with plans.
  std::vector<std::string> kept() const {
    std::vector<std::string> names;
    std::error_code none;
    for (const auto& file : std::filesystem::directory_iterator(folder + "/tutti", none)) {
      if (file.path().filename().string().starts_with("synth-")) names.push_back(file.path());
    }
    return names;
  }
  /// Plans to be kept there, of a machine with as many GPUs as the sample has on these hosts.
  WantedPlans wanted(Rank hosts = 1) const {
    topo::Graph graph = test::sample("nccl-pcie-2-sockets.xml");
    if (hosts > 1) graph = topo::cluster(graph, hosts);
    WantedPlans plans{.graph = graph, .inputs = inputs_of(graph, 0).inputs, .folder = folder + "/tutti"};
    plans.graph.ranks = graph.all(topo::NodeKind::Gpu);
    plans.key = synthesis_key(graph, nodes_of_plans(graph, plans.graph.ranks, plans.inputs.order));
    plans.proofs = plans.seconds = 1000;
    return plans;
  }
  void SetUp() override { std::filesystem::create_directories(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }

  static constexpr Rank kSlow = 16;  ///< hosts: 64 GPUs take seconds
  const std::string folder = fmt::format("{}synth-cache-{}", testing::TempDir(), getpid());
  const test::ScopedEnv cache{"XDG_CACHE_HOME", folder};
  const test::ScopedEnv profile{"TUTTI_PROFILE", "off"};
};

}  // namespace tutti::select
