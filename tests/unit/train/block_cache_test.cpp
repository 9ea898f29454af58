#include "train/device/block_cache.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

namespace tutti::train {
namespace {

/// Blocks of the heap, counted.
struct Heap {
  std::set<void*> blocks;
  int taken = 0;
  BlockCache::Source source() {
    return {.take =
                [this](size_t bytes, bool) {
                  ++taken;
                  return *blocks.insert(std::malloc(bytes)).first;
                },
            .give_back =
                [this](void* data, bool) {
                  EXPECT_EQ(blocks.erase(data), 1u);
                  std::free(data);
                }};
  }
};

TEST(BlockCache, RoundsToAnEighthOfAPowerOfTwo) {
  EXPECT_EQ(BlockCache::size_class(1), 64u);
  EXPECT_EQ(BlockCache::size_class(65), 128u);
  EXPECT_EQ(BlockCache::size_class(1024), 1024u);
  EXPECT_EQ(BlockCache::size_class(1025), 1152u);
  for (size_t bytes = 1; bytes < 100000; bytes += 37) {
    const size_t size = BlockCache::size_class(bytes);
    EXPECT_GE(size, bytes);
    EXPECT_LE(size, std::max<size_t>(bytes + 63, bytes + bytes / 8)) << bytes;
    EXPECT_EQ(size % 64, 0u);
    EXPECT_EQ(BlockCache::size_class(size), size);
  }
}

TEST(BlockCache, KeepsABlockForTheSameClass) {
  Heap heap;
  {
    BlockCache cache(heap.source());
    void* const block = cache.allocate(1000, false);
    cache.release(block, 1000, false);
    EXPECT_EQ(cache.allocate(1010, false), block);
    void* const shared = cache.allocate(1000, true);
    EXPECT_NE(shared, block) << "shared memory is of another kind";
    cache.release(shared, 1000, true);
    EXPECT_EQ(cache.allocate(1000, true), shared);
    EXPECT_EQ(heap.taken, 2);
    EXPECT_EQ(cache.reserved(), 2 * BlockCache::size_class(1000));
    cache.release(shared, 1000, true);
    cache.release(block, 1010, false);
  }
  EXPECT_TRUE(heap.blocks.empty());
}

TEST(BlockCache, GivesBackTheOldestRatherThanGrow) {
  Heap heap;
  BlockCache cache(heap.source());
  size_t most = 0;
  for (size_t bytes = 1 << 20; bytes < 8 << 20; bytes += 70000) {  // never the same size again
    void* const block = cache.allocate(bytes, false);
    most = std::max(most, bytes);
    EXPECT_LE(cache.reserved(), most / 4 * 5 + 64);
    cache.release(block, bytes, false);
  }
  EXPECT_LE(heap.blocks.size(), 2u);
}

}  // namespace
}  // namespace tutti::train
