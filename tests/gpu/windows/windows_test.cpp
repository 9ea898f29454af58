// Windows in memory of GPUs: each call, between threads and between processes, on streams and without, in groups.
#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>

#include "windows/gpu_job.hpp"

namespace tutti::test {
namespace {

constexpr unsigned char kPoison = 0xEE;

/// Puts of all lengths into the next rank's part, each with a signal: what lies around them stays.
void put_and_signal(const Member& me, bool on_stream) {
  constexpr size_t kBytes = (1 << 20) + 64, kAt = 24;
  const Memory source(me, kBytes);
  const GpuStream gpu_stream;
  const tuttiStream_t stream = on_stream ? gpu_stream.handle() : nullptr;
  const Part part(me, kBytes);
  uint64_t round = 0;
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{8}, size_t{333}, size_t{4099}, size_t{1} << 20}) {
    ++round;
    const Bytes mine = bytes_of(me.rank, round, bytes), theirs = bytes_of(me.previous(), round, bytes);
    source.set(0, mine);
    part.memory.set(0, Bytes(kBytes, kPoison));
    me.meet();
    OK(tuttiPutSignal(source.at(), bytes, me.next(), kAt, 3, part.window, stream));
    OK(tuttiWaitSignal(me.previous(), 3, 1, part.window, stream));
    if (on_stream) gpu_stream.synchronize();
    Bytes expected(kBytes, kPoison);
    std::copy(theirs.begin(), theirs.end(), expected.begin() + kAt);
    EXPECT_TRUE(part.memory.all() == expected) << bytes << " bytes";
    me.meet();
  }
}

TEST(GpuWindows, WhatASignalAnnouncesIsThere) {
  each_rank([](const Member& me) { put_and_signal(me, true); });
}
TEST(GpuWindows, WithoutAStreamCallsReturnWhenTheyHaveEnded) {
  each_rank([](const Member& me) { put_and_signal(me, false); });
}

/// Bytes go round the ranks, from part to part, without a word of the host: each hop is enqueued at once.
TEST(GpuWindows, AMessageGoesRoundWithoutTheHost) {
  each_rank([](const Member& me) {
    constexpr size_t kBytes = 5000;
    constexpr int kRounds = 12;
    const GpuStream stream;
    const Part part(me, 2 * kBytes);
    const Bytes message = bytes_of(0, 1, kBytes);
    if (me.rank == 0) part.memory.set(0, message);
    me.meet();
    for (int round = 0; round < kRounds; ++round) {
      if (me.rank != 0 || round > 0) OK(tuttiWaitSignal(me.previous(), 0, 1, part.window, stream.handle()));
      OK(tuttiPutSignal(part.memory.at(), kBytes, me.next(), 0, 0, part.window, stream.handle()));
    }
    if (me.rank == 0) OK(tuttiWaitSignal(me.previous(), 0, 1, part.window, stream.handle()));
    stream.synchronize();
    EXPECT_TRUE(part.memory.get(0, kBytes) == message);
    EXPECT_TRUE(part.memory.get(kBytes, kBytes) == Bytes(kBytes, kPoison)) << "nobody has put anything there";
  });
}

/// The source may be changed in stream order: each put has what was there when its turn came.
TEST(GpuWindows, APutReadsItsSourceInStreamOrder) {
  each_rank([](const Member& me) {
    constexpr size_t kBytes = 4100;
    constexpr int kPuts = 8;
    const Memory source(me, kBytes);
    const GpuStream stream;
    const Part part(me, kPuts * kBytes);
    me.meet();
    for (int i = 0; i < kPuts; ++i) {
      CUDA_OK(cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(source.at()), static_cast<unsigned char>(10 * me.rank + i),
                              kBytes, stream.get()));
      OK(tuttiPut(source.at(), kBytes, me.next(), i * kBytes, part.window, stream.handle()));
    }
    OK(tuttiSignal(me.next(), 0, part.window, stream.handle()));
    OK(tuttiWaitSignal(me.previous(), 0, 1, part.window, stream.handle()));
    stream.synchronize();
    for (int i = 0; i < kPuts; ++i) {
      const Bytes expected(kBytes, static_cast<unsigned char>(10 * me.previous() + i));
      EXPECT_TRUE(part.memory.get(i * kBytes, kBytes) == expected) << "put " << i;
    }
  });
}

TEST(GpuWindows, GetsWhatWasPutByAnother) {
  each_rank([](const Member& me) {
    constexpr size_t kBytes = 9001;
    const Memory source(me, kBytes), target(me, kBytes + 16);
    const Pinned<unsigned char> pinned(kBytes);
    const GpuStream stream;
    const Part part(me, kBytes);
    source.set(0, bytes_of(me.rank, 5, kBytes));
    me.meet();
    OK(tuttiPut(source.at(), kBytes, me.next(), 0, part.window, stream.handle()));
    OK(tuttiWindowBarrier(part.window, stream.handle()));
    OK(tuttiGet(target.at(8), kBytes - 1, me.previous(), 1, part.window, stream.handle()));
    OK(tuttiGet(pinned.data, kBytes, me.next(), 0, part.window, stream.handle()));
    stream.synchronize();
    const int writer = (me.previous() + me.ranks - 1) % me.ranks;
    Bytes expected = bytes_of(writer, 5, kBytes);
    EXPECT_TRUE(Bytes(pinned.data, pinned.data + kBytes) == bytes_of(me.rank, 5, kBytes));
    Bytes ordinary(kBytes);
    OK(tuttiGet(ordinary.data(), kBytes, me.previous(), 0, part.window, nullptr));
    EXPECT_TRUE(ordinary == expected);
    expected.erase(expected.begin());
    EXPECT_TRUE(target.get(8, kBytes - 1) == expected);
    EXPECT_TRUE(target.get(0, 8) == Bytes(8, kPoison) && target.get(kBytes + 7, 9) == Bytes(9, kPoison));
    me.meet();
  });
}

/// As the default stream does, such a call follows what blocking streams have.
TEST(GpuWindows, ACallWithoutAStreamFollowsBlockingStreams) {
  each_rank([](const Member& me) {
    constexpr size_t kBytes = 333;
    const Memory source(me, kBytes);
    const Part part(me, kBytes);
    CUstream blocking = nullptr;
    CUDA_OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    me.meet();
    CUDA_OK(cuLaunchHostFunc(
        blocking,
        [](void*) {
          for (int turn = 0; turn < 3000; ++turn) std::this_thread::yield();
        },
        nullptr));
    CUDA_OK(cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(source.at()), static_cast<unsigned char>(10 + me.rank),
                            kBytes, blocking));
    OK(tuttiPutSignal(source.at(), kBytes, me.next(), 0, 0, part.window, nullptr));
    OK(tuttiWaitSignal(me.previous(), 0, 1, part.window, nullptr));
    EXPECT_TRUE(part.memory.all() == Bytes(kBytes, static_cast<unsigned char>(10 + me.previous())));
    CUDA_OK(cuStreamDestroy(blocking));
  });
}

TEST(GpuWindows, OrdinaryMemoryOfTheHostWithoutAStream) {
  each_rank([](const Member& me) {
    const Part part(me, 100);
    Bytes mine = bytes_of(me.rank, 9, 99);
    OK(tuttiPutSignal(mine.data(), mine.size(), me.next(), 1, 0, part.window, nullptr));
    std::fill(mine.begin(), mine.end(), 0);  // the call has ended
    OK(tuttiWaitSignal(me.previous(), 0, 1, part.window, nullptr));
    EXPECT_TRUE(part.memory.get(1, 99) == bytes_of(me.previous(), 9, 99));
    EXPECT_EQ(part.memory.get(0, 1).front(), kPoison);
  });
}

TEST(GpuWindows, AtomicStepsOfAllRanksAddUp) {
  each_rank([](const Member& me) {
    constexpr uint64_t kSteps = 20;
    const Pinned<uint64_t> before(kSteps);
    const GpuStream stream;
    const Part part(me, 24);
    part.memory.set(0, Bytes(16, 0));
    me.meet();
    for (uint64_t i = 0; i < kSteps; ++i) {
      OK(tuttiAtomicAdd(1, before.data + i, 0, 0, part.window, stream.handle()));
    }
    stream.synchronize();
    EXPECT_TRUE(std::is_sorted(before.data, before.data + kSteps));
    for (uint64_t i = 0, seen = 0; i < kSteps / 4;) {  // another counter, by comparing
      const uint64_t expected = seen;
      OK(tuttiAtomicCompareSwap(expected, expected + 2, &seen, 0, 8, part.window, nullptr));
      if (seen == expected) ++i;
    }
    OK(tuttiAtomicAdd(1, nullptr, 0, 0, part.window, nullptr));
    OK(tuttiWindowBarrier(part.window, nullptr));
    if (me.rank != 0) return;
    uint64_t got[3];
    const Bytes bytes = part.memory.all();
    std::memcpy(got, bytes.data(), sizeof got);
    EXPECT_EQ(got[0], (kSteps + 1) * static_cast<uint64_t>(me.ranks));
    EXPECT_EQ(got[1], 2 * (kSteps / 4) * static_cast<uint64_t>(me.ranks));
    EXPECT_EQ(got[2], 0xEEEEEEEEEEEEEEEEU);
  });
}

TEST(GpuWindows, CallsOfAGroupMayWaitForEachOther) {
  each_rank([](const Member& me) {
    const Memory source(me, 64, static_cast<unsigned char>(me.rank + 1));
    const GpuStream stream;
    const Part part(me, 64);
    me.meet();
    for (const tuttiStream_t on : {stream.handle(), tuttiStream_t(nullptr)}) {
      OK(tuttiGroupStart());
      OK(tuttiWaitSignal(me.previous(), 0, 1, part.window, on));
      OK(tuttiPutSignal(source.at(), 64, me.next(), 0, 0, part.window, on));
      OK(tuttiGroupEnd());
      stream.synchronize();
      EXPECT_TRUE(part.memory.all() == Bytes(64, static_cast<unsigned char>(me.previous() + 1)));
      me.meet();
      part.memory.set(0, Bytes(64, kPoison));
      me.meet();
    }
  });
}

/// Calls of a rank run in their order, on whatever streams: a signal's number never goes back.
TEST(GpuWindows, CallsOnSeveralStreamsKeepTheirOrder) {
  each_rank([](const Member& me) {
    constexpr int kRounds = 30;
    const Memory source(me, 8 * kRounds);
    const GpuStream streams[3];
    const Part part(me, 8 * kRounds);
    for (int i = 0; i < kRounds; ++i) source.set(8 * i, bytes_of(me.rank, i, 8));
    me.meet();
    const auto stream_of = [&](int i) {
      return i % 4 == 3 ? reinterpret_cast<tuttiStream_t>(CU_STREAM_PER_THREAD) : streams[i % 4].handle();
    };
    for (int i = 0; i < kRounds; ++i) {
      OK(tuttiPutSignal(source.at(8 * i), 8, me.next(), 8 * i, 1, part.window, stream_of(i)));
    }
    OK(tuttiWaitSignal(me.previous(), 1, kRounds, part.window, stream_of(kRounds)));
    OK(tuttiFlush(TUTTI_ALL_PEERS, part.window, nullptr));
    for (int i = 0; i < kRounds; ++i) {
      EXPECT_TRUE(part.memory.get(8 * i, 8) == bytes_of(me.previous(), i, 8)) << i;
    }
  });
}

TEST(GpuWindows, PartsHaveAddressesAndSizes) {
  each_rank([](const Member& me) {
    const Memory memory(me, 4096, static_cast<unsigned char>(me.rank + 1));
    const Pinned<unsigned char> copy(1);
    const GpuStream stream;
    tuttiWindow_t window = nullptr;
    const bool empty = me.rank == 1;  // empty parts count signals
    OK(tuttiWindowRegister(me.comm, empty ? nullptr : memory.at(256), empty ? 0 : 1024 + me.rank, &window));
    for (int peer = 0; peer < me.ranks; ++peer) {
      size_t bytes = 0;
      void* address = nullptr;
      OK(tuttiWindowSize(window, peer, &bytes));
      OK(tuttiWindowPeer(window, peer, &address));
      EXPECT_EQ(bytes, peer == 1 ? 0u : static_cast<size_t>(1024 + peer));
      if (peer == me.rank || std::getenv("TEST_HOSTS") == nullptr) {
        EXPECT_EQ(address == nullptr, peer == 1);
      }
      if (address == nullptr) continue;
      CUDA_OK(cuMemcpyDtoHAsync(copy.data, reinterpret_cast<CUdeviceptr>(address) + bytes - 1, 1, stream.get()));
      stream.synchronize();
      EXPECT_EQ(*copy.data, peer + 1);
    }
    OK(tuttiSignal(me.next(), 7, window, nullptr));
    OK(tuttiWaitSignal(me.previous(), 7, 1, window, nullptr));
    OK(tuttiWindowDeregister(window));
    me.meet();
  });
}

/// Memory that was mapped in pieces, as PyTorch's expandable segments.
TEST(GpuWindows, PartsOfMappedMemory) {
  each_rank([](const Member& me) {
    const size_t piece = MappedMemory::kPiece, at = piece - 100;
    const MappedMemory memory(me.device, 2, true);
    const Memory source(me, 200);
    source.set(0, bytes_of(me.rank, 4, 200));
    tuttiWindow_t window = nullptr;
    OK(tuttiWindowRegister(me.comm, memory.get(), memory.bytes(), &window));
    OK(tuttiPutSignal(source.at(), 200, me.next(), at, 0, window, nullptr));
    OK(tuttiWaitSignal(me.previous(), 0, 1, window, nullptr));
    Bytes got(200);
    cuda::Device::get(me.device).stream().download(got.data(), reinterpret_cast<CUdeviceptr>(memory.get()) + at, 200);
    EXPECT_TRUE(got == bytes_of(me.previous(), 4, 200));
    OK(tuttiWindowDeregister(window));
    me.meet();
  });
}

/// Collectives and windows of one communicator, on one stream.
TEST(GpuWindows, BesideCollectives) {
  each_rank([](const Member& me) {
    const Memory source(me, 64), sum(me, 64);
    const GpuStream stream;
    const Part part(me, 64);
    source.set(0, Bytes(64, static_cast<unsigned char>(me.rank + 1)));
    me.meet();
    for (int round = 0; round < 3; ++round) {
      OK(tuttiPutSignal(source.at(), 64, me.next(), 0, 0, part.window, stream.handle()));
      OK(tuttiWaitSignal(me.previous(), 0, 1, part.window, stream.handle()));
      OK(tuttiAllReduce(part.memory.at(), sum.at(), 64, tuttiUint8, tuttiSum, me.comm, stream.handle()));
      OK(tuttiWindowBarrier(part.window, stream.handle()));
    }
    stream.synchronize();
    EXPECT_TRUE(sum.all() == Bytes(64, static_cast<unsigned char>(me.ranks * (me.ranks + 1) / 2)));
  });
}

/// A thread that computes while its stream waits may still signal: that is no deadlock.
TEST(GpuWindowSlow, AThreadIsFreeWhileItsStreamWaits) {
  each_rank(
      [](const Member& me) {
        const GpuStream stream;
        const Part part(me, 64);
        Bytes of_host(64);
        tuttiWindow_t window = nullptr;
        OK(tuttiWindowRegister(me.comm, of_host.data(), of_host.size(), &window));
        if (me.rank == 1) {
          OK(tuttiWaitSignal(0, 0, 1, part.window, stream.handle()));
          const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);  // longer than deadlocks need
          while (std::chrono::steady_clock::now() < end) continue;
          OK(tuttiSignal(0, 0, window, nullptr));
        } else {
          OK(tuttiWaitSignal(1, 0, 1, window, nullptr));
          OK(tuttiSignal(1, 0, part.window, stream.handle()));
        }
        stream.synchronize();
        OK(tuttiWindowDeregister(window));
      },
      2);
}

}  // namespace
}  // namespace tutti::test
