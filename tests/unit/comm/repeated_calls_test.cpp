// Recent calls of a communicator: a repeated call is neither checked nor looked up; a different one is.
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <string>
#include <vector>

#include "support/planner_of.hpp"
#include "support/thread_ranks.hpp"
#include "tutti/tutti.h"

namespace tutti::comm {
namespace {

constexpr size_t kMany = 400;  // more calls than are kept, so that every slot is used

tuttiResult_t sum(const float* in, float* out, size_t count, tuttiComm_t comm) {
  return tuttiAllReduce(in, out, count, tuttiFloat32, tuttiSum, comm, nullptr);
}

/// 8 elements at any offset, and room for kMany of them.
struct Room {
  std::vector<float> elements = std::vector<float>(8 * (kMany + 2));
  float* block(size_t i) { return elements.data() + 8 * i; }
};

TEST(RepeatedCalls, AnotherOutputIsChecked) {
  with_ranks(1, [](int, tuttiComm_t comm) {
    Room room;
    float* const in = room.block(0);
    for (size_t i = 1; i <= kMany; ++i) ASSERT_EQ(sum(in, room.block(i), 8, comm), tuttiSuccess);
    for (int i = 1; i < 8; ++i) EXPECT_EQ(sum(in, in + i, 8, comm), tuttiInvalidArgument) << i;
    EXPECT_EQ(sum(in, nullptr, 8, comm), tuttiInvalidArgument);
  });
}

TEST(RepeatedCalls, AnotherInputIsChecked) {
  with_ranks(1, [](int, tuttiComm_t comm) {
    Room room;
    float* const out = room.block(0);
    for (size_t i = 1; i <= kMany; ++i) ASSERT_EQ(sum(room.block(i), out, 8, comm), tuttiSuccess);
    for (int i = 1; i < 8; ++i) EXPECT_EQ(sum(out + i, out, 8, comm), tuttiInvalidArgument) << i;
    EXPECT_EQ(sum(nullptr, out, 8, comm), tuttiInvalidArgument);
  });
}

TEST(RepeatedCalls, AnotherCountIsChecked) {
  with_ranks(1, [](int, tuttiComm_t comm) {
    std::vector<float> elements(3 * kMany);
    float *const in = elements.data(), *const out = in + kMany;
    for (size_t count = 1; count <= kMany; ++count) ASSERT_EQ(sum(in, out, count, comm), tuttiSuccess);
    for (size_t count = kMany + 1; count <= 2 * kMany; ++count) {
      EXPECT_EQ(sum(in, out, count, comm), tuttiInvalidArgument) << count;
    }
  });
}

TEST(RepeatedCalls, AWrongCallLetsTheNextOneRun) {
  with_ranks(1, [](int, tuttiComm_t comm) {
    float in = 3, out = 0;
    EXPECT_EQ(sum(&in, nullptr, 1, comm), tuttiInvalidArgument);
    EXPECT_EQ(sum(&in, &out, 1, comm), tuttiSuccess);
    EXPECT_EQ(out, 3);
  });
}

TEST(RepeatedCalls, AlternatingCallsAreCorrect) {
  with_ranks(2, [](int, tuttiComm_t comm) {
    std::vector<float> in(kMany), out(kMany);
    std::iota(in.begin(), in.end(), 1.0F);
    for (int turn = 0; turn < 2; ++turn) {
      for (size_t count = 1; count <= 64; ++count) {
        std::fill(out.begin(), out.end(), -1.0F);
        ASSERT_EQ(sum(in.data(), out.data(), count, comm), tuttiSuccess);
        for (size_t i = 0; i < kMany; ++i) ASSERT_EQ(out[i], i < count ? 2 * in[i] : -1) << "count " << count;
      }
    }
  });
}

TEST(RepeatedCalls, AnotherTypeOrOperatorIsAnotherCall) {
  with_ranks(2, [](int rank, tuttiComm_t comm) {
    const std::array<int32_t, 2> in = {rank == 0 ? -1 : 3, 5};
    std::array<int32_t, 2> out{};
    const auto reduced = [&](tuttiDataType_t type, tuttiRedOp_t op) {
      EXPECT_EQ(tuttiAllReduce(in.data(), out.data(), 2, type, op, comm, nullptr), tuttiSuccess);
      return out;
    };
    for (int turn = 0; turn < 3; ++turn) {
      EXPECT_EQ(reduced(tuttiInt32, tuttiSum), (std::array<int32_t, 2>{2, 10}));
      EXPECT_EQ(reduced(tuttiInt32, tuttiMax), (std::array<int32_t, 2>{3, 5}));
      EXPECT_EQ(reduced(tuttiUint32, tuttiMax), (std::array<int32_t, 2>{-1, 5}));
    }
  });
}

/// The planner of a communicator of one rank.
struct Alone : PlannerOf {
  Alone() : PlannerOf(1) {}
};

Call call_of(const void* in, void* out, uint64_t count) {
  return {.spec = {.collective = Collective::AllReduce, .type = DType::F32, .count = count}, .in = in, .out = out};
}

TEST(RepeatedCalls, ReallocatedMemoryIsAnotherRegion) {
  Alone alone;
  auto& memory = link::SharedMemory::of_this_process();
  constexpr uint64_t kBytes = 1 << 20;
  void* const first = memory.allocate(kBytes);
  const Call call = call_of(first, first, 8);
  const uint64_t region = alone.planner.collective(call).in_region.id;
  EXPECT_EQ(region, memory.find(first, 1).id);
  memory.release(first);
  void* const second = memory.allocate(kBytes);
  if (second != first) {
    memory.release(second);
    GTEST_SKIP() << "the system gave other addresses";
  }
  const KnownCall& known = alone.planner.collective(call);
  EXPECT_EQ(known.in_region.id, memory.find(second, 1).id);
  EXPECT_EQ(known.out_region.id, memory.find(second, 1).id);
  EXPECT_NE(known.in_region.id, region);
  memory.release(second);
}

TEST(RepeatedCalls, AnEvictedProgramIsNotUsed) {
  Alone alone, probe;
  std::array<float, 2> buffers{};
  const auto call = [&](uint64_t count) { return call_of(&buffers[0], &buffers[1], count); };
  alone.planner.collective(call(1));
  int made = 0;
  for (uint64_t count = 2; made < 1100; ++count) {  // only calls that do not use its slot
    probe.planner.collective(call(1));
    probe.planner.collective(call(count));
    if (!probe.planner.was_checked(call(1))) continue;
    ++made;
    EXPECT_EQ(alone.planner.was_checked(call(1)), made <= 1024) << made;
    alone.planner.collective(call(count));
  }
  EXPECT_EQ(alone.planner.collective(call(1)).spec, call(1).spec);
}

}  // namespace
}  // namespace tutti::comm
