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

/// Thread ranks of these places; returns rank 0's topology as JSON, or the error's text.
std::string made(const std::vector<PlaceReport>& places, const std::function<const topo::Graph&()>& mine) {
  const control::UniqueId id = control::create_unique_id();
  const auto ranks = static_cast<Rank>(places.size());
  std::string result;
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto endpoint = control::Endpoint::join(id, ranks, rank, "", soon());
      try {
        const topo::Graph graph = job_topology(*endpoint, places, mine, soon());
        if (rank == 0) result = to_json(graph);
      } catch (const Error& error) {
        if (rank == 0) result = error.what();
      }
      endpoint->leave(0, soon());
    });
  }
  for (std::thread& thread : threads) thread.join();
  return result;
}

TEST(JobTopology, IsMadeByRank0WhichAsksOnlyItselfWhereHostsAreAlike) {
  const topo::Graph host = small_host();
  std::atomic<int> asked = 0;
  const std::string text =
      made({{{0}, 5, "n7"}, {{2, 3}, 5, "n7"}, {{0, 1, 2, 3}, 5, "n7"}}, [&]() -> const topo::Graph& {
        ++asked;
        return host;
      });
  EXPECT_EQ(asked, 1);
  const topo::Graph graph = topo::graph_of_json(text, "result");
  ASSERT_EQ(graph.ranks.size(), 3u);
  EXPECT_EQ(label(graph, graph.ranks[0]), "core 0");
  EXPECT_EQ(label(graph, graph.ranks[1]), "core complex 2-3");
  EXPECT_EQ(label(graph, graph.ranks[2]), "n7");
  EXPECT_EQ(graph.processes, (std::vector<uint32_t>{0, 0, 0})) << "threads of one process";
}

TEST(JobTopology, HasAHostOfUnknownPartsWhereItCannotBeDescribed) {
  const auto fails = []() -> const topo::Graph& { throw_error(Code::SystemError, "no hwloc"); };
  const topo::Graph known = topo::graph_of_json(made({{{0}, 5, "n7"}, {{1}, 5, "n7"}}, fails), "result");
  ASSERT_EQ(known.notes.size(), 1u);
  EXPECT_EQ(known.notes[0], "a host's topology is unknown: no hwloc");
  EXPECT_EQ(known.ranks, (std::vector<topo::NodeId>{0, 0}));
  const topo::Graph unknown = topo::graph_of_json(made({{{0}, 0, "n7"}, {{1}, 0, "n7"}}, fails), "result");
  EXPECT_EQ(unknown.ranks, (std::vector<topo::NodeId>{0, 0}));
}

TEST(JobTopology, OfThisMachinePlacesRanksOnItsCores) {
  const Cores mine = allowed_cores();
  const uint64_t kind = kind_of_this_host();
  const topo::Graph graph = topo::graph_of_json(
      made({{{mine.front()}, kind, "here"}, {{mine.back()}, kind, "here"}}, topo::kept_topology), "result");
  EXPECT_EQ(graph.nodes[graph.ranks[0]].kind, topo::NodeKind::Core);
}

}  // namespace
}  // namespace tutti::comm
