#include "comm/topology.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/format.hpp"
#include "control/bootstrap/unique_id.hpp"
#include "control/control_thread.hpp"
#include "topo/detect.hpp"
#include "topo/graph_json.hpp"
#include "topo/paths.hpp"

namespace tutti::comm {
namespace {

Deadline soon() { return Deadline::in(30); }

/// Four cores in two complexes of one package.
topo::Graph small_host() {
  topo::Graph graph;
  const topo::NodeId host = graph.add({.kind = topo::NodeKind::Host, .name = "small", .processors = {0, 1, 2, 3}});
  for (int i = 0; i < 2; ++i) {
    const topo::NodeId complex =
        graph.add({.kind = topo::NodeKind::Complex, .parent = host, .processors = {2 * i, 2 * i + 1}});
    for (int core = 2 * i; core < 2 * i + 2; ++core) {
      const topo::NodeId id =
          graph.add({.kind = topo::NodeKind::Core, .parent = complex, .processors = {core}, .number = core});
      graph.connect({.a = id, .b = complex, .kind = topo::LinkKind::Cache, .gbps = 20, .us = 0.01});
    }
  }
  return graph;
}

/// Three thread ranks exchange; returns each one's result as JSON, or the error's text.
std::vector<std::string> exchanged(const std::vector<Cores>& cores, const std::function<const topo::Graph&()>& mine) {
  const control::UniqueId id = control::create_unique_id();
  const auto ranks = static_cast<Rank>(cores.size());
  std::vector<std::string> results(cores.size());
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto endpoint = control::Endpoint::join(id, ranks, rank, "", soon());
      try {
        results[static_cast<size_t>(rank)] = to_json(exchange_topology(*endpoint, cores, mine, soon()));
      } catch (const Error& error) {
        results[static_cast<size_t>(rank)] = error.what();
      }
      endpoint->leave(0, soon());
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

TEST(ExchangeTopology, IsEqualOnAllRanksAndAsksOnceAHost) {
  const topo::Graph host = small_host();
  std::atomic<int> asked = 0;
  const std::vector<Cores> cores{{0}, {2, 3}, {0, 1, 2, 3}};
  const auto results = exchanged(cores, [&]() -> const topo::Graph& {
    ++asked;
    return host;
  });
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(results[1], results[0]);
  EXPECT_EQ(results[2], results[0]);
  const topo::Graph graph = topo::graph_of_json(results[0], "result");
  ASSERT_EQ(graph.ranks.size(), 3u);
  EXPECT_EQ(label(graph, graph.ranks[0]), "core 0");
  EXPECT_EQ(label(graph, graph.ranks[1]), "core complex 2-3");
  EXPECT_EQ(label(graph, graph.ranks[2]), "small");
}

TEST(ExchangeTopology, GoesOnWhereAHostCannotBeDescribed) {
  const std::vector<Cores> cores{{0}, {1}};
  const auto results = exchanged(cores, []() -> const topo::Graph& { throw_error(Code::SystemError, "no hwloc"); });
  const topo::Graph graph = topo::graph_of_json(results[1], "result");
  ASSERT_EQ(graph.notes.size(), 1u);
  EXPECT_EQ(graph.notes[0], "a host's topology is unknown: no hwloc");
  EXPECT_EQ(graph.ranks, (std::vector<topo::NodeId>{0, 0}));
}

TEST(ExchangeTopology, RefusesAnInvalidDescriptionAndNamesTheRank) {
  topo::Graph odd = small_host();
  odd.nodes[2].parent = 9;
  const auto results = exchanged({{0}, {1}}, [&]() -> const topo::Graph& { return odd; });
  EXPECT_EQ(results[1], "rank 0: its topology:5: node 2 (core) comes before the node that it lies in");
}

TEST(ExchangeTopology, OfThisMachinePlacesRanksOnItsCores) {
  const Cores mine = allowed_cores();
  const auto results = exchanged({{mine.front()}, {mine.back()}}, topo::local_topology);
  const topo::Graph graph = topo::graph_of_json(results[0], "result");
  EXPECT_EQ(graph.nodes[graph.ranks[0]].kind, topo::NodeKind::Core);
}

}  // namespace
}  // namespace tutti::comm
