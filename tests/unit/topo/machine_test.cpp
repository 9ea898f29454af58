#include "topo/machine.hpp"

#include <gtest/gtest.h>
#include <hwloc.h>

#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "support/scoped_env.hpp"
#include "tutti/error.hpp"

namespace tutti {
namespace {

using test::ScopedEnv;

Cores range(int first, int last) {
  Cores cores;
  for (int i = first; i <= last; ++i) cores.push_back(i);
  return cores;
}

/// Two sockets of four cores with two hardware threads each; two cores share an L2, four an L3.
constexpr const char* kTwoSockets =
    "package:2 [numa(memory=1073741824)] l3:1(size=33554432) l2:2(size=1048576) l1d:2(size=32768) core:1 pu:2";

void expect_two_sockets(const Machine& machine) {
  EXPECT_EQ(machine.processors, range(0, 15));
  EXPECT_EQ(machine.sockets, (std::vector<Cores>{range(0, 7), range(8, 15)}));
  ASSERT_EQ(machine.cores.size(), 8u);
  EXPECT_EQ(machine.cores[1], range(2, 3));
  ASSERT_EQ(machine.nodes.size(), 2u);
  EXPECT_EQ(machine.nodes[1].bytes, uint64_t{1} << 30);
  EXPECT_EQ(machine.nodes[1].processors, range(8, 15));
  EXPECT_EQ(machine.memory, uint64_t{2} << 30);
  EXPECT_EQ(caches_within(machine, 1, machine.processors).size(), 8u);
  const auto l2 = caches_within(machine, 2, machine.processors), l3 = caches_within(machine, 3, machine.processors);
  ASSERT_EQ(l2.size(), 4u);
  EXPECT_EQ(l2[1].bytes, uint64_t{1} << 20);
  EXPECT_EQ(l2[1].processors, range(4, 7));
  ASSERT_EQ(l3.size(), 2u);
  EXPECT_EQ(l3[1].bytes, uint64_t{32} << 20);
  EXPECT_EQ(l3[1].processors, range(8, 15));
}

TEST(Machine, IsDescribedByASyntheticTopology) {
  const ScopedEnv synthetic("HWLOC_SYNTHETIC", kTwoSockets);
  const Machine machine = read_machine();
  EXPECT_FALSE(machine.is_this_one);
  EXPECT_EQ(machine.model, "");
  expect_two_sockets(machine);
}

/// Writes a synthetic topology as hwloc's XML.
std::string xml_of(const char* synthetic) {
  const std::string path = testing::TempDir() + "/tutti-topology.xml";
  hwloc_topology_t topology = nullptr;
  EXPECT_EQ(hwloc_topology_init(&topology), 0);
  EXPECT_EQ(hwloc_topology_set_synthetic(topology, synthetic), 0);
  EXPECT_EQ(hwloc_topology_load(topology), 0);
  EXPECT_EQ(hwloc_topology_export_xml(topology, path.c_str(), 0), 0);
  hwloc_topology_destroy(topology);
  return path;
}

TEST(Machine, IsDescribedByAnXmlFile) {
  const std::string path = xml_of(kTwoSockets);
  const ScopedEnv xml("HWLOC_XMLFILE", path);
  const Machine machine = read_machine();
  EXPECT_FALSE(machine.is_this_one);
  expect_two_sockets(machine);
  std::filesystem::remove(path);
}

TEST(Machine, MayHideItsCachesAndCores) {
  const ScopedEnv synthetic("HWLOC_SYNTHETIC", "core:3 pu:1");
  const Machine machine = read_machine();
  EXPECT_EQ(machine.cores.size(), 3u);
  EXPECT_TRUE(machine.caches.empty());
  EXPECT_TRUE(machine.sockets.empty());
  EXPECT_EQ(machine.model, "");
}

TEST(Machine, IsRefusedIfItsDescriptionCannotBeRead) {
  for (const auto& [variable, value] : {std::pair("HWLOC_XMLFILE", "/no/such/file.xml"), {"HWLOC_SYNTHETIC", "core"}}) {
    const ScopedEnv given(variable, value);
    try {
      read_machine();
      ADD_FAILURE() << variable;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::InvalidArgument);
      EXPECT_NE(std::string(error.what()).find(std::string(variable) + "=" + value), std::string::npos) << error.what();
    }
  }
}

TEST(Machine, IsKnownHere) {
  const Machine machine = read_machine();
  EXPECT_FALSE(machine.processors.empty());
  EXPECT_FALSE(cores_within(machine, allowed_cores()).empty());
}

TEST(CoresWithin, AreThoseOfTheAffinityMask) {
  const Machine machine{.cores = {{0, 4}, {1, 5}, {2, 6}}};
  EXPECT_EQ(cores_within(machine, {0, 4, 5}), (std::vector<Cores>{{0, 4}, {5}}));
  EXPECT_EQ(cores_within(machine, {6, 9}), (std::vector<Cores>{{6}, {9}}));  // hwloc knows no processor 9
  EXPECT_EQ(cores_within({}, {3}), (std::vector<Cores>{{3}}));
}

TEST(CachesWithin, AreThoseThatServeTheAffinityMask) {
  const Machine machine{.caches = {{1, 32, 64, {0}}, {2, 512, 64, {0, 1}}, {2, 512, 64, {2, 3}}}};
  const auto caches = caches_within(machine, 2, {1, 4});
  ASSERT_EQ(caches.size(), 1u);
  EXPECT_EQ(caches[0].processors, Cores{1});
}

TEST(RanksPerCore, CountsCoresThatAnyMayUse) {
  constexpr double kNoQuota = std::numeric_limits<double>::infinity();
  EXPECT_EQ(ranks_per_core({{0}, {1}}, kNoQuota), 1);
  EXPECT_EQ(ranks_per_core({{0, 1, 2}}, kNoQuota), 1);
  EXPECT_EQ(ranks_per_core({{0, 1}, {0, 1}, {0}, {1}}, kNoQuota), 2);
  EXPECT_EQ(ranks_per_core({{0}, {0}, {1}}, kNoQuota), 1.5);
}

TEST(RanksPerCore, CountsTheQuotaOfTheControlGroup) {
  EXPECT_EQ(ranks_per_core({{0}, {1}, {2}, {3}}, 2), 2);
  EXPECT_EQ(ranks_per_core({{0}, {1}, {2}, {3}}, 1.5), 2);
  EXPECT_EQ(ranks_per_core({{0}, {1}}, 0.25), 2);
  EXPECT_EQ(ranks_per_core({{}, {}}, 8), 2);  // nobody knows of a core
}

bool shares(const Cores& mine, const std::vector<Cores>& all, double quota = std::numeric_limits<double>::infinity()) {
  return shares_cores(mine, all, quota);
}

TEST(SharesCores, NotWhereEachRankHasOne) {
  EXPECT_FALSE(shares({0, 1}, {{0, 1}, {0, 1}}));
  EXPECT_FALSE(shares({0}, {{0}, {1}})) << "each bound to its own";
  EXPECT_FALSE(shares({0, 1}, {{0, 1}, {2, 3}, {4, 5}}));
}

TEST(SharesCores, WhereRanksOutnumberTheirCores) {
  EXPECT_TRUE(shares({0, 1}, {{0, 1}, {0, 1}, {0, 1}}));
  EXPECT_TRUE(shares({0}, {{0}, {0}, {1}, {2}})) << "two on one core, though others are free";
  EXPECT_TRUE(shares({0, 1}, {{0, 1}, {0}, {1}}));
}

TEST(SharesCores, AQuotaCountsAsFewerCores) {
  EXPECT_TRUE(shares({0, 1, 2, 3}, {{0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}}, 1.5));
  EXPECT_FALSE(shares({0, 1, 2, 3}, {{0, 1, 2, 3}, {0, 1, 2, 3}}, 1.5));
}

}  // namespace
}  // namespace tutti
