// Litmus tests of four ranks: independent reads of independent writes (IRIW), write to read causality (WRC), and what
// third ranks see.
#include <atomic>
#include <string>

#include "windows/litmus/litmus.hpp"

namespace tutti::litmus {
namespace {

class LitmusFour : public testing::TestWithParam<Parts> {};
INSTANTIATE_TEST_SUITE_P(, LitmusFour, testing::ValuesIn(parts_of_interest()),
                         [](const auto& of) { return name_of(of.param); });

Verdict forbidden_if(bool seen) { return seen ? Verdict::Forbidden : Verdict::Strong; }

/// Ranks 0 and 1 change a word each, ranks 2 and 3 read both, in the opposite order.
template <class Write, class Read>
Litmus independent_reads(const std::string& name, Verdict of_disagreement, Place x, Place y, Write write, Read read) {
  return {.name = name,
          .ranks = 4,
          .thread =
              [=](Thread& thread) {
                thread.meet();
                if (thread.rank < 2) return write(thread, thread.rank == 0 ? x : y);
                read(thread, 0, thread.rank == 2 ? x : y);
                read(thread, 1, thread.rank == 2 ? y : x);
              },
          .judge =
              [=](const Outcome& seen) {
                const auto one_only = [](const Registers& r) { return r[0] == 1 && r[1] == 0; };
                return one_only(seen[2]) && one_only(seen[3]) ? of_disagreement : Verdict::Strong;
              }};
}

// All ranks see the steps in one order.
TEST_P(LitmusFour, IndependentReads) {
  const auto add = [](Thread& thread, Place at) { thread.add(1, at); };
  const auto read = [](Thread& thread, size_t into, Place at) { thread.read(into, at); };
  const auto swap = [](Thread& thread, size_t into, Place at) { thread.swap(7, 8, at, into); };
  play(independent_reads("IRIW, words of the writers", Verdict::Forbidden, {0, 0}, {1, 1}, add, read), GetParam());
  play(independent_reads("IRIW, words of the readers", Verdict::Forbidden, {3, 0}, {2, 1}, add, read), GetParam());
  play(independent_reads("IRIW, read by compare_swap", Verdict::Forbidden, {0, 0}, {2, 1}, add, swap), GetParam());
}

// The same with operations that the language orders less. (x86 makes a store visible to all others at once.)
TEST_P(LitmusFour, IndependentAcquiresMayDisagree) {
  const auto write = [](Thread& thread, Place at) { thread.word(at).store(1, std::memory_order_release); };
  const auto read = [](Thread& thread, size_t into, Place at) {
    thread.reg(into) = thread.word(at).load(std::memory_order_acquire);
  };
  Litmus test = independent_reads("IRIW of release and acquire", Verdict::Weak, {0, 0}, {1, 1}, write, read);
  test.at_address = true;
  play(test, GetParam());
}

TEST_P(LitmusFour, CausesComeBeforeEffects) {
  play({.name = "WRC, atomic_adds",
        .ranks = 4,
        .thread =
            [](Thread& thread) {
              const Place x{0, 0}, y{3, 1};
              thread.meet();
              if (thread.rank == 0) thread.add(1, x);
              if (thread.rank == 1) {
                thread.read(0, x);
                if (thread.reg(0) == 1) thread.add(1, y);
              }
              if (thread.rank == 2) {
                thread.read(0, y);
                thread.read(1, x);
              }
            },
        .judge = [](const Outcome& seen) { return forbidden_if(seen[2][0] == 1 && seen[2][1] == 0); }},
       GetParam());
}

/// Rank 0 puts into rank 3's part, and signals 1, which signals 2, which reads there; and tells 3, if that is to read.
Litmus passed_on(const std::string& name, Way way, bool flushes) {
  return {.name = name,
          .ranks = 4,
          .registers = 1,
          .way = way,
          .thread =
              [flushes](Thread& thread) {
                const Place x{3, 0};
                if (thread.rank > 0) thread.together([&] { thread.wait(thread.rank - 1); });
                if (thread.rank == 2) thread.get(0, x);
                if (thread.rank == 3 && flushes) thread.own(0, 0);
                thread.together([&] {
                  if (thread.rank == 0) thread.put(1, x);
                  if (thread.rank == 0 && flushes) thread.flush(3);
                  if (thread.rank < 3) thread.signal(thread.rank + 1);
                });
              },
          .judge =
              [flushes](const Outcome& seen) {
                if (flushes) return forbidden_if(seen[2][0] != 1 || seen[3][0] != 1);
                return seen[2][0] == 1 ? Verdict::Strong : Verdict::Weak;
              }};
}

// After a flush others may be told of a put by any way round.
TEST_P(LitmusFour, WhatIsFlushedIsThereForAll) {
  play(passed_on("put to 3, flush, signal by 1 and 2", Way::AtOnce, true), GetParam());
  play(passed_on("put to 3, flush, signal by 1 and 2, stream", Way::Stream, true), GetParam());
  play(passed_on("put to 3, flush, signal by 1 and 2, group", Way::Group, true), GetParam());
}

// Without a flush the put may be on its way still.
TEST_P(LitmusFour, WhatIsNotFlushedMayComeLater) {
  play(passed_on("put to 3, signal by 1 and 2", Way::AtOnce, false), GetParam());
}

// The shortest such way: rank 0 puts into rank 1's part and signals 2, which reads there.
TEST_P(LitmusFour, PutFlushSignalOfAnother) {
  for (const bool flushes : {true, false}) {
    play({.name = std::string("put to 1, ") + (flushes ? "flush, " : "") + "signal to 2",
          .ranks = 4,
          .registers = 1,
          .thread =
              [flushes](Thread& thread) {
                const Place x{1, 0};
                if (thread.rank == 0) {
                  thread.put(1, x);
                  if (flushes) thread.flush(TUTTI_ALL_PEERS);
                  thread.signal(2);
                } else if (thread.rank == 2) {
                  thread.wait(0);
                  thread.get(0, x);
                }
              },
          .judge =
              [flushes](const Outcome& seen) {
                return seen[2][0] == 1 ? Verdict::Strong : flushes ? Verdict::Forbidden : Verdict::Weak;
              }},
         GetParam());
  }
}

// A letter goes round; each rank adds to it.
TEST_P(LitmusFour, RingOfPutSignals) {
  play({.name = "put_signal round the ring",
        .ranks = 4,
        .registers = 1,
        .thread =
            [](Thread& thread) {
              const int next = (thread.rank + 1) % 4, previous = (thread.rank + 3) % 4;
              if (thread.rank == 0) thread.put_signal(1, {next, 0});
              thread.wait(previous);
              thread.own(0, 0);
              if (thread.rank != 0) thread.put_signal(thread.reg(0) + 1, {next, 0});
            },
        .judge =
            [](const Outcome& seen) {
              return forbidden_if(seen[0][0] != 4 || seen[1][0] != 1 || seen[2][0] != 2 || seen[3][0] != 3);
            }},
       GetParam());
}

// A get sees atomic steps that a signal has announced.
TEST_P(LitmusFour, GetsTheSumThatSignalsAnnounce) {
  play({.name = "atomic_adds, signals, get",
        .ranks = 4,
        .registers = 1,
        .thread =
            [](Thread& thread) {
              const Place x{3, 0};
              thread.add(1, x);
              thread.signal(1);
              if (thread.rank != 1) return;
              for (int rank = 0; rank < 4; ++rank) thread.wait(rank);
              thread.read(0, x);
            },
        .judge = [](const Outcome& seen) { return forbidden_if(seen[1][0] != 4); }},
       GetParam());
}

// After a barrier of the window all puts are in place, for their owners and for others.
TEST_P(LitmusFour, ABarrierPutsAllInPlace) {
  play({.name = "put, barrier, get",
        .ranks = 4,
        .thread =
            [](Thread& thread) {
              const int next = (thread.rank + 1) % 4;
              thread.put(1, {next, 0});
              thread.barrier();
              thread.own(0, 0);
              thread.get(1, {(thread.rank + 2) % 4, 0});
            },
        .judge =
            [](const Outcome& seen) {
              bool all = true;
              for (const Registers& of : seen) all = all && of[0] == 1 && of[1] == 1;
              return forbidden_if(!all);
            }},
       GetParam());
}

}  // namespace
}  // namespace tutti::litmus
