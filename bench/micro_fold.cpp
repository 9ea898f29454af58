// The memory bandwidth of the fold kernels on one core, compared with the fastest copy.
//
// FoldAgainstCopy alternates copies and a two-source sum, so that other load disturbs both alike, and
// compares medians of bytes moved per second: a copy moves 2 n, a sum of two 3 n. `ratio` is the best sum over the best
// copy. Fold/… gives each kernel's own figure: (sources + destinations) · n over time.
#include <benchmark/benchmark.h>

#include <time.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "reduce/fold.hpp"

namespace tutti {
namespace {

/// 64-byte aligned, touched; each starts at another offset in its page, so that the buffers' lines do not collide.
class Buffer {
 public:
  explicit Buffer(size_t bytes, size_t index = 0)
      : memory_(new std::byte[bytes + 8192]),
        begin_(memory_.get() + (8192 - reinterpret_cast<uintptr_t>(memory_.get()) % 4096) % 4096 + index * 576) {
    memset(memory_.get(), 0, bytes + 8192);
  }
  std::byte* data() const { return begin_; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::byte* begin_;
};

/// Processor time of this thread only.
double seconds_of(const auto& work) {
  const auto now = [] {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  const double start = now();
  work();
  return now() - start;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

void fold_against_copy(benchmark::State& state) {
  const size_t bytes = static_cast<size_t>(state.range(0));
  const Buffer a(bytes, 0), b(bytes, 1), c(bytes, 2);
  const std::byte* sources[] = {a.data(), b.data()};
  const FoldFn sum = fold_function(DType::F32, Op::Sum);
  FoldCall call{c.data(), nullptr, sources, 2, bytes / 4, FoldShape::Left, false, false, 0, -1, nullptr};
  FoldCall in_place = call, streamed = call;
  in_place.dst = a.data();
  streamed.stream = true;
  std::vector<double> times[5];
  for (auto _ : state) {
    const double turn[] = {seconds_of([&] { memcpy(c.data(), a.data(), bytes); }),
                           seconds_of([&] { copy_bytes(c.data(), nullptr, a.data(), bytes, true); }),
                           seconds_of([&] { sum(call); }), seconds_of([&] { sum(streamed); }),
                           seconds_of([&] { sum(in_place); })};
    double total = 0;
    for (int i = 0; i < 5; ++i) times[i].push_back(turn[i]), total += turn[i];
    state.SetIterationTime(total);
  }
  const double n = static_cast<double>(bytes) / 1e9;
  const double copied = 2 * n / median(times[0]), copied_streaming = 2 * n / median(times[1]);
  const double summed = 3 * n / median(times[2]), summed_streaming = 3 * n / median(times[3]);
  const double summed_in_place = 3 * n / median(times[4]);
  state.counters["memcpy_GBps"] = copied;
  state.counters["copy_stream_GBps"] = copied_streaming;
  state.counters["sum_GBps"] = summed;
  state.counters["sum_stream_GBps"] = summed_streaming;
  state.counters["sum_in_place_GBps"] = summed_in_place;
  state.counters["ratio"] = std::max(summed, summed_streaming) / std::max(copied, copied_streaming);
  state.counters["ratio_in_place"] = summed_in_place / std::max(copied, copied_streaming);
}

/// The operands of one kernel benchmark.
struct Case {
  const char* name;
  DType type;
  Op op;
  uint32_t sources;
  FoldShape shape;
  bool dst2, stream;
};

void fold_case(benchmark::State& state, const Case& what) {
  const size_t bytes = static_cast<size_t>(state.range(0));
  std::vector<Buffer> buffers;
  std::vector<const std::byte*> sources;
  for (uint32_t j = 0; j < what.sources; ++j) sources.push_back(buffers.emplace_back(bytes, j % 6).data());
  const Buffer dst(bytes, 6), dst2(bytes, 7);
  const FoldCall call{dst.data(),
                      what.dst2 ? dst2.data() : nullptr,
                      sources.data(),
                      what.sources,
                      bytes / size_of(what.type),
                      what.shape,
                      what.stream,
                      false,
                      what.op == Op::Avg ? what.sources : 0,
                      -1,
                      nullptr};
  const FoldFn kernel = fold_function(what.type, what.op);
  for (auto _ : state) {
    kernel(call);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes * (what.sources + (what.dst2 ? 2 : 1))));
}

constexpr FoldShape kLeft = FoldShape::Left, kTree = FoldShape::Tree;
constexpr Case kCases[] = {
    {"f32_sum_2", DType::F32, Op::Sum, 2, kLeft, false, false},
    {"f32_sum_2_stream", DType::F32, Op::Sum, 2, kLeft, false, true},
    {"f32_sum_2_dual", DType::F32, Op::Sum, 2, kLeft, true, false},
    {"f32_sum_4", DType::F32, Op::Sum, 4, kLeft, false, false},
    {"f32_sum_4_tree", DType::F32, Op::Sum, 4, kTree, false, false},
    {"f32_sum_8_tree", DType::F32, Op::Sum, 8, kTree, false, false},
    {"f32_avg_2", DType::F32, Op::Avg, 2, kLeft, false, false},
    {"f32_max_2", DType::F32, Op::Max, 2, kLeft, false, false},
    {"f16_sum_2", DType::F16, Op::Sum, 2, kLeft, false, false},
    {"f16_sum_4", DType::F16, Op::Sum, 4, kLeft, false, false},
    {"bf16_sum_2", DType::BF16, Op::Sum, 2, kLeft, false, false},
    {"bf16_sum_4", DType::BF16, Op::Sum, 4, kLeft, false, false},
    {"bf16_sum_2_dual", DType::BF16, Op::Sum, 2, kLeft, true, false},
    {"f8e4m3_sum_2", DType::F8E4M3, Op::Sum, 2, kLeft, false, false},
    {"f8e5m2_sum_2", DType::F8E5M2, Op::Sum, 2, kLeft, false, false},
    {"i32_avg_2", DType::I32, Op::Avg, 2, kLeft, false, false},
    {"i64_prod_2", DType::I64, Op::Prod, 2, kLeft, false, false},
};

const bool registered = [] {
  benchmark::RegisterBenchmark("FoldAgainstCopy", fold_against_copy)
      ->Arg(64 << 20)
      ->Iterations(31)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
  for (const Case& what : kCases) {
    benchmark::RegisterBenchmark((std::string("Fold/") + what.name).c_str(), fold_case, what)
        ->Arg(8)
        ->Arg(4 << 10)
        ->Arg(256 << 10)
        ->Arg(16 << 20)
        ->MinTime(0.05);
  }
  return true;
}();

}  // namespace
}  // namespace tutti
