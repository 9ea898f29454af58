// Memory that can be written, and that cannot.
#include "link/writable_memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "link/mapped_memory.hpp"

namespace tutti::link {
namespace {

TEST(WritableMemory, IsFoundOutWithoutAChange) {
  std::vector<unsigned char> bytes(10000, 0xa5);
  for (const size_t offset : {0, 1, 2, 3, 9}) {
    for (const uint64_t size : {1, 2, 5, 9000}) EXPECT_TRUE(is_writable(bytes.data() + offset, size));
  }
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), 0xa5), 10000);
  EXPECT_TRUE(is_writable(nullptr, 0));
}

TEST(WritableMemory, EndsAtAPageThatIsNot) {
  const uint64_t page = page_bytes();
  void* const memory = ::mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const first = static_cast<unsigned char*>(memory);
  auto* const second = first + page;
  for (const int rights : {PROT_READ, PROT_NONE}) {
    ASSERT_EQ(::mprotect(second, page, rights), 0);
    EXPECT_TRUE(is_writable(first, page));
    EXPECT_FALSE(is_writable(first, page + 1));
    EXPECT_FALSE(is_writable(second, page));
    EXPECT_FALSE(is_writable(second + page - 1, 2));
    EXPECT_TRUE(is_writable(second + page, page));
    EXPECT_TRUE(is_writable(first, 3 * page)) << "only its ends are looked at";
    EXPECT_FALSE(is_writable_throughout(first + 1, 3 * page - 1));
    EXPECT_TRUE(is_writable_throughout(first + 1, page - 1));
    EXPECT_EQ(is_readable_throughout(first + 1, 3 * page - 1), rights == PROT_READ);
    EXPECT_TRUE(is_readable_throughout(first + 1, page - 1));
  }
  ::munmap(second, page);
  EXPECT_FALSE(is_writable(second, 1));
  EXPECT_FALSE(is_readable_throughout(first, page + 1));
  ::munmap(memory, 3 * page);
}

}  // namespace
}  // namespace tutti::link
