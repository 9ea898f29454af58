// The cache of registrations: it finds what is registered, and forgets what is unmapped.
#include "transports/verbs/memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <vector>

#include "transports/verbs/mapping_watch.hpp"
#include "verbs/fake_nic.hpp"

namespace tutti::test {
namespace {

using transports::MemoryUse;
using transports::verbs::MappingWatch;
using transports::verbs::Memory;

constexpr uint64_t kBytes = 1 << 20, kPage = 4096;

unsigned char* map(void* at = nullptr, uint64_t bytes = kBytes) {
  const int fixed = at == nullptr ? 0 : MAP_FIXED_NOREPLACE;
  void* const memory = ::mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<unsigned char*>(memory);
}

struct RegistrationCache : testing::Test {
  void SetUp() override {
    fake_nic_rules() = {};
    at = map();
    ASSERT_NE(at, nullptr);
    if (!MappingWatch::of_this_process().watch(reinterpret_cast<uint64_t>(at), reinterpret_cast<uint64_t>(at) + kPage))
      GTEST_SKIP() << "this system has no userfaultfd for this user";
  }
  void TearDown() override {
    fake_nic_rules() = {};
    ::munmap(at, kBytes);
  }
  std::unique_ptr<transports::verbs::Nic> nic = make_fake_nic();
  Memory memory{*nic, nullptr, 0};
  unsigned char* at = nullptr;
};

TEST_F(RegistrationCache, FindsWhatIsRegisteredInWholePages) {
  const auto first = memory.find(at + 100, 100000);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->address, reinterpret_cast<uint64_t>(at));
  EXPECT_EQ(first->bytes % kPage, 0u);
  EXPECT_EQ(memory.find(at, 100000), first);
  EXPECT_EQ(memory.find(at + 50000, 40000), first);
  EXPECT_NE(memory.find(at + 50000, 100000), first);
  EXPECT_EQ(memory.find(at, 100), nullptr) << "a short message is copied";
}

TEST_F(RegistrationCache, ForgetsMemoryThatIsFreedAndAllocatedAgainAtTheSameAddress) {
  for (int round = 0; round < 200; ++round) {
    const auto before = memory.find(at, kBytes);
    ASSERT_NE(before, nullptr);
    ASSERT_EQ(memory.find(at, kBytes), before);
    ::munmap(at, kBytes);
    ASSERT_EQ(map(at), at);
    ASSERT_NE(memory.find(at, kBytes), before) << "the device would send the old pages, in round " << round;
  }
}

TEST_F(RegistrationCache, ForgetsMemoryThatIsDiscardedMovedOrPartlyUnmapped) {
  auto before = memory.find(at, kBytes);
  ::madvise(at + kBytes / 2, kPage, MADV_DONTNEED);
  EXPECT_NE(memory.find(at, kBytes), before);
  before = memory.find(at, kBytes);
  unsigned char* const away = map(nullptr);
  ASSERT_EQ(::mremap(at, kBytes, kBytes, MREMAP_MAYMOVE | MREMAP_FIXED, away), away);
  ASSERT_EQ(map(at), at);
  EXPECT_NE(memory.find(at, kBytes), before);
  before = memory.find(at, kBytes);
  ::munmap(at + kBytes - kPage, kPage);
  ASSERT_EQ(map(at + kBytes - kPage, kPage), at + kBytes - kPage);
  EXPECT_NE(memory.find(at, kBytes), before);
  ::munmap(away, kBytes);
}

TEST_F(RegistrationCache, KeepsARegionThatIsInUseAndNoMoreThanItsShare) {
  const uint32_t before = fake_regions();
  const auto held = memory.find(at, kBytes);
  ::munmap(at, kBytes);
  ASSERT_EQ(map(at), at);
  (void)memory.find(at, kBytes);
  EXPECT_EQ(fake_regions(), before + 2) << "the first is still in use";
  for (uint64_t i = 0; i < 3 * Memory::kMaxCached; ++i) {
    (void)memory.find(at + i % 200 * kPage, Memory::kRegisterFrom + i * 64);
  }
  EXPECT_LE(fake_regions(), before + 2 + Memory::kMaxCached);
}

TEST_F(RegistrationCache, CopiesWhenTheDeviceIsFull) {
  fake_nic_rules().max_regions = fake_regions() + 1;
  EXPECT_NE(memory.find(at, 100000), nullptr);
  EXPECT_NE(memory.find(at + 500000, 100000), nullptr) << "the first one makes room";
  fake_nic_rules().max_regions = 0;
  EXPECT_EQ(memory.find(at + 200000, 100000), nullptr);
}

TEST_F(RegistrationCache, FindsWhatACallerHasRegisteredUntilItIsReleased) {
  std::vector<unsigned char> mine(1000);
  EXPECT_EQ(memory.find(mine.data(), 1000), nullptr);
  auto held = memory.acquire(mine.data(), 1000, MemoryUse::Read);
  EXPECT_EQ(memory.find(mine.data() + 10, 500), held);
  held.reset();
  EXPECT_EQ(memory.find(mine.data() + 10, 500), nullptr);
}

TEST_F(RegistrationCache, MemoryThatThePeerMayWriteToIsRegisteredForThat) {
  using transports::verbs::RegionUse;
  const auto sends = memory.find(at, 100000);
  const auto takes = memory.find(at, 100000, RegionUse::Data);
  ASSERT_NE(takes, nullptr);
  EXPECT_NE(takes, sends);
  EXPECT_EQ(takes->use, RegionUse::Data);
  EXPECT_EQ(memory.find(at, 100000), takes) << "it serves both ways";
  ::munmap(at, kBytes);
  ASSERT_EQ(map(at), at);
  EXPECT_NE(memory.find(at, 100000, RegionUse::Data), takes);
  std::vector<unsigned char> mine(1000);
  const auto held = memory.acquire(mine.data(), 1000, MemoryUse::Read);
  EXPECT_EQ(memory.find(mine.data(), 1000, RegionUse::Data), nullptr);
}

}  // namespace
}  // namespace tutti::test
