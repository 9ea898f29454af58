#include "tutti/train/mesh.hpp"

#include <gtest/gtest.h>

#include <mutex>

#include "train/world.hpp"

namespace tutti::train {
namespace {

TEST(Mesh, SaysWhatDivides) {
  EXPECT_EQ(objection({.dp = 2, .tp = 2}, 4), "");
  EXPECT_EQ(objection({.dp = 2, .tp = 2}, 8),
            "the mesh dp 2 x pp 1 x cp 1 x ep 1 x tp 2 has 4 ranks, but there are 8: with dp 4 it fits");
  EXPECT_EQ(
      objection({.pp = 3}, 8),
      "the mesh dp 1 x pp 3 x cp 1 x ep 1 x tp 1 has 3 ranks, but there are 8: pp x cp x ep x tp is 3, which does "
      "not divide 8; what does: 1, 2, 4, 8");
  EXPECT_EQ(objection({.tp = 0}, 1), "tp is 0: each axis of the mesh has at least 1 rank");
}

TEST(Mesh, ThrowsOnEveryRank) {
  std::mutex mutex;
  int thrown = 0;
  run_world(2, [&](Communicator& world) {
    Counters counters;
    try {
      const Mesh mesh(world, {.tp = 3}, counters);
    } catch (const Error& error) {
      const std::lock_guard lock(mutex);
      thrown += error.code() == Code::InvalidArgument ? 1 : 0;
    }
  });
  EXPECT_EQ(thrown, 2);
}

/// The ranks of an axis, as its members see it.
std::vector<int> members(Collectives& axis, int rank) {
  if (axis.absent()) return {rank};
  std::vector<int> all(static_cast<size_t>(axis.size()));
  axis.communicator().all_gather(rank, all);
  return all;
}

TEST(Mesh, TensorIsInnermostAndDataOutermost) {
  run_world(8, [](Communicator& world) {
    Counters counters;
    Mesh mesh(world, {.dp = 2, .pp = 2, .tp = 2}, counters);
    const int rank = world.rank(), tp = rank % 2, pp = rank / 2 % 2, dp = rank / 4;
    EXPECT_EQ(members(mesh.tp(), rank), (std::vector{rank - tp, rank - tp + 1}));
    EXPECT_EQ(members(mesh.pp(), rank), (std::vector{rank - 2 * pp, rank - 2 * pp + 2}));
    EXPECT_EQ(members(mesh.dp(), rank), (std::vector{rank - 4 * dp, rank - 4 * dp + 4}));
    EXPECT_TRUE(mesh.cp().absent());
    EXPECT_EQ(mesh.warning(), "");
  });
}

TEST(Mesh, DenseParametersAreReplicatedOverDataContextAndExpertRanks) {
  run_world(8, [](Communicator& world) {
    Counters counters;
    Mesh mesh(world, {.dp = 2, .cp = 2, .ep = 2}, counters);
    const int ep = world.rank() / 2 % 2;
    EXPECT_EQ(members(mesh.replicas(), world.rank()), (std::vector{0, 1, 2, 3, 4, 5, 6, 7}));
    EXPECT_EQ(members(mesh.expert_replicas(), world.rank()), (std::vector{2 * ep, 2 * ep + 1, 2 * ep + 4, 2 * ep + 5}));
    EXPECT_EQ(mesh.data_ways(), 4);
    EXPECT_EQ(mesh.data_index(), mesh.at().dp * 2 + ep);
  });
}

}  // namespace
}  // namespace tutti::train
