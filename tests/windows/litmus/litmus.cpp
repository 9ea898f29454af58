#include "windows/litmus/litmus.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>

namespace tutti::litmus {
namespace {

constexpr uint64_t kFewRuns = 256;
constexpr uint64_t kWord = sizeof(uint64_t);
constexpr int kMeeting = TUTTI_SIGNALS - 1;  // the number of a signal that tests do not use

/// Ends the rank's part in the test: the others are told by the communicator's own failure.
void must(tuttiResult_t result) {
  if (result != tuttiSuccess) throw std::runtime_error(tuttiGetLastError());
}

uint64_t runs_wanted(const Litmus& test) {
  const char* const text = std::getenv("LITMUS_RUNS");
  const uint64_t all = text != nullptr ? std::strtoull(text, nullptr, 10) : kFewRuns;
  return std::max<uint64_t>(1, all / test.share);
}

bool on_hosts() { return std::getenv("TUTTI_FORCE_REMOTE") != nullptr; }

/// All parts, on all ranks.
bool have_addresses(Parts parts) { return parts == Parts::Mapped && !on_hosts(); }

Memory memory_of(Parts parts, int rank) {
  const bool mapped = parts == Parts::Mapped || (parts == Parts::Mixed && rank % 2 == 0);
  return mapped ? Memory::Mapped : Memory::Ordinary;
}

/// What all words are, or kTorn.
uint64_t value_of(std::span<const uint64_t> words) {
  const bool same = std::all_of(words.begin(), words.end(), [&](uint64_t word) { return word == words[0]; });
  return same ? words[0] : kTorn;
}

/// "0:r0=1 1:r0=0 …".
std::string text_of(const Outcome& outcome, size_t registers) {
  std::string text;
  for (size_t rank = 0; rank < outcome.size(); ++rank) {
    for (size_t i = 0; i < registers; ++i) {
      text += (text.empty() ? "" : " ") + std::to_string(rank) + ":r" + std::to_string(i) + "=" +
              std::to_string(outcome[rank][i]);
    }
  }
  return text;
}

}  // namespace

/// A rank's runs between two barriers.
class Thread::Batch {
 public:
  Batch(const Litmus& litmus, const Member& member, Parts parts)
      : test(litmus),
        me(member),
        words(member, (litmus.locations + 1) * runs() * litmus.cell_words, memory_of(parts, member.rank)) {
    if (test.way == Way::Stream) must(tuttiStreamCreate(&stream));
    for (int rank = 0; have_addresses(parts) && rank < member.ranks; ++rank) {
      void* address = nullptr;
      must(tuttiWindowPeer(words.window, rank, &address));
      at.push_back(static_cast<uint64_t*>(address));
    }
  }
  ~Batch() {
    if (stream != nullptr) {
      OK(tuttiStreamDestroy(stream));
    }
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  /// Long cells would fill the caches.
  size_t runs() const { return std::max<size_t>(4, kBatch * 8 / test.cell_words); }
  size_t first_word(size_t location, size_t run) const { return (location * runs() + run) * test.cell_words; }
  size_t offset(Place place, size_t run) const { return first_word(place.location, run) * kWord; }
  size_t moved_words() const { return test.one_word ? 1 : test.cell_words; }
  size_t moved_bytes() const { return moved_words() * kWord; }

  /// Makes the runs. When it returns, all ranks have made theirs, and `registers` is what they saw.
  void play() {
    std::fill_n(words.data, (test.locations + 1) * runs() * test.cell_words, 0);
    registers.assign(runs(), Registers{});
    must(tuttiWindowBarrier(words.window, nullptr));
    for (size_t number = 0; number < runs(); ++number) {
      Thread thread(*this, number);
      test.thread(thread);
    }
    if (stream != nullptr) must(tuttiStreamSynchronize(stream));
    for (const Gotten& one : gotten) *one.into = value_of(one.words);
    gotten.clear();
    sources.clear();
    must(tuttiWindowBarrier(words.window, nullptr));
  }

  /// That of each run.
  std::vector<Outcome> outcomes() const {
    const size_t count = runs() * kRegisters;
    std::vector<uint64_t> all(count * static_cast<size_t>(me.ranks));
    must(tuttiAllGather(registers.data(), all.data(), count, tuttiUint64, me.comm, nullptr));
    std::vector<Outcome> result(runs(), Outcome(static_cast<size_t>(me.ranks)));
    for (size_t run = 0; run < runs(); ++run) {
      for (size_t rank = 0; rank < result[run].size(); ++rank) {
        std::copy_n(all.data() + rank * count + run * kRegisters, kRegisters, result[run][rank].begin());
      }
    }
    return result;
  }

  /// Lasts until the batch has ended.
  const uint64_t* source_of(uint64_t value) {
    return sources.emplace_back(std::make_unique<std::vector<uint64_t>>(test.cell_words, value))->data();
  }

  struct Gotten {
    uint64_t* into;
    std::vector<uint64_t> words;
  };
  const Litmus& test;
  const Member& me;
  Words words;
  tuttiStream_t stream = nullptr;
  std::vector<uint64_t*> at;  // addresses of parts; empty: not all have one. The last location is for meetings
  const bool crowded = std::thread::hardware_concurrency() < static_cast<unsigned>(me.ranks);
  std::vector<Registers> registers;
  std::vector<std::unique_ptr<std::vector<uint64_t>>> sources;
  std::vector<Gotten> gotten;  // on the stream
};

Thread::Thread(Batch& batch, size_t number)
    : rank(batch.me.rank), peer(1 - batch.me.rank), batch_(batch), number_(number) {}

bool races_with_the_system() {
#ifdef __SANITIZE_THREAD__
  return on_hosts() || std::getenv("TUTTI_CMA") != nullptr;
#else
  return false;
#endif
}

uint64_t& Thread::reg(size_t number) { return batch_.registers[number_][number]; }

void Thread::put(uint64_t value, Place to) {
  must(tuttiPut(batch_.source_of(value), batch_.moved_bytes(), to.rank, batch_.offset(to, number_), batch_.words.window,
                batch_.stream));
}

void Thread::put_signal(uint64_t value, Place to, int signal) {
  must(tuttiPutSignal(batch_.source_of(value), batch_.moved_bytes(), to.rank, batch_.offset(to, number_), signal,
                      batch_.words.window, batch_.stream));
}

void Thread::signal(int to, int number) { must(tuttiSignal(to, number, batch_.words.window, batch_.stream)); }

void Thread::wait(int from, int number, uint64_t count) {
  must(tuttiWaitSignal(from, number, count, batch_.words.window, batch_.stream));
}

void Thread::get(size_t into, Place from) {
  std::vector<uint64_t> words(batch_.moved_words());
  uint64_t* const target = words.data();
  must(tuttiGet(target, batch_.moved_bytes(), from.rank, batch_.offset(from, number_), batch_.words.window,
                batch_.stream));
  if (batch_.stream == nullptr) {
    reg(into) = value_of(words);
  } else {
    batch_.gotten.push_back({&reg(into), std::move(words)});
  }
}

void Thread::own(size_t into, size_t location) {
  if (batch_.stream != nullptr) return get(into, {rank, location});
  reg(into) = value_of({batch_.words.data + batch_.first_word(location, number_), batch_.moved_words()});
}

void Thread::add(uint64_t operand, Place to, size_t before) {
  must(tuttiAtomicAdd(operand, &reg(before), to.rank, batch_.offset(to, number_), batch_.words.window, batch_.stream));
}

void Thread::add(uint64_t operand, Place to) {
  must(tuttiAtomicAdd(operand, nullptr, to.rank, batch_.offset(to, number_), batch_.words.window, batch_.stream));
}

void Thread::swap(uint64_t expected, uint64_t desired, Place at, size_t before) {
  must(tuttiAtomicCompareSwap(expected, desired, &reg(before), at.rank, batch_.offset(at, number_), batch_.words.window,
                              batch_.stream));
}

void Thread::flush(int to) { must(tuttiFlush(to, batch_.words.window, batch_.stream)); }

void Thread::barrier() { must(tuttiWindowBarrier(batch_.words.window, batch_.stream)); }

std::atomic_ref<uint64_t> Thread::word(Place at) const {
  return std::atomic_ref(batch_.at[static_cast<size_t>(at.rank)][batch_.first_word(at.location, number_)]);
}

void Thread::together(const std::function<void()>& calls) const {
  if (batch_.test.way != Way::Group) return calls();
  must(tuttiGroupStart());
  calls();
  must(tuttiGroupEnd());
}

void Thread::meet() {
  if (batch_.stream != nullptr) return;
  if (batch_.at.empty()) {
    for (int other = 0; other < batch_.me.ranks; ++other) signal(other, kMeeting);
    for (int other = 0; other < batch_.me.ranks; ++other) wait(other, kMeeting);
  } else {
    const auto here = word({0, batch_.test.locations});
    here.fetch_add(1);
    for (int turns = 0; here.load() < static_cast<uint64_t>(batch_.me.ranks); ++turns) {
      if (batch_.crowded || turns > 2000) std::this_thread::yield();
    }
  }
  static thread_local uint64_t state = 88172645463325252u + static_cast<uint64_t>(rank);  // xorshift
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  for (uint64_t left = state % 64; left > 0; --left) asm volatile("" ::: "memory");
}

namespace {

/// What was seen how often.
class Tally {
 public:
  explicit Tally(const Litmus& test) : test_(test) {}

  void add(const Outcome& outcome) {
    const Verdict verdict = test_.judge(outcome);
    ++seen_[{verdict, text_of(outcome, test_.registers)}];
    ++counts_[static_cast<size_t>(verdict)];
  }
  uint64_t runs() const { return counts_[0] + counts_[1] + counts_[2]; }
  uint64_t forbidden() const { return counts_[static_cast<size_t>(Verdict::Forbidden)]; }

  /// Marked: `~` weak, and allowed; `*` forbidden.
  std::string text(Parts parts) const {
    std::string all = test_.name + ", " + name_of(parts) + ": " + std::to_string(runs()) + " runs, " +
                      std::to_string(counts_[1]) + " weak, " + std::to_string(forbidden()) + " forbidden\n";
    for (const auto& [what, count] : seen_) {
      char line[192];
      std::snprintf(line, sizeof line, "%10llu %c> %s\n", static_cast<unsigned long long>(count),
                    " ~*"[static_cast<size_t>(what.first)], what.second.c_str());
      all += line;
    }
    return all;
  }

 private:
  const Litmus& test_;
  std::map<std::pair<Verdict, std::string>, uint64_t> seen_;
  std::array<uint64_t, 3> counts_{};
};

/// Binds this thread to a core, so that ranks do not take turns on one.
void pin(int rank) {
  cpu_set_t allowed, mine;
  CPU_ZERO(&mine);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  int nth = rank % CPU_COUNT(&allowed);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed) && nth-- == 0) CPU_SET(core, &mine);
  }
  sched_setaffinity(0, sizeof mine, &mine);
}

/// On a thread of its own, which ends with it.
void play_as(const Member& me, const Litmus& test, Parts parts) try {
  pin(me.rank);
  Thread::Batch batch(test, me, parts);
  Tally tally(test);
  for (const uint64_t wanted = runs_wanted(test); tally.runs() < wanted && tally.forbidden() == 0;) {
    batch.play();
    for (const Outcome& outcome : batch.outcomes()) tally.add(outcome);
  }
  if (me.rank == 0) std::fputs(tally.text(parts).c_str(), stdout);
  EXPECT_EQ(tally.forbidden(), 0u) << tally.text(parts);
} catch (const std::runtime_error& error) {
  ADD_FAILURE() << test.name << ", " << name_of(parts) << ", rank " << me.rank << ": " << error.what();
}

}  // namespace

void play(const Litmus& test, Parts parts) {
  if (test.at_address && !have_addresses(parts)) return;
  each_rank(
      [&](const Member& me) {
        ASSERT_EQ(me.ranks, test.ranks) << "the job has another number of ranks";
        std::jthread([&] { play_as(me, test, parts); }).join();  // the process's own threads stay free
      },
      test.ranks);
}

std::string name_of(Parts parts) {
  return parts == Parts::Mapped ? "Mapped" : parts == Parts::Ordinary ? "Ordinary" : "Mixed";
}

std::vector<Parts> parts_of_interest() {
  if (std::getenv("TUTTI_RANK") == nullptr || on_hosts()) return {Parts::Mapped};
  return {Parts::Mapped, Parts::Ordinary, Parts::Mixed};
}

}  // namespace tutti::litmus
