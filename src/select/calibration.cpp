#include "select/calibration.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/format.hpp"
#include "base/shallow_json.hpp"
#include "link/cma.hpp"
#include "reduce/fold.hpp"

namespace tutti::select {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

constexpr auto kLongest = std::chrono::milliseconds(45);
constexpr int kLines = 200, kSwitches = 100, kTries = 3;
constexpr double kOverhead = 40e-9;  // of a message beside its cache line: 250 ns where the line takes 210 (table)
constexpr const char* kFormat = "tutti-calibration 1";

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

void bind(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(processor), &set);
  sched_setaffinity(0, sizeof set, &set);  // where it is not permitted, the kernel's choice is measured
}

/// Two threads that take turns.
class Duet {
 public:
  explicit Duet(Clock::time_point deadline) : deadline_(deadline) {}

  /// `first` runs on the processor `a`, `second` on `b`. False if they have not ended in time.
  bool play(int a, int b, const std::function<void()>& first, const std::function<void()>& second) {
    turn_ = 0;
    std::thread other([&] {
      bind(b);
      second();
    });
    std::thread one([&] {
      bind(a);
      first();
    });
    one.join();
    other.join();
    return !late();
  }

  bool late() const { return late_.load(std::memory_order_relaxed); }
  /// Waits until it is this turn; false if the time is over.
  bool await(uint32_t turn) {
    for (uint32_t spins = 0; turn_.load(std::memory_order_acquire) != turn; ++spins) {
      if (late()) return false;
      if (spins % 64 == 63 && Clock::now() > deadline_) late_ = true;
      if (yields_) sched_yield();
    }
    return true;
  }
  void pass(uint32_t turn) { turn_.store(turn, std::memory_order_release); }
  void yield_while_waiting(bool yes) { yields_ = yes; }

 private:
  Clock::time_point deadline_;
  alignas(128) std::atomic<uint32_t> turn_{0};
  alignas(128) std::atomic<bool> late_{false};
  bool yields_ = false;
};

/// Seconds from a store on one core until the other has seen it and stored in turn.
double one_way(Duet& duet, int a, int b, int turns) {
  double best = 1;
  duet.play(
      a, b,
      [&] {
        for (int attempt = 0; attempt < kTries; ++attempt) {
          const auto start = Clock::now();
          for (int i = 0; i < turns; ++i) {
            duet.pass(1);
            if (!duet.await(2)) return;
          }
          best = std::min(best, since(start) / turns / 2);
        }
        duet.pass(3);
      },
      [&] {
        for (int i = 0; i < turns * kTries; ++i) {
          if (!duet.await(1)) return;
          duet.pass(2);
        }
      });
  return duet.late() ? 0 : best;
}

class Buffers {
 public:
  Buffers() {
    for (auto& buffer : all_) {
      buffer = std::make_unique<std::byte[]>(Calibration::kSizes.back());
      std::memset(buffer.get(), 1, Calibration::kSizes.back());
    }
  }
  std::byte* source() { return all_[0].get(); }
  std::byte* slot() { return all_[1].get(); }
  std::byte* destination() { return all_[2].get(); }

 private:
  std::array<std::unique_ptr<std::byte[]>, 3> all_;
};

void keep_best(double& best, double seconds) { best = best == 0 ? seconds : std::min(best, seconds); }

/// The writer's core writes data and copies them to the slot; the reader's core copies from the slot, then the kernel
/// does. Then the same size again.
void measure_copies(Duet& duet, Buffers& memory, int a, int b, Calibration& measured) {
  const int turns = static_cast<int>(Calibration::kSizes.size()) * kTries;
  const auto size_at = [](int turn) { return static_cast<size_t>(turn / kTries); };
  const auto timed = [](const auto& copy) {
    const auto start = Clock::now();
    copy();
    return since(start);
  };
  const auto writer = [&] {
    for (int turn = 0; turn < turns; ++turn) {
      const size_t i = size_at(turn), bytes = Calibration::kSizes[i];
      std::memset(memory.source(), turn, bytes);
      keep_best(measured.write[i], timed([&] { copy_bytes(memory.slot(), nullptr, memory.source(), bytes, false); }));
      duet.pass(static_cast<uint32_t>(2 * turn + 1));
      if (!duet.await(static_cast<uint32_t>(2 * turn + 2))) return;
    }
  };
  const auto reader = [&] {
    for (int turn = 0; turn < turns; ++turn) {
      const size_t i = size_at(turn), bytes = Calibration::kSizes[i];
      if (!duet.await(static_cast<uint32_t>(2 * turn + 1))) return;
      keep_best(measured.read[i],
                timed([&] { copy_bytes(memory.destination(), nullptr, memory.slot(), bytes, false); }));
      int error = 0;
      const double kernel = timed([&] {
        error = link::cma_read(getpid(), reinterpret_cast<unsigned char*>(memory.source()),
                               reinterpret_cast<unsigned char*>(memory.destination()), bytes);
      });
      if (error == 0) keep_best(measured.kernel[i], kernel);
      duet.pass(static_cast<uint32_t>(2 * turn + 2));
    }
  };
  duet.play(a, b, writer, reader);
}

void measure_stores(Duet& duet, Buffers& memory, int a, int b, Calibration& measured) {
  const auto work = [&] {
    for (int turn = 0; turn < 2 * kTries && !duet.late(); ++turn) {
      for (size_t i = 0; i < Calibration::kSizes.size(); ++i) {
        const bool streams = turn % 2 == 1;
        const auto start = Clock::now();
        copy_bytes(memory.destination(), nullptr, memory.source(), Calibration::kSizes[i], streams);
        keep_best(streams ? measured.streamed[i] : measured.stored[i], since(start));
      }
    }
  };
  duet.play(a, b, work, [] {});
}

/// Where a line from `sizes` with `values` first lies at or below `other`; 0: nowhere.
double crossing(const Calibration::Times& values, const Calibration::Times& other) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] > other[i]) continue;
    const auto size = static_cast<double>(Calibration::kSizes[i]);
    if (i == 0) return size;
    const double before = std::log(values[i - 1] / other[i - 1]), after = std::log(values[i] / other[i]);
    const auto last = static_cast<double>(Calibration::kSizes[i - 1]);
    return last * std::pow(size / last, before / (before - after));
  }
  return 0;
}

}  // namespace

std::optional<Calibration> calibrate(const Cores& cores) {
  if (cores.size() < 2) return {};
  const int a = cores.front(), next = cores[1], last = cores.back();
  Duet duet(Clock::now() + kLongest);
  Calibration measured;
  Buffers memory;
  measured.near_line = one_way(duet, a, next, kLines);
  measured.far_line = last == next ? measured.near_line : one_way(duet, a, last, kLines);
  measure_copies(duet, memory, a, last, measured);
  measure_stores(duet, memory, a, last, measured);
  duet.yield_while_waiting(true);
  measured.thread_switch = one_way(duet, a, a, kSwitches);
  return duet.late() ? std::nullopt : std::optional(measured);
}

std::string implausible(const Calibration& m) {
  const auto outside = [](double value, double least, double most) { return !(value >= least && value <= most); };
  if (outside(m.near_line, 3e-9, 2e-6) || outside(m.far_line, 3e-9, 2e-6)) {
    return fmt::format("a cache line's way of {:.0f} and {:.0f} ns", m.near_line * 1e9, m.far_line * 1e9);
  }
  if (outside(m.thread_switch, 0.05e-6, 50e-6))
    return fmt::format("a switch of threads in {:.1f} us", m.thread_switch * 1e6);
  for (const auto* times : {&m.write, &m.read, &m.stored, &m.streamed}) {
    for (size_t i = 0; i < times->size(); ++i) {
      const double rate = static_cast<double>(Calibration::kSizes[i]) / (*times)[i];
      if (outside(rate, 0.3e9, 500e9))
        return fmt::format("copies of {} bytes at {:.2g} GB/s", Calibration::kSizes[i], rate / 1e9);
      // A longer copy takes longer.
      if (i > 0 && (*times)[i] < (*times)[i - 1])
        return fmt::format("{} bytes copied faster than fewer", Calibration::kSizes[i]);
    }
  }
  return "";
}

void apply(const Calibration& m, MachineConstants& constants) {
  constexpr size_t kLong = 2;  // 512 KiB: longer than a message, so that the latency is small beside it
  const auto bytes = static_cast<double>(Calibration::kSizes[kLong]);
  constants.shm_alpha = constants.local_alpha = m.far_line + kOverhead;
  // A staged message is written by one core while the other reads the one before.
  constants.shm_beta = std::max(m.write[kLong], m.read[kLong]) / bytes;
  constants.local_beta = m.read[kLong] / bytes;
  constants.context_switch = m.thread_switch;
}

int cma_shift(const Calibration& m) {
  Calibration::Times staged;
  for (size_t i = 0; i < staged.size(); ++i) staged[i] = m.write[i] + m.read[i];
  if (*std::min_element(m.kernel.begin(), m.kernel.end()) <= 0) return 0;  // not permitted: nothing is known
  constexpr int kMost = 2;
  const double from = crossing(m.kernel, staged);
  if (from <= 0) return kMost;
  const auto table = static_cast<double>(MachineConstants{}.cma_transfer_from);
  return std::clamp(static_cast<int>(std::lround(std::log2(from / table))), -kMost, kMost);
}

std::string to_text(const Calibration& m) {
  const json page = {{"format", kFormat},  {"near_line", m.near_line}, {"far_line", m.far_line},
                     {"write", m.write},   {"read", m.read},           {"kernel", m.kernel},
                     {"stored", m.stored}, {"streamed", m.streamed},   {"thread_switch", m.thread_switch}};
  return page.dump() + "\n";
}

std::optional<Calibration> parse_calibration(const std::string& text) {
  try {
    const json page = parse_shallow_json(text);
    if (page.at("format") != kFormat) return {};
    const auto times = [&](const char* name) { return page.at(name).get<Calibration::Times>(); };
    return Calibration{.near_line = page.at("near_line"),
                       .far_line = page.at("far_line"),
                       .write = times("write"),
                       .read = times("read"),
                       .kernel = times("kernel"),
                       .stored = times("stored"),
                       .streamed = times("streamed"),
                       .thread_switch = page.at("thread_switch")};
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace tutti::select
