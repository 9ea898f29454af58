// Windows and buffers whose memory is not what it should be.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "tutti/tutti.h"
#include "windows/job.hpp"

namespace tutti {
namespace {

constexpr size_t kBytes = 64 << 10;

/// Pages of this process.
struct Pages {
  explicit Pages(int rights, size_t size = kBytes)
      : bytes(size), memory(static_cast<uint64_t*>(mmap(nullptr, bytes, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~Pages() { munmap(memory, bytes); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  /// Those from byte `at` on.
  void protect(size_t at, size_t size, int rights) const {
    EXPECT_EQ(mprotect(reinterpret_cast<char*>(memory) + at, size, rights), 0);
  }
  const size_t bytes;
  uint64_t* const memory;
};

constexpr size_t kLarge = 4 << 20;   // more than a socket takes at once
constexpr size_t kLate = 3 << 20;    // the offset of a page in it
constexpr size_t kPages = 64 << 10;  // bytes of whole pages, whatever their size
constexpr int kBoth = PROT_READ | PROT_WRITE;

void expect_refused(tuttiResult_t expected, tuttiResult_t result, const std::string& words) {
  EXPECT_EQ(result, expected) << tuttiGetLastError();
  EXPECT_NE(std::string(tuttiGetLastError()).find(words), std::string::npos) << tuttiGetLastError();
}

TEST(Windows, RefuseMemoryThatIsNoneOrCannotBeWrittenOnAllRanks) {
  each_rank([](const Member& me) {
    // Not pages that were unmapped: other threads may map theirs there.
    auto* const nowhere = reinterpret_cast<uint64_t*>(size_t{4096});
    for (const int rights : {PROT_READ, PROT_NONE, -1}) {
      const Pages good(PROT_READ | PROT_WRITE), guarded(rights < 0 ? PROT_NONE : rights);
      uint64_t* const bad = rights < 0 ? nowhere : guarded.memory;
      tuttiWindow_t window = nullptr;
      const tuttiResult_t result = tuttiWindowRegister(me.comm, me.rank == 1 ? bad : good.memory, kBytes, &window);
      expect_refused(tuttiInvalidArgument, result,
                     rights < 0 ? "window_register(): rank 1 cannot take part: the 65536 bytes at 0x"
                                : "window_register(): rank 1 cannot take part: its process may not write to the 65536");
      EXPECT_EQ(window, nullptr);
    }
    Words words(me, 1, Memory::Ordinary);  // nothing is lost
    OK(tuttiWindowBarrier(words.window, nullptr));
  });
}

/// (A device goes on with the pages that it had registered.)
TEST(WindowsOfProcesses, RefuseAPartWhoseMemoryIsProtected) {
  each_rank([](const Member& me) {
    const Pages part(PROT_READ | PROT_WRITE), mine(PROT_READ | PROT_WRITE);
    mine.memory[0] = 5;
    tuttiWindow_t window = nullptr;
    OK(tuttiWindowRegister(me.comm, part.memory, kBytes, &window));
    if (me.rank == 0) mprotect(part.memory, kBytes, PROT_READ);
    OK(tuttiBarrier(me.comm, nullptr));
    if (me.rank == 1) {
      const std::string words = "rank 0 has freed its part of the window of call ";
      tuttiResult_t put = tuttiPut(mine.memory, kBytes, 0, 0, window, nullptr);
      if (put == tuttiSuccess) put = tuttiFlush(0, window, nullptr);  // a request has no answer before
      expect_refused(tuttiInvalidUsage, put, words);
      expect_refused(tuttiInvalidUsage, tuttiAtomicAdd(1, nullptr, 0, 8, window, nullptr), words);
      uint64_t before = 7;
      expect_refused(tuttiInvalidUsage, tuttiAtomicCompareSwap(0, 1, &before, 0, 8, window, nullptr), words);
      OK(tuttiGet(&before, 8, 0, 8, window, nullptr));
      EXPECT_EQ(before, 0u) << "what may be read is read";
    }
    OK(tuttiBarrier(me.comm, nullptr));
    if (me.rank == 0) mprotect(part.memory, kBytes, PROT_READ | PROT_WRITE);
    OK(tuttiBarrier(me.comm, nullptr));
    if (me.rank == 1) {
      OK(tuttiPut(mine.memory, kBytes, 0, 0, window, nullptr));
      OK(tuttiAtomicAdd(1, nullptr, 0, 0, window, nullptr));
    }
    OK(tuttiWindowBarrier(window, nullptr));
    EXPECT_EQ(part.memory[0], me.rank == 0 ? 6u : 0u);
    OK(tuttiWindowDeregister(window));
  });
}

/// By requests a get finds out before its first byte, or in the middle.
TEST(WindowsOfProcesses, RefuseToGetFromAPartThatMayNotBeRead) {
  each_rank([](const Member& me) {
    const Pages part(kBoth, kLarge), mine(kBoth, kLarge);
    std::fill_n(part.memory, kLarge / 8, 7);
    tuttiWindow_t window = nullptr;
    OK(tuttiWindowRegister(me.comm, part.memory, kLarge, &window));
    for (const size_t at : {size_t{0}, kLate}) {
      if (me.rank == 0) part.protect(at, kPages, PROT_NONE);
      OK(tuttiBarrier(me.comm, nullptr));
      if (me.rank == 1) {
        const std::string words = "rank 0 has freed its part of the window of call ";
        expect_refused(tuttiInvalidUsage, tuttiGet(mine.memory, kLarge, 0, 0, window, nullptr), words);
        expect_refused(tuttiInvalidUsage, tuttiGet(mine.memory, 8, 0, at, window, nullptr), words);
        OK(tuttiGet(mine.memory, kPages, 0, kPages, window, nullptr));
        EXPECT_EQ(mine.memory[kPages / 8 - 1], 7u) << "what may be read is read";
      }
      OK(tuttiBarrier(me.comm, nullptr));
      if (me.rank == 0) part.protect(at, kPages, kBoth);
      OK(tuttiBarrier(me.comm, nullptr));
    }
    if (me.rank == 1) {
      OK(tuttiGet(mine.memory, kLarge, 0, 0, window, nullptr));
      EXPECT_EQ(mine.memory[kLarge / 8 - 1], 7u);
    }
    OK(tuttiWindowDeregister(window));
  });
}

/// (Loads and stores, and RDMA, are this thread's own accesses to its buffer.)
TEST(WindowsOfProcesses, RefuseABufferThatMayNotBeReadOrWritten) {
  each_rank([](const Member& me) {
    Words words(me, kLarge / 8, Memory::Ordinary, 5);
    const Pages buffer(kBoth, kLarge);
    std::fill_n(buffer.memory, kLarge / 8, 6);
    for (const size_t at : {size_t{0}, kLate}) {
      buffer.protect(at, kPages, PROT_NONE);
      expect_refused(tuttiInvalidArgument, tuttiPut(buffer.memory, kLarge, me.next(), 0, words.window, nullptr),
                     "this process may not read all of the 4194304 bytes at 0x");
      for (const int rights : {PROT_NONE, PROT_READ}) {
        buffer.protect(at, kPages, rights);
        expect_refused(tuttiInvalidArgument, tuttiGet(buffer.memory, kLarge, me.next(), 0, words.window, nullptr),
                       "this process may not write to all of the 4194304 bytes at 0x");
      }
      buffer.protect(at, kPages, kBoth);
      OK(tuttiWindowBarrier(words.window, nullptr));
      for (const size_t i : {size_t{0}, kLate / 8, kLarge / 8 - 1}) {
        EXPECT_TRUE(words.data[i] == 5 || (words.data[i] == 6 && i * 8 < at) || (words.data[i] == 0 && at > 0)) << i;
      }
      OK(tuttiWindowBarrier(words.window, nullptr));
    }
    std::fill_n(buffer.memory, kLarge / 8, 8);
    OK(tuttiPut(buffer.memory, kLarge, me.next(), 0, words.window, nullptr));
    OK(tuttiWindowBarrier(words.window, nullptr));
    EXPECT_EQ(words.data[kLarge / 8 - 1], 8u);
  });
}

/// (Loads and stores, and RDMA, are this thread's own accesses to its buffer.)
TEST(WindowsOfProcesses, RefuseABufferThatIsNoMemory) {
  each_rank([](const Member& me) {
    Words words(me, kBytes / 8, Memory::Ordinary, 5);
    constexpr uintptr_t kNever = 4096;  // Linux maps nothing so low; memory freed here might be another thread's by now
    auto* const gone = reinterpret_cast<void*>(kNever);
    constexpr size_t kGone = 32 << 10;
    const char* const text = " are not in this process's memory";
    expect_refused(tuttiInvalidArgument, tuttiPut(gone, kGone, me.next(), 0, words.window, nullptr), text);
    expect_refused(tuttiInvalidArgument, tuttiGet(gone, kGone, me.next(), 0, words.window, nullptr), text);
    OK(tuttiWindowBarrier(words.window, nullptr));
    EXPECT_EQ(words.data[0], 5u);
    uint64_t word = 0;
    OK(tuttiGet(&word, 8, me.next(), 8, words.window, nullptr));
    EXPECT_EQ(word, 5u);
  });
}

}  // namespace
}  // namespace tutti
