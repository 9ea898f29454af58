// Copies of a few bytes, of every length.
#include "reduce/copy_small.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <numeric>
#include <vector>

#include "reduce/fold.hpp"
#include "topo/constants.hpp"

namespace tutti {
namespace {

constexpr unsigned char kPoison = 0xA5;

/// Different at each index, and never the poison.
std::vector<unsigned char> source_of(size_t bytes) {
  std::vector<unsigned char> data(bytes);
  std::iota(data.begin(), data.end(), 1);
  return data;
}

void expect_copied(const std::vector<unsigned char>& room, const std::vector<unsigned char>& source) {
  for (size_t i = 0; i < room.size(); ++i) {
    ASSERT_EQ(room[i], i < source.size() ? source[i] : kPoison) << "byte " << i << " of " << source.size();
  }
}

TEST(CopySmall, EveryLengthAndNoByteMore) {
  for (size_t bytes = 0; bytes <= MachineConstants::small_copy; ++bytes) {
    const auto source = source_of(bytes);  // of exactly this size, so that a sanitizer reports reads beyond
    std::vector<unsigned char> room(MachineConstants::small_copy + 8, kPoison);
    copy_small(room.data(), source.data(), bytes);
    expect_copied(room, source);
  }
}

TEST(CopySmall, AWordOfUpToEightBytes) {
  for (size_t bytes = 0; bytes <= 8; ++bytes) {
    const auto source = source_of(bytes);
    uint64_t expected = 0;
    if (bytes != 0) std::memcpy(&expected, source.data(), bytes);
    EXPECT_EQ(load_small(source.data(), bytes), expected) << bytes;
  }
}

TEST(CopySmall, ToOneOrTwoDestinationsOfAnyLength) {
  for (size_t bytes = 0; bytes <= 2 * MachineConstants::small_copy; ++bytes) {
    const auto source = source_of(bytes);
    const auto* const from = reinterpret_cast<const std::byte*>(source.data());
    for (const bool to_first : {false, true}) {
      for (const bool to_second : {false, true}) {
        std::vector<unsigned char> first(bytes + 8, kPoison), second(bytes + 8, kPoison);
        const auto at = [](auto& room, bool wanted) {
          return wanted ? reinterpret_cast<std::byte*>(room.data()) : nullptr;
        };
        if (!to_first && !to_second) continue;
        copy_bytes(at(first, to_first), at(second, to_second), from, bytes, false);
        expect_copied(first, to_first ? source : std::vector<unsigned char>());
        expect_copied(second, to_second ? source : std::vector<unsigned char>());
      }
    }
  }
}

}  // namespace
}  // namespace tutti
