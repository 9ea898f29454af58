// Vector calls, between ranks that are threads of this process.
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "support/thread_ranks.hpp"
#include "tutti/tutti.h"

namespace tutti {
namespace {

/// The block length from rank `from` to rank `to`: zero, short, or longer than a message.
size_t length(int from, int to, int shape) {
  const auto mixed = static_cast<size_t>(from * 7 + to * 5 + shape * 3);
  switch (shape) {
    case 0:
      return mixed % 4;
    case 1:
      return mixed % 3 == 0 ? 0 : mixed * 101 % 3001;
    default:
      return mixed % 5 == 0 ? 70001 : mixed % 5;
  }
}
constexpr int kShapes = 3;

int64_t value(int from, int to, size_t i) { return from * 1'000'003 + to * 5'003 + static_cast<int64_t>(i % 4999); }

struct Blocks {
  std::vector<size_t> counts, offsets;
  size_t total = 0;
  /// `gap` elements separate the blocks.
  Blocks(std::vector<size_t> lengths, size_t gap) : counts(std::move(lengths)) {
    for (const size_t count : counts) {
      offsets.push_back(total);
      total += count + gap;
    }
  }
};

template <class LengthOf>
Blocks blocks(int n, size_t gap, LengthOf length_of) {
  std::vector<size_t> lengths;
  for (int r = 0; r < n; ++r) lengths.push_back(length_of(r));
  return {std::move(lengths), gap};
}

constexpr int64_t kPoison = -77;

/// Expects every element of every block, and untouched gaps between the blocks.
template <class Expected>
void expect_blocks(const std::vector<int64_t>& data, const Blocks& blocks, Expected expected) {
  std::vector<int64_t> wanted(data.size(), kPoison);
  for (size_t r = 0; r < blocks.counts.size(); ++r) {
    for (size_t i = 0; i < blocks.counts[r]; ++i) wanted[blocks.offsets[r] + i] = expected(static_cast<int>(r), i);
  }
  EXPECT_EQ(data, wanted);
}

struct VectorBlocks : testing::TestWithParam<int> {
  static std::vector<int64_t> filled(const Blocks& blocks, int from) {
    std::vector<int64_t> data(blocks.total + 1, kPoison);
    for (size_t r = 0; r < blocks.counts.size(); ++r) {
      for (size_t i = 0; i < blocks.counts[r]; ++i) data[blocks.offsets[r] + i] = value(from, static_cast<int>(r), i);
    }
    return data;
  }
};

TEST_P(VectorBlocks, AllToAllMovesEveryBlock) {
  const int n = GetParam();
  with_ranks(n, [n](int rank, tuttiComm_t comm) {
    for (int shape = 0; shape < kShapes; ++shape) {
      const Blocks in = blocks(n, 2, [&](int to) { return length(rank, to, shape); });
      const Blocks out = blocks(n, 1, [&](int from) { return length(from, rank, shape); });
      const auto data = filled(in, rank);
      std::vector<int64_t> got(out.total + 1, kPoison);
      ASSERT_EQ(tuttiAllToAllV(data.data(), in.counts.data(), in.offsets.data(), got.data(), out.counts.data(),
                               out.offsets.data(), tuttiInt64, comm, nullptr),
                tuttiSuccess)
          << tuttiGetLastError();
      expect_blocks(got, out, [&](int from, size_t i) { return value(from, rank, i); });
    }
  });
}

TEST_P(VectorBlocks, AllGatherGathersInAndOutOfPlace) {
  const int n = GetParam();
  with_ranks(n, [n](int rank, tuttiComm_t comm) {
    for (int shape = 0; shape < kShapes; ++shape) {
      const Blocks out = blocks(n, 3, [&](int from) { return length(from, 0, shape); });
      const auto me = static_cast<size_t>(rank);
      for (const bool in_place : {false, true}) {
        std::vector<int64_t> got(out.total + 1, kPoison), mine;
        for (size_t i = 0; i < out.counts[me]; ++i) mine.push_back(value(rank, 0, i));
        if (in_place) std::copy(mine.begin(), mine.end(), got.begin() + static_cast<ptrdiff_t>(out.offsets[me]));
        ASSERT_EQ(tuttiAllGatherV(in_place ? got.data() + out.offsets[me] : mine.data(), out.counts[me], got.data(),
                                  out.counts.data(), out.offsets.data(), tuttiInt64, comm, nullptr),
                  tuttiSuccess)
            << tuttiGetLastError();
        expect_blocks(got, out, [&](int from, size_t i) { return value(from, 0, i); });
      }
    }
  });
}

TEST_P(VectorBlocks, ReduceScatterFoldsEachRanksBlock) {
  const int n = GetParam();
  with_ranks(n, [n](int rank, tuttiComm_t comm) {
    for (int shape = 0; shape < kShapes; ++shape) {
      const Blocks in = blocks(n, 0, [&](int to) { return length(0, to, shape); });
      const size_t count = in.counts[static_cast<size_t>(rank)], at = in.offsets[static_cast<size_t>(rank)];
      const auto sum = [&](size_t i) {
        int64_t all = 0;
        for (int r = 0; r < n; ++r) all += value(r, rank, i);
        return all;
      };
      for (const bool in_place : {false, true}) {
        auto data = filled(in, rank);
        std::vector<int64_t> got(count + 1, kPoison);
        int64_t* const to = in_place ? data.data() + at : got.data();
        ASSERT_EQ(tuttiReduceScatterV(data.data(), to, in.counts.data(), tuttiInt64, tuttiSum, comm, nullptr),
                  tuttiSuccess)
            << tuttiGetLastError();
        for (size_t i = 0; i < count; ++i) ASSERT_EQ(to[i], sum(i));
        EXPECT_EQ(got[count], kPoison);
      }
    }
  });
}

TEST_P(VectorBlocks, ReductionsAverageAndScale) {
  const int n = GetParam();
  with_ranks(n, [n](int rank, tuttiComm_t comm) {
    const Blocks in = blocks(n, 0, [](int to) { return static_cast<size_t>(to * 1000); });
    const size_t count = in.counts[static_cast<size_t>(rank)];
    std::vector<float> data(in.total + 1, static_cast<float>(rank + 1)), got(count + 1);
    const float scalar = 2;
    tuttiRedOp_t twice;
    ASSERT_EQ(tuttiRedOpCreatePreMulSum(&twice, &scalar, tuttiFloat32, comm), tuttiSuccess);
    ASSERT_EQ(tuttiReduceScatterV(data.data(), got.data(), in.counts.data(), tuttiFloat32, tuttiAvg, comm, nullptr),
              tuttiSuccess);
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(got[i], static_cast<float>(n + 1) / 2);
    ASSERT_EQ(tuttiReduceScatterV(data.data(), got.data(), in.counts.data(), tuttiFloat32, twice, comm, nullptr),
              tuttiSuccess);
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(got[i], static_cast<float>(n * (n + 1)));
  });
}

TEST_P(VectorBlocks, GatherAndScatterServeEveryRoot) {
  const int n = GetParam();
  with_ranks(n, [n](int rank, tuttiComm_t comm) {
    for (int root = 0; root < n; ++root) {
      const Blocks all = blocks(n, 1, [&](int r) { return length(r, root, 2); });
      const size_t count = all.counts[static_cast<size_t>(rank)];
      const bool at_root = rank == root;
      std::vector<int64_t> mine, got(all.total + 1, kPoison);
      for (size_t i = 0; i < count; ++i) mine.push_back(value(root, rank, i));
      ASSERT_EQ(tuttiGatherV(mine.data(), count, at_root ? got.data() : nullptr, at_root ? all.counts.data() : nullptr,
                             all.offsets.data(), tuttiInt64, root, comm, nullptr),
                tuttiSuccess)
          << tuttiGetLastError();
      if (at_root) expect_blocks(got, all, [&](int from, size_t i) { return value(root, from, i); });
      std::vector<int64_t> back(count + 1, kPoison);
      ASSERT_EQ(tuttiScatterV(at_root ? got.data() : nullptr, at_root ? all.counts.data() : nullptr, all.offsets.data(),
                              back.data(), count, tuttiInt64, root, comm, nullptr),
                tuttiSuccess)
          << tuttiGetLastError();
      mine.push_back(kPoison);
      EXPECT_EQ(back, mine);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, VectorBlocks, testing::Values(1, 2, 3, 5, 8));

TEST(VectorCallErrors, AreRefusedBeforeTouchingBuffers) {
  with_ranks(2, [](int rank, tuttiComm_t comm) {
    std::vector<int> data(8, rank), out(8, -1);
    const size_t counts[2] = {2, 2}, over[2] = {0, 1}, huge[2] = {size_t{1} << 62, 1};
    const auto refused = [&](tuttiResult_t result, const std::string& words) {
      EXPECT_EQ(result, tuttiInvalidArgument);
      EXPECT_NE(std::string(tuttiGetLastError()).find(words), std::string::npos) << tuttiGetLastError();
    };
    const auto gather = [&](const void* in, size_t count, const size_t* lengths, const size_t* offsets) {
      return tuttiAllGatherV(in, count, out.data(), lengths, offsets, tuttiInt32, comm, nullptr);
    };
    refused(gather(data.data(), 2, nullptr, nullptr), "recvcounts is null");
    refused(gather(data.data(), 2, counts, over), "the blocks of recvbuff overlap each other");
    refused(gather(data.data(), 2, huge, nullptr), "the block of rank 0 is negative or too large");
    refused(gather(data.data(), 1, counts, nullptr), "it sends itself 1 elements and receives 2");
    refused(gather(nullptr, 2, counts, nullptr), "sendbuff is null");
    refused(gather(out.data() + 1, 2, counts, nullptr), "input and output overlap without being in place");
    refused(tuttiAllToAllV(out.data(), counts, nullptr, out.data(), counts, nullptr, tuttiInt32, comm, nullptr),
            "this call cannot run in place");
    EXPECT_EQ(out, std::vector<int>(8, -1));
  });
}

/// Expects the mismatch on both ranks when rank 1 sends `sent` elements and rank 0 expects `expected`.
void expect_mismatch(size_t sent, size_t expected) {
  tuttiComm_t comms[2];
  ASSERT_EQ(tuttiCommInitAll(comms, 2), tuttiSuccess);
  std::vector<int> data(sent, 1), out(sent + expected + 4, -1);
  const size_t mine[2] = {2, expected}, theirs[2] = {2, sent};
  tuttiResult_t results[2];
  std::string words[2];
  run_ranks(2, [&](int rank) {
    std::vector<int> got(sent + expected + 2, -1);
    const auto note = [&](tuttiResult_t result) {
      if (results[rank] == tuttiSuccess && result != tuttiSuccess) words[rank] = tuttiGetLastError();
      if (results[rank] == tuttiSuccess) results[rank] = result;
    };
    results[rank] = tuttiSuccess;
    note(tuttiAllGatherV(data.data(), rank == 0 ? 2 : sent, got.data(), rank == 0 ? mine : theirs, nullptr, tuttiInt32,
                         comms[rank], nullptr));
    note(tuttiCommDestroy(comms[rank]));
  });
  // The last rank to leave reports it at the latest: one thread may have left before the other has begun.
  const std::string all = words[0] + words[1];
  EXPECT_TRUE(results[0] == tuttiMismatch) << all;
  const auto length = [](size_t count) { return std::to_string(count) + " elements (" + std::to_string(4 * count); };
  EXPECT_NE(all.find("rank 1 sent rank 0 a block of " + length(sent) + " bytes) where rank 0 expected " +
                     length(expected) + " bytes), in all_gather_v(i32) as call 1"),
            std::string::npos)
      << all;
}

TEST(VectorCallErrors, DifferentCountsAreAMismatch) { expect_mismatch(4, 3); }
TEST(VectorCallErrors, CountsDifferingByWholeMessagesAreAMismatch) {
  constexpr size_t kMessage = 6144 / sizeof(int);
  expect_mismatch(2 * kMessage, kMessage);
  expect_mismatch(kMessage, 2 * kMessage);
  expect_mismatch(kMessage, 0);
}

/// The difference is in rank 2's block; ranks 0 and 1 agree on every length between them.
TEST(VectorCallErrors, DifferentCountsOfAReductionAreNamedOnEveryRank) {
  constexpr int kRanks = 3;
  for (const int odd : {0, 1, 2}) {
    SCOPED_TRACE("the odd one is rank " + std::to_string(odd));
    tuttiComm_t comms[kRanks];
    ASSERT_EQ(tuttiCommInitAll(comms, kRanks), tuttiSuccess);
    run_ranks(kRanks, [&](int rank) {
      const size_t counts[kRanks] = {5, 5, rank == odd ? size_t{7} : size_t{6}};
      const std::vector<float> in(17, 1);
      std::vector<float> out(7);
      tuttiResult_t result =
          tuttiReduceScatterV(in.data(), out.data(), counts, tuttiFloat32, tuttiSum, comms[rank], nullptr);
      if (result == tuttiSuccess) result = tuttiBarrier(comms[rank], nullptr);
      const std::string words = tuttiGetLastError();
      EXPECT_EQ(result, tuttiMismatch) << words;
      for (const char* part : {"reduce_scatter_v(f32, sum) with counts[2] = 6",
                               "reduce_scatter_v(f32, sum) with counts[2] = 7", "as call 1"}) {
        EXPECT_NE(words.find(part), std::string::npos) << words;
      }
      EXPECT_EQ(tuttiCommDestroy(comms[rank]), tuttiMismatch);
    });
  }
}

}  // namespace
}  // namespace tutti
