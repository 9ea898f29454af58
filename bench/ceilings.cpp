// The machine's limits, to which bench/vs_peers compares every figure.
//
//   ceilings exchange FOLDER RANKS [stream]   the collectives through shared memory, as another program of the
//                                             comparison (peers/direct.hpp, peers/driver_pipes.hpp)
//   ceilings machine [--quick]                latencies of a cache line and bandwidths of copies, as JSON
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "peers/direct.hpp"
#include "peers/play.hpp"
#include "reduce/fold.hpp"

namespace {

int repeats = 5;

struct alignas(256) Line {
  std::atomic<uint64_t> flag{0};
  uint64_t payload[7] = {};
};

/// Two threads, on the cores of ranks a and b, run body(0) and body(1). Seconds until both are done, the median of
/// several runs.
double run_pair(int a, int b, const std::function<void(int)>& body) {
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    std::atomic<int> waiting{2};
    double took[2];
    const auto run = [&](int me) {
      peers::pin(me == 0 ? a : b);
      waiting.fetch_sub(1);
      while (waiting.load() > 0) sched_yield();
      const double start = peers::seconds();
      body(me);
      took[me] = peers::seconds() - start;
    };
    std::thread other(run, 1);
    std::thread first(run, 0);
    first.join();
    other.join();
    times.push_back(std::max(took[0], took[1]));
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
}

/// Nanoseconds for a flag to get from one thread to the other, after `lines` − 1 lines of payload.
double one_way(int a, int b, int lines, bool yield, uint64_t turns) {
  std::vector<Line> lines_of(4);
  const double took = run_pair(a, b, [&](int me) {
    Line* const mine = &lines_of[2 * static_cast<size_t>(me)];
    const Line* const other = &lines_of[static_cast<size_t>(2 - 2 * me)];
    const uint64_t base = mine->flag.load();
    uint64_t seen = 0;
    for (uint64_t turn = base + 1; turn <= base + turns; ++turn) {
      const auto tell = [&] {
        mine[lines - 1].payload[0] = turn;
        mine->flag.store(turn, std::memory_order_release);
      };
      if (me == 0) tell();
      while (other->flag.load(std::memory_order_acquire) < turn) {
        if (yield) sched_yield();
      }
      seen += static_cast<const volatile uint64_t&>(other[lines - 1].payload[0]);
      if (me == 1) tell();
    }
    asm volatile("" : : "r"(seen) : "memory");
  });
  return took / static_cast<double>(2 * turns) * 1e9;
}

/// GB/s of payload that `threads` cores copy in parallel, each with its own buffers.
double copy_rate(size_t bytes, int threads, bool stream) {
  struct Buffers {
    std::vector<std::byte> from, to;
  };
  std::vector<Buffers> all(2);
  for (Buffers& one : all) one = {std::vector<std::byte>(bytes, std::byte{1}), std::vector<std::byte>(bytes)};
  const size_t calls = std::max<size_t>(2, (size_t{128} << 20) / bytes);
  const auto work = [&](int me) {
    if (me >= threads) return;
    Buffers& mine = all[static_cast<size_t>(me)];
    for (size_t i = 0; i < calls; ++i) {
      if (stream) {
        tutti::copy_bytes(mine.to.data(), nullptr, mine.from.data(), bytes, true);
      } else {
        std::memcpy(mine.to.data(), mine.from.data(), bytes);
      }
      asm volatile("" : : "r"(mine.to.data()) : "memory");
    }
  };
  return static_cast<double>(bytes * calls) * threads / run_pair(0, 1, work) / 1e9;
}

int machine(bool quick) {
  repeats = quick ? 3 : 5;
  const uint64_t turns = quick ? 100000 : 500000;
  std::printf("{\"ns\": {\n");
  std::printf("  \"line, payload and flag together, one way\": %.1f,\n", one_way(0, 1, 1, false, turns));
  std::printf("  \"flag in one line, payload in another, one way\": %.1f,\n", one_way(0, 1, 2, false, turns));
  std::printf("  \"line, waiting with sched_yield, one way\": %.1f,\n", one_way(0, 1, 1, true, turns / 5));
  std::printf("  \"line, both threads on one core, sched_yield, one way\": %.1f\n", one_way(0, 0, 1, true, turns / 10));
  std::printf("}, \"GB/s\": {\n");
  const size_t sizes[] = {size_t{256} << 10, size_t{16} << 20, size_t{256} << 20};
  const char* const names[] = {"256 KiB", "16 MiB", "256 MiB"};
  for (int s = 0; s < 3; ++s) {
    for (int threads = 1; threads <= 2; ++threads) {
      for (const bool stream : {false, true}) {
        std::printf("  \"%s %s, %d core%s\": %.1f%s\n", stream ? "streaming copy" : "memcpy", names[s], threads,
                    threads > 1 ? "s" : "", copy_rate(sizes[s], threads, stream),
                    s == 2 && threads == 2 && stream ? "" : ",");
      }
    }
  }
  std::printf("}}\n");
  return 0;
}

int exchange(const std::string& folder, int ranks, bool stream) {
  const peers::SharedMemory memory(ranks);
  const int rank = peers::fork_ranks(ranks);
  peers::pin(rank);
  peers::DirectPeer peer(memory, rank, ranks, stream);
  peers::Play<peers::DirectPeer>(peer, folder).run();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "machine") return machine(argc > 2 && std::string(argv[2]) == "--quick");
  const int ranks = argc > 3 ? std::atoi(argv[3]) : 0;
  if (what == "exchange" && ranks > 0 && ranks <= 64) return exchange(argv[2], ranks, argc > 4);
  std::fprintf(stderr, "usage: ceilings machine [--quick] | ceilings exchange FOLDER RANKS [stream]\n");
  return 2;
}
