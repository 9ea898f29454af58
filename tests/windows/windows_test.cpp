// One-sided calls, in a job: this program is one rank of those that a launcher has started, or four threads of its own.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tutti/tutti.h"
#include "windows/job.hpp"

namespace tutti {
namespace {

uint64_t value_of(int rank, uint64_t round, size_t i) {
  return (static_cast<uint64_t>(rank) << 48) + (round << 32) + i;
}

std::vector<uint64_t> values(int rank, uint64_t round, size_t count) {
  std::vector<uint64_t> all(count);
  for (size_t i = 0; i < count; ++i) all[i] = value_of(rank, round, i);
  return all;
}

/// Each rank puts into the next one's part, again and again: what a signal announces is there.
void put_and_signal(const Member& me, Memory memory, size_t count, uint64_t rounds) {
  Words words(me, count + 1, memory);
  for (uint64_t round = 1; round <= rounds; ++round) {
    const auto mine = values(me.rank, round, count);
    OK(tuttiPutSignal(mine.data(), count * sizeof(uint64_t), me.next(), sizeof(uint64_t), 1, words.window, nullptr));
    OK(tuttiWaitSignal(me.previous(), 1, 1, words.window, nullptr));
    const std::vector<uint64_t> got(words.data + 1, words.data + 1 + count);
    ASSERT_EQ(got, values(me.previous(), round, count)) << "round " << round;
    OK(tuttiSignal(me.previous(), 2, words.window, nullptr));  // it may put again
    OK(tuttiWaitSignal(me.next(), 2, 1, words.window, nullptr));
  }
  EXPECT_EQ(words.data[0], 0u) << "nobody has put anything there";
}

TEST(Windows, WhatASignalAnnouncesIsThere) {
  each_rank([](const Member& me) {
    put_and_signal(me, Memory::Mapped, 5, 200);
    put_and_signal(me, Memory::Ordinary, 5, 200);
    put_and_signal(me, Memory::Mapped, 300'000, 3);
    put_and_signal(me, Memory::Ordinary, 300'000, 3);
  });
}

TEST(Windows, GetsWhatWasPutByAnother) {
  each_rank([](const Member& me) {
    for (const Memory memory : {Memory::Mapped, Memory::Ordinary}) {
      Words words(me, 1000, memory);
      const auto mine = values(me.rank, 7, 1000);
      OK(tuttiPut(mine.data(), 8000, me.next(), 0, words.window, nullptr));
      OK(tuttiWindowBarrier(words.window, nullptr));
      std::vector<uint64_t> got(999);
      OK(tuttiGet(got.data(), 999 * 8, me.previous(), 8, words.window, nullptr));
      auto expected = values((me.previous() + me.ranks - 1) % me.ranks, 7, 1000);
      expected.erase(expected.begin());
      EXPECT_EQ(got, expected);
      OK(tuttiWindowBarrier(words.window, nullptr));
    }
  });
}

TEST(Windows, AtomicStepsOfAllRanksAddUp) {
  each_rank([](const Member& me) {
    constexpr uint64_t kRounds = 500;
    for (const Memory memory : {Memory::Mapped, Memory::Ordinary}) {
      Words words(me, 2, memory);
      std::vector<uint64_t> before;
      for (uint64_t i = 0; i < kRounds; ++i) {
        uint64_t was = 0;
        OK(tuttiAtomicAdd(1, &was, 0, 0, words.window, nullptr));
        before.push_back(was);
        for (uint64_t seen = 0;;) {  // another counter, by comparing
          const uint64_t expected = seen;
          OK(tuttiAtomicCompareSwap(expected, expected + 2, &seen, 0, 8, words.window, nullptr));
          if (seen == expected) break;
        }
      }
      EXPECT_TRUE(std::is_sorted(before.begin(), before.end()));
      OK(tuttiWindowBarrier(words.window, nullptr));
      if (me.rank != 0) continue;
      EXPECT_EQ(words.data[0], kRounds * static_cast<uint64_t>(me.ranks));
      EXPECT_EQ(words.data[1], 2 * kRounds * static_cast<uint64_t>(me.ranks));
    }
  });
}

/// On each kind of memory.
void each_memory(const std::function<void(const Member&, Memory)>& body) {
  each_rank([&](const Member& me) {
    for (const Memory memory : {Memory::Mapped, Memory::Ordinary}) body(me, memory);
  });
}

TEST(Windows, CallsOfAGroupMayWaitForEachOther) {
  each_memory([](const Member& me, Memory memory) {
    Words words(me, 1, memory);
    const auto mine = static_cast<uint64_t>(me.rank + 1);
    OK(tuttiGroupStart());
    OK(tuttiWaitSignal(me.previous(), 0, 1, words.window, nullptr));
    OK(tuttiPutSignal(&mine, 8, me.next(), 0, 0, words.window, nullptr));
    OK(tuttiGroupEnd());
    EXPECT_EQ(words.data[0], static_cast<uint64_t>(me.previous() + 1));
  });
}

TEST(Windows, CallsOnAStreamRunInOrder) {
  each_memory([](const Member& me, Memory memory) {
    Words words(me, 1, memory);
    tuttiStream_t stream = nullptr;
    OK(tuttiStreamCreate(&stream));
    uint64_t mine = static_cast<uint64_t>(me.rank + 1), got = 0;
    OK(tuttiPutSignal(&mine, 8, me.next(), 0, 0, words.window, stream));
    OK(tuttiWaitSignal(me.previous(), 0, 1, words.window, stream));
    OK(tuttiGet(&got, 8, me.rank, 0, words.window, stream));
    OK(tuttiStreamSynchronize(stream));
    EXPECT_EQ(got, static_cast<uint64_t>(me.previous() + 1));
    OK(tuttiStreamDestroy(stream));
  });
}

TEST(Windows, PartsMayDifferInSizeAndBeEmpty) {
  each_rank([](const Member& me) {
    std::vector<uint64_t> part(static_cast<size_t>(me.rank));
    tuttiWindow_t window = nullptr;
    OK(tuttiWindowRegister(me.comm, part.data(), part.size() * 8, &window));
    for (int peer = 0; peer < me.ranks; ++peer) {
      size_t bytes = 1;
      OK(tuttiWindowSize(window, peer, &bytes));
      EXPECT_EQ(bytes, static_cast<size_t>(peer) * 8);
    }
    OK(tuttiPut(nullptr, 0, 0, 0, window, nullptr));
    OK(tuttiWindowDeregister(window));
  });
}

/// This thread's system calls of these numbers fail from now on. False: there are no filters here.
bool forbid(std::initializer_list<uint32_t> calls) {
  std::vector<sock_filter> program = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const uint32_t call : calls) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

/// The text of an error.
std::string refused(tuttiResult_t expected, tuttiResult_t result) {
  EXPECT_EQ(result, expected) << tuttiGetLastError();
  return tuttiGetLastError();
}

TEST(Windows, MistakesAreRefusedAndLoseNothing) {
  each_memory([](const Member& me, Memory memory) {
    Words words(me, 2, memory, 5);
    tuttiWindow_t window = words.window;
    uint64_t word = 1;
    const std::string own = "rank " + std::to_string(me.rank) + ": ";
    const std::string text = refused(tuttiInvalidArgument, tuttiPut(&word, 8, me.next(), 9, window, nullptr));
    EXPECT_EQ(text.substr(0, text.rfind(' ')), own + "put(8 bytes, to rank " + std::to_string(me.next()) +
                                                   " at offset 9): 8 bytes at offset 9 do not lie in rank " +
                                                   std::to_string(me.next()) +
                                                   "'s part, of 16 bytes, of the window of call");
    refused(tuttiInvalidArgument, tuttiGet(&word, 8, me.next(), SIZE_MAX, window, nullptr));
    refused(tuttiInvalidArgument, tuttiPut(&word, SIZE_MAX, me.next(), 8, window, nullptr));
    refused(tuttiInvalidArgument, tuttiPut(nullptr, 8, me.next(), 0, window, nullptr));
    refused(tuttiInvalidArgument, tuttiGet(nullptr, 8, me.next(), 0, window, nullptr));
    refused(tuttiInvalidArgument, tuttiPut(&word, 8, me.ranks, 0, window, nullptr));
    refused(tuttiInvalidArgument, tuttiPut(&word, 8, -1, 0, window, nullptr));
    refused(tuttiInvalidArgument, tuttiSignal(me.next(), TUTTI_SIGNALS, window, nullptr));
    refused(tuttiInvalidArgument, tuttiSignal(me.next(), -1, window, nullptr));
    refused(tuttiInvalidArgument, tuttiWaitSignal(me.next(), 0, 0, window, nullptr));
    refused(tuttiInvalidArgument, tuttiAtomicAdd(1, nullptr, me.next(), 4, window, nullptr));
    refused(tuttiInvalidArgument, tuttiAtomicAdd(1, nullptr, me.next(), 16, window, nullptr));
    refused(tuttiInvalidArgument, tuttiPut(&word, 8, me.next(), 0, nullptr, nullptr));
    refused(tuttiInvalidArgument, tuttiPut(&word, 8, me.next(), 0, reinterpret_cast<tuttiWindow_t>(&word), nullptr));
    refused(tuttiInvalidArgument, tuttiWindowRegister(me.comm, nullptr, 8, &window));
    refused(tuttiInvalidArgument, tuttiWindowRegister(me.comm, &word, SIZE_MAX, &window));
    OK(tuttiWindowBarrier(words.window, nullptr));
    EXPECT_EQ(words.data[0], 5u);
    EXPECT_EQ(words.data[1], 5u);
  });
}

/// The smaller rank's part ends before others' do, and more of its memory follows.
TEST(Windows, OffsetsAreThoseOfThePeersOwnPart) {
  each_rank([](const Member& me) {
    for (const bool mapped : {true, false}) {
      Words memory(me, 1024, mapped ? Memory::Mapped : Memory::Ordinary, 5);
      tuttiWindow_t window = nullptr;
      OK(tuttiWindowRegister(me.comm, memory.data, me.rank == 0 ? 64 : 8192, &window));
      const std::vector<uint64_t> mine(1024, 1);
      if (me.rank == 1) {
        const std::string text = refused(tuttiInvalidArgument, tuttiPut(mine.data(), 72, 0, 0, window, nullptr));
        EXPECT_NE(text.find(" do not lie in rank 0's part, of 64 bytes, of the window of call "), std::string::npos)
            << text;
        refused(tuttiInvalidArgument, tuttiPut(mine.data(), 8, 0, 64, window, nullptr));
        refused(tuttiInvalidArgument, tuttiGet(memory.data, 8, 0, 57, window, nullptr));
        refused(tuttiInvalidArgument, tuttiAtomicAdd(1, nullptr, 0, 64, window, nullptr));
        OK(tuttiPut(mine.data(), 8, 0, 56, window, nullptr));
      }
      OK(tuttiWindowBarrier(window, nullptr));
      if (me.rank == 0) {
        EXPECT_EQ(memory.data[7], 1u);
        EXPECT_EQ(std::accumulate(memory.data, memory.data + 1024, uint64_t{0}), 1 + 1023 * 5u);
      }
      OK(tuttiWindowDeregister(window));
    }
  });
}

TEST(Windows, MayOverlapAndEndApart) {
  each_rank([](const Member& me) {
    for (const Memory kind : {Memory::Mapped, Memory::Ordinary}) {
      Words all(me, 1024, kind);
      tuttiWindow_t half = nullptr;
      OK(tuttiWindowRegister(me.comm, all.data + 512, 4096, &half));
      const uint64_t one = 1, two = 2;
      OK(tuttiPut(&one, 8, me.next(), 0, half, nullptr));
      OK(tuttiWindowBarrier(half, nullptr));
      EXPECT_EQ(all.data[512], 1u);
      OK(tuttiWindowDeregister(half));
      OK(tuttiPut(&two, 8, me.next(), 512 * 8, all.window, nullptr));
      OK(tuttiWindowBarrier(all.window, nullptr));
      EXPECT_EQ(all.data[512], 2u) << "the other one has its pages still";
    }
  });
}

TEST(Windows, KeepTheirMemoryFromBeingFreed) {
  each_rank([](const Member& me) {
    Words words(me, 1024, Memory::Mapped);
    const std::string text = refused(tuttiInvalidUsage, tuttiMemFree(words.data));
    EXPECT_EQ(text, "the memory is rank " + std::to_string(me.rank) +
                        "'s part of the window of call 1: deregister that first");
    OK(tuttiWindowBarrier(words.window, nullptr));
  });
}

/// (In one process ranks store, which nothing can stop.)
TEST(WindowsOfProcesses, WhoseMemoryIsGoneRefuseTheCallThatWouldUseIt) {
  each_rank([](const Member& me) {
    // The part begins a large range: what the process maps later takes the range's end first.
    constexpr size_t kBytes = 64 << 10, kRange = 1 << 30;
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* const part = mmap(nullptr, kRange, PROT_READ | PROT_WRITE, kFlags, -1, 0);
    tuttiWindow_t window = nullptr;
    OK(tuttiWindowRegister(me.comm, part, kBytes, &window));
    munmap(part, kRange);
    OK(tuttiBarrier(me.comm, nullptr));
    std::vector<char> mine(kBytes);
    const std::string gone = "rank " + std::to_string(me.next()) + " has freed its part of the window of call ";
    tuttiResult_t put = tuttiPut(mine.data(), kBytes, me.next(), 0, window, nullptr);
    if (put == tuttiSuccess) put = tuttiFlush(me.next(), window, nullptr);  // a request has no answer before
    EXPECT_NE(refused(tuttiInvalidUsage, put).find(gone), std::string::npos);
    OK(tuttiFlush(me.next(), window, nullptr));
    EXPECT_NE(refused(tuttiInvalidUsage, tuttiGet(mine.data(), 8, me.next(), 0, window, nullptr)).find(gone),
              std::string::npos);
    EXPECT_NE(refused(tuttiInvalidUsage, tuttiAtomicAdd(1, nullptr, me.next(), 8, window, nullptr)).find(gone),
              std::string::npos);
    OK(tuttiSignal(me.next(), 0, window, nullptr));
    OK(tuttiWaitSignal(me.previous(), 0, 1, window, nullptr));
    OK(tuttiWindowDeregister(window));
  });
}

TEST(WindowsOfProcesses, ReadAndWriteMoreThanASystemCallDoes) {
  each_rank([](const Member& me) {
    if (me.ranks > 2) return;                   // the same, and more memory
    constexpr size_t kBytes = (33 << 20) + 13;  // odd, and several calls
    const auto bytes_of = [](int rank) {
      const std::vector<uint64_t> words = values(rank, 1, kBytes / 8 + 1);
      const auto* const first = reinterpret_cast<const unsigned char*>(words.data());
      return std::vector<unsigned char>(first, first + kBytes);
    };
    const std::vector<unsigned char> mine = bytes_of(me.rank), theirs = bytes_of(me.previous());
    std::vector<unsigned char> part(kBytes + 8, 1), got(kBytes, 2);
    tuttiWindow_t window = nullptr;
    OK(tuttiWindowRegister(me.comm, part.data(), part.size(), &window));
    OK(tuttiPutSignal(mine.data(), kBytes, me.next(), 3, 0, window, nullptr));
    OK(tuttiWaitSignal(me.previous(), 0, 1, window, nullptr));
    EXPECT_EQ(std::memcmp(part.data() + 3, theirs.data(), kBytes), 0);
    EXPECT_TRUE(part[2] == 1 && part[kBytes + 3] == 1) << "beside it";
    OK(tuttiGet(got.data(), kBytes, me.next(), 3, window, nullptr));
    EXPECT_EQ(std::memcmp(got.data(), mine.data(), kBytes), 0);
    OK(tuttiWindowDeregister(window));
  });
}

/// A program may give up system calls at any time.
TEST(WindowsOfProcesses, TakeAnotherWayWhenTheKernelRefusesOne) {
  each_rank([](const Member& me) {
    Words words(me, 1000, Memory::Ordinary);
    bool forbidden = false;
    std::jthread([&] {  // a filter is a thread's, and stays with it
      forbidden = forbid({SYS_process_vm_writev, SYS_process_vm_readv});
      for (uint64_t round = 1; forbidden && round <= 20; ++round) {
        const auto mine = values(me.rank, round, 1000);
        OK(tuttiPutSignal(mine.data(), 8000, me.next(), 0, 0, words.window, nullptr));
        OK(tuttiWaitSignal(me.previous(), 0, 1, words.window, nullptr));
        const std::vector<uint64_t> got(words.data, words.data + 1000);
        EXPECT_EQ(got, values(me.previous(), round, 1000)) << "round " << round;
        std::vector<uint64_t> back(1000);
        OK(tuttiGet(back.data(), 8000, me.next(), 0, words.window, nullptr));
        EXPECT_EQ(back, mine);
        OK(tuttiSignal(me.previous(), 1, words.window, nullptr));  // it may put again
        OK(tuttiWaitSignal(me.next(), 1, 1, words.window, nullptr));
      }
    })
        .join();
    if (!forbidden) GTEST_SKIP() << "seccomp filters are not permitted here";
  });
}

/// Signals of one window announce what was put into others, which may be reached in another way.
TEST(Windows, ASignalFollowsWhatWasPutIntoOtherWindows) {
  each_rank([](const Member& me) {
    constexpr size_t kWords = 20000;  // on their way when the signal is sent
    tuttiWindow_t empty = nullptr;
    OK(tuttiWindowRegister(me.comm, nullptr, 0, &empty));
    {
      Words ordinary(me, kWords, Memory::Ordinary), mapped(me, kWords, Memory::Mapped);
      for (uint64_t round = 1; round <= 60; ++round) {
        const auto mine = values(me.rank, round, kWords);
        const Words& words = round % 2 == 0 ? ordinary : mapped;
        const tuttiWindow_t signals = round % 3 == 0 ? empty : round % 3 == 1 ? mapped.window : ordinary.window;
        OK(tuttiPut(mine.data(), kWords * 8, me.next(), 0, words.window, nullptr));
        if (round % 4 < 2) {
          OK(tuttiSignal(me.next(), 0, signals, nullptr));
        } else {
          OK(tuttiPutSignal(mine.data(), signals == empty ? 0 : 8, me.next(), 0, 0, signals, nullptr));
        }
        OK(tuttiWaitSignal(me.previous(), 0, 1, signals, nullptr));
        EXPECT_EQ(std::vector<uint64_t>(words.data, words.data + kWords), values(me.previous(), round, kWords))
            << "round " << round;
        OK(tuttiSignal(me.previous(), 1, signals, nullptr));
        OK(tuttiWaitSignal(me.next(), 1, 1, signals, nullptr));
      }
    }
    OK(tuttiWindowDeregister(empty));
  });
}

TEST(Windows, ADeregisteredOneIsRefused) {
  each_rank([](const Member& me) {
    uint64_t word = 0;
    tuttiWindow_t window = nullptr;
    OK(tuttiWindowRegister(me.comm, &word, 8, &window));
    OK(tuttiWindowDeregister(window));
    EXPECT_EQ(refused(tuttiInvalidUsage, tuttiWindowDeregister(window)), "the window was deregistered");
    refused(tuttiInvalidUsage, tuttiFlush(0, window, nullptr));
  });
}

TEST(Windows, AddressesReachMappedMemoryOfTheHost) {
  const bool one_host = std::getenv("TUTTI_FORCE_REMOTE") == nullptr;
  each_rank([one_host](const Member& me) {
    Words words(me, 4, Memory::Mapped);
    void* address = nullptr;
    OK(tuttiWindowPeer(words.window, me.next(), &address));
    ASSERT_EQ(address != nullptr, one_host);
    if (!one_host) return;
    std::atomic_ref(static_cast<uint64_t*>(address)[3]).store(static_cast<uint64_t>(me.rank) + 9);
    OK(tuttiWindowBarrier(words.window, nullptr));
    EXPECT_EQ(words.data[3], static_cast<uint64_t>(me.previous()) + 9);
  });
}

}  // namespace
}  // namespace tutti
