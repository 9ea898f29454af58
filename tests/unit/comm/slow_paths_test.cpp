#include "comm/slow_paths.hpp"

#include <gtest/gtest.h>

namespace tutti::comm {
namespace {

/// Says exactly one thing, with these words.
void expect_one(const PathFacts& facts, const std::vector<const char*>& words) {
  const auto all = slow_paths(facts);
  ASSERT_EQ(all.size(), 1u);
  for (const char* word : words) EXPECT_NE(all.front().find(word), std::string::npos) << all.front();
}

TEST(SlowPaths, AreNotFoundWhereNothingIsSlow) {
  EXPECT_TRUE(slow_paths({}).empty());
  PathFacts facts{.ranks = {{"h1", "a", "b1"}, {"h1", "a", "b1"}, {"h2", "b", "b2"}}};
  facts.between = "tcp";
  facts.processes_meet = true;
  facts.ports = {{.name = "eth0", .rdma = false}, {.name = "mlx5_1", .rdma = true, .active = false}};
  EXPECT_TRUE(slow_paths(facts).empty());
}

TEST(SlowPaths, ContainersOfOneKernelWithoutSharedMemory) {
  PathFacts facts{.ranks = {{"h1", "left", "b"}, {"h2", "right", "b"}}};
  EXPECT_TRUE(slow_paths(facts).empty()) << "another transport than TCP";
  facts.between = "tcp";
  expect_one(facts, {"ranks on left and right", "--ipc host"});
  facts.ranks = {{"h1", "node", "b"}, {"h1", "node", "b"}, {"h2", "node", "b"}};
  expect_one(facts, {"ranks 0 and 2, both on node, run on one kernel"});
}

TEST(SlowPaths, ForbiddenCmaWithItsCause) {
  PathFacts facts;
  facts.cma_works = false;
  EXPECT_TRUE(slow_paths(facts).empty()) << "no two processes of a host";
  facts.processes_meet = true;
  expect_one(facts, {"one launcher", "TUTTI_CMA=off"});
  facts.ptrace_scope = 2;
  expect_one(facts, {"ptrace_scope is 2 or more", "sysctl"});
  facts.cma_on_itself = false;
  expect_one(facts, {"seccomp", "SYS_PTRACE"});
  facts.cma_wanted = false;
  EXPECT_TRUE(slow_paths(facts).empty()) << "the user's own choice";
}

TEST(SlowPaths, TcpBesideAnAdapter) {
  PathFacts facts;
  facts.ports = {{.name = "mlx5_0", .rdma = true}};
  EXPECT_TRUE(slow_paths(facts).empty()) << "one host";
  facts.between = "tcp";
  facts.why_no_better = "verbs: libibverbs.so.1 cannot be loaded";
  expect_one(facts, {"mlx5_0 is there", "libibverbs.so.1 cannot be loaded", "tutti info"});
}

TEST(SlowPaths, MoreRanksThanCores) {
  PathFacts facts;
  EXPECT_EQ(shared_cores(facts), "");
  facts.ranks_per_core = 2.5;
  EXPECT_TRUE(slow_paths(facts).empty()) << "often meant so: no warning";
  EXPECT_NE(shared_cores(facts).find("2.5 ranks share a core"), std::string::npos);
  EXPECT_NE(shared_cores(facts).find("fewer ranks"), std::string::npos);
}

}  // namespace
}  // namespace tutti::comm
