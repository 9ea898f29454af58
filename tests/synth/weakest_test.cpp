#include "synth/weakest.hpp"

#include <gtest/gtest.h>

#include "synth/machines.hpp"

namespace tutti::synth {
namespace {

TEST(Weakest, LinkOfARing) {  // without one, it is a line: 3 blocks through one link instead of two
  const Drawing drawing = ring(4, 10);
  const std::vector<Loss> all = losses(drawing.graph(), drawing.ranks(), Collective::AllGather);
  ASSERT_EQ(all.size(), 4U);
  for (const Loss& loss : all) {
    EXPECT_DOUBLE_EQ(loss.times, 2);
    EXPECT_FALSE(loss.apart);
    EXPECT_EQ(loss.gbps, 10);
  }
}

TEST(Weakest, LinkThatDivides) {
  const Drawing drawing = two_islands();
  const std::vector<Loss> all = losses(drawing.graph(), drawing.ranks(), Collective::Broadcast);
  ASSERT_EQ(all.size(), 9U);
  for (const Loss& loss : all) EXPECT_TRUE(loss.apart);
}

TEST(Weakest, OtherPathsTakeOver) {  // two GPUs, NVLink of 100 and PCIe of 20
  Drawing drawing = line({100});
  const auto numa = drawing.node(topo::NodeKind::Numa);
  for (const topo::NodeId gpu : drawing.ranks()) drawing.join(gpu, numa, 20, topo::LinkKind::Pci);
  const std::vector<Loss> all = losses(drawing.graph(), drawing.ranks(), Collective::AllGather);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_DOUBLE_EQ(all.front().times, 5);
}

}  // namespace
}  // namespace tutti::synth
