#include "sim/replay.hpp"

#include <gtest/gtest.h>

#include "base/format.hpp"
#include "select/places.hpp"
#include "sim/simulate.hpp"
#include "support/four_hosts.hpp"
#include "tutti/error.hpp"

namespace tutti::sim {
namespace {

/// Four hosts that do the same at the same times, so that messages of all of them end at once.
Simulated on_four_hosts(Collective collective, const char* name, Rank of_each, const WorkCosts& costs, Engine engine) {
  const topo::Graph graph = select::four_hosts::job(static_cast<uint32_t>(of_each));
  const select::RankNodes placed = select::place_ranks(graph, 0);
  Machine machine(graph, placed.nodes, costs);
  const auto groups = std::make_shared<const plan::Grouping>(placed.hosts);
  Call call{.algorithm = plan::find_algorithm(collective, name), .shape = {collective, 4 * of_each, groups}};
  call.geometry = {.count = 1 << 20, .window = 1 << 16, .element_bytes = 4};
  call.near = {.cma = true, .cooperative = true};
  call.hosts.assign(placed.hosts.begin(), placed.hosts.end());
  return simulate(call, machine, {.engine = engine, .max_generations = 1000});
}

/// They end, on each network, and the hosts' NICs are as busy as they can be.
void expect_busy_nics(Collective collective, std::initializer_list<const char*> names, Rank of_each,
                      const WorkCosts& costs) {
  std::vector<Engine> engines{Engine::Fast, Engine::Fair};
  if (!simgrid_version().empty()) engines.push_back(Engine::SimGrid);
  for (const char* const name : names) {
    for (const Engine engine : engines) {
      SCOPED_TRACE(fmt::format("{}, network {}", name, static_cast<int>(engine)));
      Simulated all;
      EXPECT_NO_THROW(all = on_four_hosts(collective, name, of_each, costs, engine));
      EXPECT_NE(all.busiest.name.find("NIC"), std::string::npos) << all.busiest.name;
      EXPECT_GT(all.busiest.share, 0.85);
      EXPECT_LE(all.busiest.share, 1 + 1e-9);
    }
  }
}

// What ranks load from memory ends together on all hosts, and then they send. Networks use numbers of messages again.
TEST(Replay, MessagesThatStartWhenOthersEndAreNotTakenForThem) {
  expect_busy_nics(Collective::AllGather, {"one_shot", "ring"}, 1,
                   {.software = 1e-7, .copy = 1e-10, .write = 1e-10, .memory_load = 1, .memory_store = 2});
}

TEST(Replay, RanksReadInTheirHostAndThenSendToOthers) {
  expect_busy_nics(Collective::AllReduce, {"ring", "two_shot", "rabenseifner", "hierarchical"}, 2,
                   {.software = 1e-7, .copy = 1e-10, .write = 1e-10});
}

TEST(Replay, ADeadlockIsNamed) {
  Programs programs;
  WindowWork waits{.lanes = {{0, 1}}, .ops = {Work{}}, .arrivals = {0}, .outs = {}};
  waits.ops[0].arrivals = {0, 1};
  programs.ranks = {RankWork{.full = {}, .last = waits, .fenced = false}};
  programs.channels = {{0, 0}};
  Machine machine(1, 1, {.copy = 1e-10});
  const auto network = equal_shares(machine.resources());
  try {
    replay(programs, machine, *network, {});
    FAIL() << "it ended";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("rank 0 waits in lane 0"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tutti::sim
