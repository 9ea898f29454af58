// The measurements of the quick calibration.
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>

#include "link/cma.hpp"
#include "reduce/fold.hpp"
#include "select/calibration.hpp"

namespace tutti::select {
namespace {

using Clock = std::chrono::steady_clock;
using Sizes = Calibration::Times;

constexpr int kLines = 200, kSwitches = 100, kTries = 3;
constexpr int kQuickTries = 6;                       // of copies that take microseconds
constexpr uint64_t kQuick = 64 << 10;                // bytes
constexpr uint64_t kMaxBeyond = uint64_t{48} << 20;  // bytes that both cores copy to or from, to find no cache
constexpr double kBeyond = 1.4;                      // times the caches

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

template <class Work>
double time_of(const Work& work) {
  const auto start = Clock::now();
  work();
  return since(start);
}

void keep_best(double& best, double seconds) { best = best == 0 ? seconds : std::min(best, seconds); }

/// Two threads on two processors, in step.
class Duet {
 public:
  explicit Duet(Clock::time_point deadline) : deadline_(deadline) {}

  /// `first` runs on the processor `a`, `second` on `b`. False if they have not ended in time.
  bool play(int a, int b, const std::function<void()>& first, const std::function<void()>& second) {
    turn_ = 0;
    met_[0].count = met_[1].count = 0;
    std::thread other([&] {
      run_on(affinity_mask({b}));  // where it is not permitted, the kernel's choice is measured
      second();
    });
    std::thread one([&] {
      run_on(affinity_mask({a}));
      first();
    });
    one.join();
    other.join();
    return !late();
  }
  /// The same work on both; it gets 0 or 1.
  bool play_both(int a, int b, const std::function<void(size_t)>& work) {
    return play(
        a, b, [&] { work(0); }, [&] { work(1); });
  }

  bool late() const { return late_.load(std::memory_order_relaxed); }
  /// Is the time over? Then both end.
  bool over() {
    if (Clock::now() > deadline_) late_ = true;
    return late();
  }
  /// Waits until it is this turn; false if the time is over.
  bool await(uint32_t turn) {
    return wait([&] { return turn_.load(std::memory_order_acquire) == turn; });
  }
  void pass(uint32_t turn) { turn_.store(turn, std::memory_order_release); }
  /// Waits until both are here; false if the time is over.
  bool meet(size_t me) {
    const uint32_t here = met_[me].count.load(std::memory_order_relaxed) + 1;
    met_[me].count.store(here, std::memory_order_release);
    if (over()) return false;
    return wait([&] { return met_[1 - me].count.load(std::memory_order_acquire) >= here; });
  }
  void yield_while_waiting(bool yes) { yields_ = yes; }

 private:
  struct alignas(128) Count {
    std::atomic<uint32_t> count{0};
  };

  template <class Condition>
  bool wait(const Condition& holds) {
    for (uint32_t spins = 0; !holds(); ++spins) {
      if (late()) return false;
      if (spins % 64 == 63 && over()) return false;
      if (yields_) sched_yield();
    }
    return !late();
  }

  Clock::time_point deadline_;
  alignas(128) std::atomic<uint32_t> turn_{0};
  alignas(128) std::atomic<bool> late_{false};
  std::array<Count, 2> met_;
  bool yields_ = false;
};

/// Seconds from a store on one core until the other has seen it and stored in turn.
double one_way(Duet& duet, int a, int b, int turns) {
  double best = 0;
  const auto first = [&] {
    for (int attempt = 0; attempt < kTries; ++attempt) {
      const auto start = Clock::now();
      for (int i = 0; i < turns; ++i) {
        duet.pass(1);
        if (!duet.await(2)) return;
      }
      keep_best(best, since(start) / turns / 2);
    }
  };
  const auto second = [&] {
    for (int i = 0; i < turns * kTries; ++i) {
      if (!duet.await(1)) return;
      duet.pass(2);
    }
  };
  return duet.play(a, b, first, second) ? best : 0;
}

/// Memory of one of the two threads, on its own node, in the pages that programs get. None if the time is over before
/// all of it is there.
class Area {
 public:
  Area(uint64_t bytes, Duet& duet) : bytes_(bytes) {
    constexpr uint64_t kPage = 4096, kPages = uint64_t{1} << 20;
    void* const made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) return;
    mapped_ = static_cast<std::byte*>(made);
    for (uint64_t at = 0; at < bytes; at += kPage) {
      if (at % kPages == 0 && duet.over()) return;
      mapped_[at] = std::byte{1};
    }
    data_ = mapped_;
  }
  ~Area() {
    if (mapped_ != nullptr) munmap(mapped_, bytes_);
  }
  Area(const Area&) = delete;
  Area& operator=(const Area&) = delete;
  std::byte* data() const { return data_; }

 private:
  uint64_t bytes_;
  std::byte *mapped_ = nullptr, *data_ = nullptr;
};

/// What both threads do, each with its own area and its own figures.
class Copies {
 public:
  Copies(Duet& duet, const CacheSizes& caches, bool share) : duet_(duet) {
    const double both = static_cast<double>(caches.last) * (share ? 1 : 2) * kBeyond;
    beyond_ = both <= static_cast<double>(kMaxBeyond) ? static_cast<uint64_t>(both) / 4 / kGrain * kGrain : 0;
  }

  void run(size_t me) {
    areas_[me].emplace(3 * Calibration::kSizes.back(), duet_);
    if (!duet_.meet(me) || source(0) == nullptr || source(1) == nullptr) return;
    complete_[me] = measure_copies(me) && measure_tiles(me) && measure_stores(me);
    if (complete_[me]) measure_beyond(me);
  }

  /// All but what lies beyond the caches, which comes last, was measured in time.
  bool complete() const { return complete_[0] && complete_[1]; }

  /// Of both, the slower one's.
  Calibration slower() const {
    Calibration all = mine_[0];
    const Calibration& other = mine_[1];
    const auto take = [](auto& times, const auto& others) {
      for (size_t i = 0; i < times.size(); ++i) times[i] = std::max(times[i], others[i]);
    };
    take(all.write, other.write);
    take(all.write_past, other.write_past);
    take(all.read_past, other.read_past);
    take(all.both, other.both);
    for (size_t way = 0; way < all.read.size(); ++way) take(all.read[way], other.read[way]);
    take(all.kernel, other.kernel);
    take(all.fold, other.fold);
    take(all.stored, other.stored);
    take(all.streamed, other.streamed);
    take(all.tiled, other.tiled);
    all.beyond_stored = std::max(all.beyond_stored, other.beyond_stored);
    all.beyond_streamed = std::max(all.beyond_streamed, other.beyond_streamed);
    return all;
  }

 private:
  static constexpr uint64_t kGrain = 64 << 10;

  std::byte* source(size_t of) const { return areas_[of]->data(); }
  std::byte* slot(size_t of) const { return source(of) + Calibration::kSizes.back(); }
  std::byte* destination(size_t of) const { return source(of) + 2 * Calibration::kSizes.back(); }

  void measure_beyond(size_t me) {
    if (beyond_ == 0) return;
    const Area area(2 * beyond_, duet_);
    if (area.data() == nullptr) return;
    const auto bytes = static_cast<double>(beyond_);
    for (int turn = 0; turn < 2 * 2; ++turn) {
      const bool streams = turn % 2 == 1;
      if (!duet_.meet(me)) return;
      const double seconds =
          time_of([&] { copy_through_registers(area.data() + beyond_, nullptr, area.data(), beyond_, streams); });
      keep_best(streams ? mine_[me].beyond_streamed : mine_[me].beyond_stored, seconds / bytes);
    }
  }

  /// The next slot of so many bytes. As those of messages, slots of a ring follow each other, so that the lines of one
  /// have left the reader's second cache when it is used again.
  uint64_t next_slot(size_t me, uint64_t bytes) {
    uint64_t& next = next_slot_[me];
    if (bytes < machine_constants().ring_from || next + bytes > Calibration::kSizes.back()) next = 0;
    return std::exchange(next, next + bytes);
  }

  /// Each writes data, stores them to its slot past the cache, and reads the other's slot.
  bool measure_past(size_t me, size_t i) {
    const uint64_t bytes = Calibration::kSizes[i], at = next_slot(me, bytes);
    std::memset(source(me), 2, bytes);
    if (!duet_.meet(me)) return false;
    keep_best(mine_[me].write_past[i], time_of([&] { copy_bytes(slot(me) + at, nullptr, source(me), bytes, true); }));
    if (!duet_.meet(me)) return false;
    keep_best(mine_[me].read_past[i],
              time_of([&] { copy_by(CopyWay::Memcpy, destination(me), slot(1 - me) + at, bytes); }));
    return true;
  }

  /// As if messages had gone round once: all slots were read by the other, whose cores hold their lines now.
  bool use_all_slots(size_t me) {
    std::memset(slot(me), 0, Calibration::kSizes.back());
    if (!duet_.meet(me)) return false;
    copy_by(CopyWay::Memcpy, destination(me), slot(1 - me), Calibration::kSizes.back());
    return duet_.meet(me);
  }

  /// Each writes data, copies them to its slot, and reads the other's slot.
  bool measure_copies(size_t me) {
    if (!use_all_slots(me)) return false;
    Calibration& mine = mine_[me];
    for (size_t i = 0; i < Calibration::kSizes.size(); ++i) {
      const uint64_t bytes = Calibration::kSizes[i];
      for (int turn = 0; turn < (bytes <= kQuick ? kQuickTries : kTries); ++turn) {
        for (uint32_t way = 1; way <= Calibration::kWays; ++way) {
          const uint64_t at = next_slot(me, bytes);
          std::memset(source(me), turn, bytes);
          const bool twice = way == 2;
          const auto fill = [&] {
            twice ? copy_bytes(destination(me), slot(me) + at, source(me), bytes, false)
                  : copy_bytes(slot(me) + at, nullptr, source(me), bytes, false);
          };
          if (!duet_.meet(me)) return false;
          keep_best(twice ? mine.both[i] : mine.write[i], time_of(fill));
          if (!duet_.meet(me)) return false;
          const auto read = [&] { copy_by(static_cast<CopyWay>(way), destination(me), slot(1 - me) + at, bytes); };
          keep_best(mine.read[way - 1][i], time_of(read));
        }
        if (!measure_past(me, i) || !measure_fold(me, bytes, mine.fold[i]) ||
            !measure_kernel(me, bytes, mine.kernel[i]))
          return false;
      }
    }
    return true;
  }

  bool measure_fold(size_t me, uint64_t bytes, double& best) {
    if (!duet_.meet(me)) return false;
    std::memset(slot(me), 0, bytes);
    std::memset(source(me), 0, bytes);
    if (!duet_.meet(me)) return false;
    keep_best(best, time_of([&] { sum(destination(me), source(me), slot(1 - me), bytes); }));
    return duet_.meet(me);
  }

  bool measure_kernel(size_t me, uint64_t bytes, double& best) {
    std::memset(source(me), 1, bytes);
    if (!duet_.meet(me)) return false;
    bool done = false;
    const double seconds = time_of([&] { done = fetch(destination(me), source(1 - me), bytes); });
    if (done) keep_best(best, seconds);
    return duet_.meet(me);
  }

  bool measure_tiles(size_t me) {
    constexpr uint64_t kTiled = Calibration::kTiled;
    for (int turn = 0; turn < 2; ++turn) {
      for (size_t i = 0; i < Calibration::kTiles.size(); ++i) {
        std::memset(source(me), 0, kTiled);
        if (!duet_.meet(me)) return false;
        bool done = true;
        const double seconds = time_of([&] {
          for (uint64_t at = 0; at < kTiled && done; at += Calibration::kTiles[i]) {
            done = fetch(destination(me), source(1 - me) + at, Calibration::kTiles[i]);
            sum(slot(me) + at, slot(me) + at, destination(me), Calibration::kTiles[i]);
          }
        });
        if (done) keep_best(mine_[me].tiled[i], seconds);
        if (!duet_.meet(me)) return false;
      }
    }
    return true;
  }

  bool measure_stores(size_t me) {
    for (size_t i = 0; i < Calibration::kSizes.size(); ++i) {
      const uint64_t bytes = Calibration::kSizes[i];
      for (int turn = 0; turn < 2 * kTries; ++turn) {
        const bool streams = turn % 2 == 1;
        if (!duet_.meet(me)) return false;
        const auto copy = [&] { copy_bytes(destination(me), nullptr, source(me), bytes, streams); };
        keep_best(streams ? mine_[me].streamed[i] : mine_[me].stored[i], time_of(copy));
      }
    }
    return true;
  }

  static bool fetch(std::byte* to, const std::byte* from, uint64_t bytes) {
    return link::cma_read(getpid(), reinterpret_cast<const unsigned char*>(from), reinterpret_cast<unsigned char*>(to),
                          bytes) == 0;
  }
  static void sum(std::byte* to, const std::byte* a, const std::byte* b, uint64_t bytes) {
    static const FoldFn kFold = fold_function(DType::F32, Op::Sum);
    const std::byte* const sources[] = {a, b};
    kFold({.dst = to,
           .dst2 = nullptr,
           .sources = sources,
           .source_count = 2,
           .count = bytes / sizeof(float),
           .shape = FoldShape::Left,
           .stream = false,
           .round_each = false,
           .divide_by = 0,
           .scaled_source = -1,
           .scale = nullptr});
  }

  Duet& duet_;
  uint64_t beyond_ = 0;                       // bytes of a buffer
  std::array<std::optional<Area>, 2> areas_;  // kept until both have ended: a late one leaves while the other reads
  std::array<Calibration, 2> mine_;
  std::array<uint64_t, 2> next_slot_ = {};  // both follow the same positions
  std::array<bool, 2> complete_ = {};
};

/// Does the same last cache serve both?
bool share_last_cache(int a, int b) {
  const auto of_a = caches_of(a);
  if (of_a.empty()) return true;
  const Cores& served = of_a.back().processors;
  return std::find(served.begin(), served.end(), b) != served.end();
}

}  // namespace

std::optional<Calibration> calibrate(const Cores& cores, std::chrono::nanoseconds longest) {
  if (cores.size() < 2) return {};
  const auto start = Clock::now();
  const int a = cores.front(), next = cores[1], last = cores.back();
  Duet duet(start + longest);
  const double near_line = one_way(duet, a, next, kLines);
  const double far_line = last == next ? near_line : one_way(duet, a, last, kLines);
  duet.yield_while_waiting(true);
  const double thread_switch = one_way(duet, a, a, kSwitches);
  duet.yield_while_waiting(false);
  const CacheSizes caches = cache_sizes(cores);
  Copies copies(duet, caches, share_last_cache(a, last));
  duet.play_both(a, last, [&](size_t me) { copies.run(me); });
  if (!copies.complete()) return {};
  Calibration measured = copies.slower();
  measured.near_line = near_line;
  measured.far_line = far_line;
  measured.thread_switch = thread_switch;
  measured.caches = caches;
  measured.took = since(start);
  return measured;
}

}  // namespace tutti::select
