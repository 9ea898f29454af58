// A descriptor that names a region of its writer's memory: the reader takes no byte outside of what it has mapped.
#include <gtest/gtest.h>

#include "exec/cuda/block.hpp"

namespace tutti::exec::cuda {
namespace {

using link::MappedRegion;

/// The address at which a message would be read; null: it is refused.
const unsigned char* located(const MappedRegion* regions, uint64_t id, uint64_t offset, uint64_t bytes) {
  static const ptx::host::BlockRuntime runtime{.step = [] {}};
  ptx::host::runtime = &runtime;
  const link::InLink in{.mapped = true, .regions = regions};
  link::Arrival arrival{.where = link::Where::Mapped, .id = id, .offset = offset};
  return MappedReads::locate(in, arrival, bytes) == 0 ? arrival.data : nullptr;
}

TEST(Regions, MessagesLieWithinThem) {
  unsigned char memory[256];
  MappedRegion regions[link::kRegions];
  regions[5] = {memory, sizeof memory};
  EXPECT_EQ(located(regions, 5, 0, 256), memory);
  EXPECT_EQ(located(regions, 5, 56, 200), memory + 56);
  EXPECT_EQ(located(regions, 5, 56, 201), nullptr) << "ends behind it";
  EXPECT_EQ(located(regions, 5, 257, 0), nullptr) << "begins behind it";
  EXPECT_EQ(located(regions, 5, ~uint64_t{0}, 1), nullptr) << "the sum overflows";
  EXPECT_EQ(located(regions, 5, 1, ~uint64_t{0}), nullptr) << "the sum overflows";
  EXPECT_EQ(located(regions, 6, 0, 1), nullptr) << "nothing is mapped";
  EXPECT_EQ(located(regions, link::kRegions, 0, 1), nullptr) << "no such region";
  EXPECT_EQ(located(regions, ~uint64_t{0}, 0, 1), nullptr) << "no such region";
  EXPECT_EQ(located(nullptr, 5, 0, 1), nullptr) << "the link has no regions";
}

}  // namespace
}  // namespace tutti::exec::cuda
