// A repeated call allocates nothing, and memory does not grow with the number of calls.
//
//   tutti run -n 2 -- tutti_repeated_calls CALLS    as a rank of a job
//   tutti_repeated_calls CALLS THREADS              as this many ranks, one per thread
//
// Counts the calling thread's allocations (malloc and operator new) in every collective, and in the one-sided calls on
// memory that peers map and on other memory, at three sizes. Also makes CALLS small all-reduces and compares the
// process's own memory.
// Exit status 0: nothing was allocated, and memory has not grown.
#include <fmt/format.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace {
thread_local uint64_t t_allocations = 0;
}

// glibc's internal names of the allocation functions: the wrappers only count.
extern "C" {
void* __libc_malloc(size_t bytes);                      // NOLINT
void* __libc_calloc(size_t count, size_t bytes);        // NOLINT
void* __libc_realloc(void* memory, size_t bytes);       // NOLINT
void* __libc_memalign(size_t alignment, size_t bytes);  // NOLINT
void* malloc(size_t bytes) { return ++t_allocations, __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) { return ++t_allocations, __libc_calloc(count, bytes); }
void* realloc(void* memory, size_t bytes) { return ++t_allocations, __libc_realloc(memory, bytes); }
void* aligned_alloc(size_t alignment, size_t bytes) { return ++t_allocations, __libc_memalign(alignment, bytes); }
}

namespace {

constexpr size_t kMax = size_t{1} << 18;  // elements of a block

void check(tuttiResult_t result) {
  if (result == tuttiSuccess) return;
  fmt::print(stderr, "{}\n", tuttiGetLastError());
  std::_Exit(2);
}

struct Call {
  const char* name;
  std::function<tuttiResult_t(size_t)> make;
};

class Rank {
 public:
  explicit Rank(tuttiComm_t comm) : comm_(comm) {
    check(tuttiCommUserRank(comm, &rank_));
    check(tuttiCommCount(comm, &ranks_));
    in_.resize(kMax * static_cast<size_t>(ranks_));
    out_.resize(in_.size());
  }

  /// Calls that allocated.
  int count_all() { return count(calls()); }
  int count_one_sided() {
    void* mapped = nullptr;
    check(tuttiMemAlloc(&mapped, kMax * sizeof(float)));
    const int wrong = count_on(mapped) + count_on(part_.data());
    check(tuttiMemFree(mapped));
    return wrong;
  }

  void make_many(long calls) {
    for (long i = 0; i < calls; ++i) check(tuttiAllReduce(in(), out(), 2, tuttiFloat32, tuttiSum, comm_, nullptr));
  }
  int rank() const { return rank_; }

 private:
  int count(const std::vector<Call>& calls) {
    int wrong = 0;
    for (const Call& call : calls) {
      for (const size_t count : {size_t{2}, size_t{1024}, kMax}) wrong += count_one(call, count) ? 0 : 1;
    }
    return wrong;
  }

  /// One-sided calls on that memory.
  int count_on(void* part) {
    check(tuttiWindowRegister(comm_, part, kMax * sizeof(float), &window_));
    const int wrong = count(one_sided_calls());
    check(tuttiWindowDeregister(window_));
    return wrong;
  }

  float* in() { return in_.data(); }
  float* out() { return out_.data(); }
  int next() const { return (rank_ + 1) % ranks_; }
  /// Of few bytes: a rank that waits as long as others copy a megabyte looks what is wrong with them.
  tuttiResult_t pass_on(size_t bytes) {
    check(tuttiPutSignal(in(), bytes, next(), 0, 0, window_, nullptr));
    return tuttiWaitSignal((rank_ + ranks_ - 1) % ranks_, 0, 1, window_, nullptr);
  }

  std::vector<Call> calls() {
    constexpr auto kType = tuttiFloat32;
    return {
        {"all_reduce", [&](size_t n) { return tuttiAllReduce(in(), out(), n, kType, tuttiSum, comm_, nullptr); }},
        {"all_gather", [&](size_t n) { return tuttiAllGather(in(), out(), n, kType, comm_, nullptr); }},
        {"reduce_scatter",
         [&](size_t n) { return tuttiReduceScatter(in(), out(), n, kType, tuttiSum, comm_, nullptr); }},
        {"all_to_all", [&](size_t n) { return tuttiAllToAll(in(), out(), n, kType, comm_, nullptr); }},
        {"broadcast", [&](size_t n) { return tuttiBroadcast(in(), out(), n, kType, 0, comm_, nullptr); }},
        {"reduce", [&](size_t n) { return tuttiReduce(in(), out(), n, kType, tuttiSum, 0, comm_, nullptr); }},
        {"gather", [&](size_t n) { return tuttiGather(in(), out(), n, kType, 0, comm_, nullptr); }},
        {"scatter", [&](size_t n) { return tuttiScatter(in(), out(), n, kType, 0, comm_, nullptr); }},
        {"barrier", [&](size_t) { return tuttiBarrier(comm_, nullptr); }},
    };
  }

  std::vector<Call> one_sided_calls() {
    return {
        {"put", [&](size_t n) { return tuttiPut(in(), n * sizeof(float), next(), 0, window_, nullptr); }},
        {"get", [&](size_t n) { return tuttiGet(out(), n * sizeof(float), next(), 0, window_, nullptr); }},
        {"flush", [&](size_t) { return tuttiFlush(next(), window_, nullptr); }},
        {"atomic_add", [&](size_t) { return tuttiAtomicAdd(1, nullptr, next(), 0, window_, nullptr); }},
        {"put_signal and wait_signal", [&](size_t n) { return pass_on(std::min<size_t>(n, 1024) * sizeof(float)); }},
    };
  }

  /// The call with this size and, in turn, with one element less: both have been made before. A rank that waits long
  /// for another one, as on a busy machine, looks what is wrong with it, and may allocate; but not every time.
  bool count_one(const Call& call, size_t count) {
    constexpr int kCalls = 20, kBatches = 3;
    const auto make = [&](int calls) {
      for (int i = 0; i < calls; ++i) check(call.make(count - static_cast<size_t>(i % 2)));
    };
    make(6);
    uint64_t least = UINT64_MAX;
    for (int batch = 0; batch < kBatches; ++batch) {
      const uint64_t before = t_allocations;
      make(kCalls);
      least = std::min(least, t_allocations - before);
    }
    if (least > 0) {
      fmt::print("rank {}: {} of {} elements: {} allocations in {} calls\n", rank_, call.name, count, least, kCalls);
    }
    return least == 0;
  }

  tuttiComm_t comm_;
  int rank_ = 0, ranks_ = 1;
  std::vector<float> in_, out_, part_ = std::vector<float>(kMax);
  tuttiWindow_t window_ = nullptr;
};

/// Bytes of this process's own memory, without pages of files and of memory shared with others: those come and go as
/// the system likes. Counted page by page: statm(5) may be some 64 pages off for each processor.
long own_memory() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;) {
    long kilobytes = 0;
    if (word == "Anonymous:" && file >> kilobytes) return kilobytes << 10;
  }
  fmt::print(stderr, "/proc/self/smaps_rollup does not tell how much memory is anonymous\n");
  std::_Exit(2);
}

int play(tuttiComm_t comm, long calls) {
  Rank rank(comm);
  int wrong = rank.count_all();
  rank.make_many(calls / 10);
  const long before = own_memory();
  rank.make_many(calls);
  const long grown = own_memory() - before;
  // The watch for slow ranks copies the ring of events once a second, which takes its thread some 350 KiB, once. Calls
  // that leave something behind leave at least 32 bytes of malloc each.
  constexpr long kTolerance = 1 << 20;
  fmt::print("rank {}: {} calls, own memory {:+} bytes\n", rank.rank(), calls, grown);
  if (grown > kTolerance) ++wrong;
  wrong += rank.count_one_sided();
  check(tuttiCommDestroy(comm));
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const long calls = argc > 1 ? std::atol(argv[1]) : 1000;
  const int threads = argc > 2 ? std::atoi(argv[2]) : 0;
  if (threads == 0) {
    tuttiComm_t comm = nullptr;
    check(tuttiCommInitEnv(&comm));
    return play(comm, calls);
  }
  std::vector<tuttiComm_t> comms(static_cast<size_t>(threads));
  check(tuttiCommInitAll(comms.data(), threads));
  std::vector<int> wrong(comms.size());
  std::vector<std::thread> ranks;
  for (size_t i = 0; i < comms.size(); ++i) ranks.emplace_back([&, i] { wrong[i] = play(comms[i], calls); });
  for (auto& rank : ranks) rank.join();
  int all = 0;
  for (const int one : wrong) all += one;
  return all == 0 ? 0 : 1;
}
