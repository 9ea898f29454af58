// Memory that other processes of the host can map.
#include "link/mapped_memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "tutti/error.hpp"

namespace tutti::link {
namespace {

constexpr uint64_t kHugePage = uint64_t{2} << 20;

struct MappedMemory : testing::Test {
  SharedMemory memory;  // separate from the process's own
  unsigned char* allocate(uint64_t bytes) { return static_cast<unsigned char*>(memory.allocate(bytes)); }
  uint64_t id_at(const void* data, uint64_t bytes) const { return memory.find(data, bytes).id; }
};

TEST_F(MappedMemory, IsZeroedAlignedAndFoundByWhatLiesInIt) {
  constexpr uint64_t kBytes = 3 * 4096;
  unsigned char* const data = allocate(kBytes - 1000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % kHugePage, 0u);
  EXPECT_EQ(std::count(data, data + kBytes, 0), static_cast<ptrdiff_t>(kBytes));
  const SharedRegion region = memory.find(data + 500, 500);
  EXPECT_NE(region.id, 0u);
  EXPECT_EQ(region.base, data);
  EXPECT_EQ(id_at(data, kBytes), region.id);
  EXPECT_EQ(id_at(data, kBytes + 1), 0u);
  EXPECT_EQ(id_at(data + 1, ~uint64_t{0}), 0u);
  EXPECT_EQ(id_at(data - 1, 1), 0u);
  EXPECT_EQ(id_at(nullptr, 0), 0u);
  int elsewhere = 0;
  EXPECT_EQ(id_at(&elsewhere, sizeof elsewhere), 0u);
  memory.release(data);
  EXPECT_EQ(id_at(data, 1), 0u);
}

TEST_F(MappedMemory, IsTheSameMemoryForPeers) {
  unsigned char* const data = allocate(3 * kHugePage);
  data[kHugePage] = 42;
  const SharedMemory::Exported given = memory.export_region(memory.find(data, 1).id);
  ASSERT_TRUE(given.fd);
  EXPECT_EQ(given.bytes, 3 * kHugePage);
  auto* const theirs =
      static_cast<unsigned char*>(mmap(nullptr, given.bytes, PROT_READ, MAP_SHARED, given.fd.get(), 0));
  ASSERT_NE(theirs, MAP_FAILED);
  EXPECT_EQ(theirs[kHugePage], 42);
  data[kHugePage] = 43;
  EXPECT_EQ(theirs[kHugePage], 43);
  memory.release(data);
  EXPECT_EQ(theirs[kHugePage], 0) << "the pages stay allocated while a peer has them mapped";
  munmap(theirs, given.bytes);
  EXPECT_FALSE(memory.export_region(0).fd);
  EXPECT_FALSE(memory.export_region(12345).fd);
}

TEST_F(MappedMemory, DistinguishesRegionsAtTheSameAddress) {
  const uint64_t before = memory.generation();
  unsigned char* const first = allocate(8192);
  const uint64_t id = id_at(first, 1), after = memory.generation();
  EXPECT_NE(after, before);
  memory.release(first);
  EXPECT_NE(memory.generation(), after);
  unsigned char* const second = allocate(8192);  // probably at the first one's address
  EXPECT_NE(id_at(second, 1), id);
  EXPECT_EQ(memory.export_region(id).bytes, 0u);
  memory.release(second);
}

TEST_F(MappedMemory, SaysWhichPagesHoldNothingButABuffer) {
  unsigned char* const data = allocate(10 * 4096 + 100);
  const auto expect_pages = [&](uint64_t offset, uint64_t bytes, uint64_t from, uint64_t up_to) {
    const SharedRegion region = memory.find(data + offset, bytes);
    EXPECT_EQ(region.pages - data, static_cast<ptrdiff_t>(from));
    EXPECT_EQ(region.pages_end - data, static_cast<ptrdiff_t>(up_to));
  };
  expect_pages(0, 8192, 0, 8192);
  expect_pages(1, 8192, 4096, 8192);
  expect_pages(4096, 8191, 4096, 8192);
  expect_pages(0, 10 * 4096 + 99, 0, 10 * 4096);
  expect_pages(0, 10 * 4096 + 100, 0, 11 * 4096);  // the rest of the last page is unused
  memory.release(data);
}

TEST_F(MappedMemory, RenewsPagesThatPeersStoreTo) {
  constexpr uint64_t kPage = 4096, kPages = 3 * 512;  // huge pages, should there be any, are split
  unsigned char* const data = allocate(kPages * kPage);
  std::memset(data, 1, kPages * kPage);
  const uint64_t id = id_at(data, 1), before = memory.generation();
  const SharedMemory::Exported given = memory.export_region(id);
  auto* const theirs =
      static_cast<unsigned char*>(mmap(nullptr, given.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, given.fd.get(), 0));
  ASSERT_NE(theirs, MAP_FAILED);
  ASSERT_TRUE(memory.renew(data + 5 * kPage, data + 700 * kPage));
  EXPECT_NE(memory.generation(), before);
  std::memset(theirs + 4 * kPage, 2, 697 * kPage);
  EXPECT_EQ(std::count(data, data + 4 * kPage, 1), static_cast<ptrdiff_t>(4 * kPage));
  EXPECT_EQ(std::count(data + 4 * kPage, data + 5 * kPage, 2), static_cast<ptrdiff_t>(kPage));
  EXPECT_EQ(std::count(data + 5 * kPage, data + 700 * kPage, 0), static_cast<ptrdiff_t>(695 * kPage));
  EXPECT_EQ(data[700 * kPage], 2);
  EXPECT_EQ(data[701 * kPage], 1);
  EXPECT_EQ(id_at(data, 5 * kPage), id) << "neighbouring pages stay mapped";
  EXPECT_EQ(id_at(data + 700 * kPage, kPage), id);
  EXPECT_EQ(id_at(data, 5 * kPage + 1), 0u);
  EXPECT_EQ(id_at(data + 699 * kPage, 1), 0u);
  EXPECT_EQ(id_at(data, kPages * kPage), 0u);
  memory.release(data);
  munmap(theirs, given.bytes);
}

TEST_F(MappedMemory, RenewsNoPagesButItsOwn) {
  unsigned char* const data = allocate(4 * 4096);
  unsigned char* const little = allocate(100);
  EXPECT_FALSE(memory.renew(data, data + 5 * 4096));
  EXPECT_FALSE(memory.renew(data + 1, data + 4097));
  EXPECT_FALSE(memory.renew(little, little + 4096)) << "peers cannot map it";
  EXPECT_FALSE(memory.renew(nullptr, nullptr));
  memory.release(data);
  memory.release(little);
}

TEST_F(MappedMemory, LeavesAParentsMemoryAloneInAForkedChild) {
  unsigned char* const data = allocate(8192);
  data[5000] = 42;
  const pid_t child = fork();
  if (child == 0) {
    memory.release(data);
    _exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(data[5000], 42);
  EXPECT_NE(id_at(data, 8192), 0u);
  memory.release(data);
}

TEST_F(MappedMemory, IsOrdinaryMemoryForSmallBlocks) {
  unsigned char* const data = allocate(100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % kHugePage, 0u);
  EXPECT_EQ(std::count(data, data + 4096, 0), 4096);
  EXPECT_EQ(id_at(data, 100), 0u);
  memory.release(data);
  EXPECT_THROW(memory.release(data), Error);
}

TEST_F(MappedMemory, RefusesImpossibleSizesAndUnknownAddresses) {
  EXPECT_THROW(memory.allocate(~uint64_t{0}), Error);
  EXPECT_THROW(memory.allocate(uint64_t{1} << 60), Error);
  int mine = 0;
  EXPECT_THROW(memory.release(&mine), Error);
  unsigned char* const data = allocate(0);
  EXPECT_THROW(memory.release(data + 1), Error);
  memory.release(data);
  EXPECT_THROW(memory.release(data), Error);
}

}  // namespace
}  // namespace tutti::link
