// Plans that were kept before `tutti tune --hosts` measured the network anew.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/format.hpp"
#include "base/private_file.hpp"
#include "select/machine.hpp"
#include "select/synthesis.hpp"
#include "select/synthesised.hpp"
#include "support/scoped_env.hpp"
#include "support/topologies.hpp"
#include "topo/cluster.hpp"

namespace tutti::select {
namespace {

/// Else what is kept would be lost whenever `tutti tune --hosts` measures a network anew.
TEST(OtherRates, TheUpperHalfOfAKeyIsOfTheMachinesAlone) {
  using topo::Figure;
  const auto upper = [](const topo::Graph& graph) {
    return synthesis_key(graph, graph.all(topo::NodeKind::Gpu)) >> 32;
  };
  const topo::Graph alone = topo::cluster(test::sample("nccl-pcie-2-sockets.xml"), 2);
  topo::Graph graph = alone;
  const std::vector<topo::NodeId> hosts = graph.all(topo::NodeKind::Host);
  graph.figures.push_back({.between = Figure::Between::Hosts, .a = hosts[0], .b = hosts[1], .us = 9, .gbps = 3});
  EXPECT_EQ(upper(graph), upper(alone));
  for (topo::Link& link : graph.links) {
    if (link.kind == topo::LinkKind::Network) link.gbps *= 3, link.measured = true;
  }
  EXPECT_EQ(upper(graph), upper(alone));
  const topo::NodeId island = graph.add({.kind = topo::NodeKind::Fabric});
  graph.links.back().b = island;
  EXPECT_EQ(upper(graph), upper(alone));
  graph.links.front().gbps *= 2;
  EXPECT_NE(upper(graph), upper(alone)) << "another machine";
}

TEST(OtherRates, AKeyIsOfAllThatIsKnown) {
  using topo::NodeKind;
  topo::Graph graph = topo::cluster(test::sample("nccl-8-gpus-8-nics.xml"), 2);
  const std::vector<topo::NodeId> gpus = graph.all(NodeKind::Gpu);
  std::set<uint64_t> keys = {synthesis_key(graph, gpus)};
  const auto expect_another = [&](const char* what) {
    EXPECT_TRUE(keys.insert(synthesis_key(graph, gpus)).second) << what;
  };
  graph.nodes[gpus.front()].model = "another";
  expect_another("a node");
  for (topo::Link& link : graph.links) link.us += link.kind == topo::LinkKind::NvLink ? 1 : 0;
  expect_another("links of a host");
  for (topo::Link& link : graph.links) link.gbps *= link.kind == topo::LinkKind::Network ? 2 : 1;
  expect_another("links of the network");
  graph.add({.kind = NodeKind::Nic, .parent = graph.nodes[gpus.front()].parent, .port = 1, .assumed = true});
  expect_another("an unknown NIC");
  graph.add({.kind = NodeKind::Fabric});
  expect_another("an island");
}

TEST(OtherRates, PlansAreCandidatesWithoutBounds) {
  const std::string folder = fmt::format("{}synth-rates-{}", testing::TempDir(), getpid());
  const test::ScopedEnv cache("XDG_CACHE_HOME", folder);
  const topo::Graph graph = test::sample("nccl-pcie-2-sockets.xml");
  const test::ScopedEnv level("TUTTI_LOG", "info");
  topo::Graph before = topo::cluster(graph, 2), now = before;
  const std::vector<topo::NodeId> hosts = now.all(topo::NodeKind::Host), gpus = place_ranks(now, 0).nodes;
  for (auto [machine, gbps] : {std::pair(&before, 3.0), std::pair(&now, 4.0)}) {
    machine->figures.push_back(
        {.between = topo::Figure::Between::Hosts, .a = hosts[0], .b = hosts[1], .us = 9, .gbps = gbps});
  }
  const auto make = [&](const topo::Graph& machine) {
    SynthesisedText made = synthesise_for(
        machine, gpus, inputs_of(machine, 0).inputs, [](const std::string&) {}, Collective::Broadcast);
    write_private(synthesised_path(made.key), to_text(made));
    return made.key;
  };
  make(before);
  testing::internal::CaptureStderr();
  const auto others = kept_synthesised(now, gpus, {});
  kept_synthesised(now, gpus, {});
  const std::string said = testing::internal::GetCapturedStderr();
  ASSERT_NE(others, nullptr);
  EXPECT_FALSE(others->is_of_now);
  EXPECT_TRUE(others->bounds.empty());
  EXPECT_NE(others->find(Collective::Broadcast, "synth"), nullptr);
  const size_t first = said.find("made for other rates of the network");
  EXPECT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find("made for other rates", first + 1), std::string::npos) << "once: " << said;
  EXPECT_EQ(kept_synthesised(graph, place_ranks(graph, 0).nodes, {}), nullptr) << "another machine";
  make(now);
  const auto own = kept_synthesised(now, gpus, {});
  ASSERT_NE(own, nullptr);
  EXPECT_TRUE(own->is_of_now);
  EXPECT_FALSE(own->bounds.empty());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tutti::select
