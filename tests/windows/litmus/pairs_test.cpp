// Litmus tests of two ranks. Their names are those of the literature: message passing, store buffering, load buffering,
// coherence of read and read (CoRR).
#include <atomic>
#include <string>

#include "windows/litmus/litmus.hpp"

namespace tutti::litmus {
namespace {

class LitmusPair : public testing::TestWithParam<Parts> {};
INSTANTIATE_TEST_SUITE_P(, LitmusPair, testing::ValuesIn(parts_of_interest()),
                         [](const auto& of) { return name_of(of.param); });

Verdict forbidden_if(bool seen) { return seen ? Verdict::Forbidden : Verdict::Strong; }

constexpr Place kX0{0, 0}, kX1{1, 0}, kY0{0, 1}, kY1{1, 1};  // by the rank that has them

const char* name_of(Way way) { return way == Way::AtOnce ? "" : way == Way::Stream ? ", stream" : ", group"; }

// What a rank has put is there when a signal that it sent afterwards has been taken.
TEST_P(LitmusPair, MessagePassing) {
  for (const Way way : {Way::AtOnce, Way::Stream, Way::Group}) {
    for (const size_t cell_words : {8, 50, 1024}) {  // a line; a small copy and more than one
      play({.name = "put, signal; " + std::to_string(cell_words) + " words" + name_of(way),
            .registers = 1,
            .cell_words = cell_words,
            .way = way,
            .share = cell_words / 8,
            .thread =
                [](Thread& thread) {
                  if (thread.rank == 0) {
                    thread.together([&] {
                      thread.put(1, kX1);
                      thread.signal(1);
                    });
                  } else {
                    thread.together([&] { thread.wait(0); });
                    thread.own(0, 0);
                  }
                },
            .judge = [](const Outcome& seen) { return forbidden_if(seen[1][0] != 1); }},
           GetParam());
    }
  }
}

// The signal of put_signal comes after the bytes, in a chain of them each after its own.
TEST_P(LitmusPair, ChainOfPutSignals) {
  for (const Way way : {Way::AtOnce, Way::Stream}) {
    play({.name = std::string("4 put_signals, each awaited") + name_of(way),
          .locations = 4,
          .registers = 4,
          .way = way,
          .thread =
              [](Thread& thread) {
                for (size_t k = 0; k < 4; ++k) {
                  if (thread.rank == 0) {
                    thread.put_signal(k + 1, {1, k});
                  } else {
                    thread.wait(0);
                    thread.own(k, k);
                  }
                }
              },
          .judge =
              [](const Outcome& seen) {
                return forbidden_if(seen[1] != Registers{1, 2, 3, 4});
              }},
         GetParam());
  }
}

// A signal announces all puts before it, also those with signals of other numbers that nobody has taken yet.
TEST_P(LitmusPair, ASignalAnnouncesAllThatWasPutBefore) {
  play({.name = "3 put_signals, the last one awaited first",
        .locations = 3,
        .registers = 3,
        .thread =
            [](Thread& thread) {
              if (thread.rank == 0) {
                for (int k = 0; k < 3; ++k) thread.put_signal(1, {1, static_cast<size_t>(k)}, k);
              } else {
                thread.wait(0, 2);
                for (size_t k = 0; k < 3; ++k) thread.own(k, k);
                thread.wait(0, 0);
                thread.wait(0, 1);
              }
            },
        .judge =
            [](const Outcome& seen) {
              return forbidden_if(seen[1] != Registers{1, 1, 1, 0});
            }},
       GetParam());
}

// The same of what it has put into its own part, where the peer gets it.
TEST_P(LitmusPair, ASignalAnnouncesWhatLiesHere) {
  play({.name = "put here, flush, signal; get",
        .registers = 1,
        .thread =
            [](Thread& thread) {
              if (thread.rank == 0) {
                thread.put(1, kX0);
                thread.flush(0);
                thread.signal(1);
              } else {
                thread.wait(0);
                thread.get(0, kX0);
              }
            },
        .judge = [](const Outcome& seen) { return forbidden_if(seen[1][0] != 1); }},
       GetParam());
}

TEST_P(LitmusPair, LettersThatCross) {
  for (const Way way : {Way::Stream, Way::Group}) {
    play({.name = std::string("wait and put_signal both ways") + name_of(way),
          .registers = 1,
          .way = way,
          .thread =
              [way](Thread& thread) {
                thread.together([&] {
                  if (way == Way::Group) thread.wait(thread.peer);  // runs last
                  thread.put_signal(1, {thread.peer, 0});
                  if (way == Way::Stream) thread.wait(thread.peer);
                });
                thread.own(0, 0);
              },
          .judge = [](const Outcome& seen) { return forbidden_if(seen[0][0] != 1 || seen[1][0] != 1); }},
         GetParam());
  }
}

// A flag that is set by an atomic step after a flush. (The owner of the cell is told by signals alone.)
TEST_P(LitmusPair, MessagePassingByAnAtomicStep) {
  for (const Place flag : {kY0, kY1}) {
    play({.name = "put, flush, atomic_add at rank " + std::to_string(flag.rank),
          .thread =
              [flag](Thread& thread) {
                if (thread.rank == 0) {
                  thread.put(1, kX0);
                  thread.flush(0);
                  thread.meet();
                  thread.add(1, flag);
                } else {
                  thread.meet();
                  thread.read(0, flag);
                  if (thread.reg(0) == 1) thread.get(1, kX0);
                }
              },
          .judge = [](const Outcome& seen) { return forbidden_if(seen[1][0] == 1 && seen[1][1] != 1); }},
         GetParam());
  }
}

/// Each rank changes one word, then reads the other one: not both may miss the other's change.
Litmus store_buffering(const std::string& name, Verdict of_both,
                       const std::function<void(Thread&, Place, Place)>& calls) {
  return {.name = name,
          .registers = 1,
          .one_word = true,
          .thread =
              [calls](Thread& thread) {
                thread.meet();
                thread.rank == 0 ? calls(thread, kX0, kY1) : calls(thread, kY1, kX0);
              },
          .judge = [=](const Outcome& seen) { return seen[0][0] + seen[1][0] == 0 ? of_both : Verdict::Strong; }};
}

TEST_P(LitmusPair, StoreBuffering) {
  const auto by_adds = [](Thread& thread, Place mine, Place other) {
    thread.add(1, mine);
    thread.read(0, other);
  };
  const auto crosswise = [&](Thread& thread, Place mine, Place other) { by_adds(thread, other, mine); };
  const auto by_swaps = [](Thread& thread, Place mine, Place other) {
    thread.swap(0, 1, mine, 1);
    thread.swap(7, 8, other, 0);
  };
  play(store_buffering("atomic_adds", Verdict::Forbidden, by_adds), GetParam());
  play(store_buffering("atomic_adds at the peer", Verdict::Forbidden, crosswise), GetParam());
  play(store_buffering("compare_swaps", Verdict::Forbidden, by_swaps), GetParam());
  Litmus stream = store_buffering("atomic_adds, stream", Verdict::Forbidden, by_adds);
  stream.way = Way::Stream;
  play(stream, GetParam());
}

// What a rank has flushed is in place when it gets: not both gets may miss. Without the flush they may.
TEST_P(LitmusPair, StoreBufferingOfPutsAndGets) {
  if (races_with_the_system()) return;
  for (const bool flushes : {true, false}) {
    const auto calls = [flushes](Thread& thread, Place written, Place read) {
      thread.put(1, written);
      if (flushes) thread.flush(written.rank);
      thread.get(0, read);
    };
    const auto at_the_peer = [calls](Thread& thread, Place mine, Place other) { calls(thread, other, mine); };
    const std::string name = std::string("put, ") + (flushes ? "flush, " : "") + "get";
    const Verdict of_both = flushes ? Verdict::Forbidden : Verdict::Weak;
    play(store_buffering(name, of_both, calls), GetParam());
    play(store_buffering(name + "; put to the peer", of_both, at_the_peer), GetParam());
  }
}

// A flush orders the loads of the program, too.
TEST_P(LitmusPair, StoreBufferingOfPutsAndLoads) {
  if (races_with_the_system()) return;
  for (const bool flushes : {true, false}) {
    const auto calls = [flushes](Thread& thread, Place mine, Place other) {
      thread.put(1, other);
      if (flushes) thread.flush(other.rank);
      thread.reg(0) = thread.word(mine).load(std::memory_order_relaxed);
    };
    Litmus test = store_buffering(std::string("put to the peer, ") + (flushes ? "flush, " : "") + "load",
                                  flushes ? Verdict::Forbidden : Verdict::Weak, calls);
    test.at_address = true;
    play(test, GetParam());
  }
}

// Atomic operations of the language at addresses take part.
TEST_P(LitmusPair, StoreBufferingAtAddresses) {
  const auto mixed = [](Thread& thread, Place mine, Place other) {
    if (thread.rank == 0) {
      const auto first = thread.word(mine), second = thread.word(other);
      first.store(1);
      thread.reg(0) = second.load();
    } else {
      thread.add(1, mine);
      thread.read(0, other);
    }
  };
  Litmus test = store_buffering("atomic_add beside std::atomic", Verdict::Forbidden, mixed);
  test.at_address = true;
  play(test, GetParam());
}

// The same with relaxed operations, where both may miss: does this test meet the moment?
TEST_P(LitmusPair, StoreBufferingOfRelaxedOperations) {
  const auto relaxed = [](Thread& thread, Place mine, Place other) {
    const auto first = thread.word(mine), second = thread.word(other);
    uint64_t& seen = thread.reg(0);
    first.store(1, std::memory_order_relaxed);
    seen = second.load(std::memory_order_relaxed);
  };
  Litmus test = store_buffering("relaxed std::atomic", Verdict::Weak, relaxed);
  test.at_address = true;
  play(test, GetParam());
}

TEST_P(LitmusPair, LoadBuffering) {
  play({.name = "load buffering, atomic_adds",
        .registers = 1,
        .thread =
            [](Thread& thread) {
              thread.meet();
              thread.read(0, thread.rank == 0 ? kX0 : kY1);
              thread.add(1, thread.rank == 0 ? kY1 : kX0);
            },
        .judge = [](const Outcome& seen) { return forbidden_if(seen[0][0] == 1 && seen[1][0] == 1); }},
       GetParam());
}

// Of two that swap, one is first, and the other sees what it has left.
TEST_P(LitmusPair, OneSwapWins) {
  for (const Place at : {kX0, kX1}) {
    play({.name = "compare_swap at rank " + std::to_string(at.rank),
          .registers = 1,
          .thread =
              [at](Thread& thread) {
                thread.meet();
                thread.swap(0, static_cast<uint64_t>(thread.rank) + 1, at, 0);
              },
          .judge =
              [](const Outcome& seen) {
                return forbidden_if(!(seen[0][0] == 0 && seen[1][0] == 1) && !(seen[0][0] == 2 && seen[1][0] == 0));
              }},
         GetParam());
  }
}

// A word never goes back. (Adds and reads of the agent and of this process meet here.)
TEST_P(LitmusPair, ReadsOfAWordAreCoherent) {
  for (const Place at : {kX0, kX1}) {
    play(
        {.name = "CoRR at rank " + std::to_string(at.rank),
         .registers = 3,
         .thread =
             [at](Thread& thread) {
               thread.meet();
               if (thread.rank == 0) {
                 thread.add(1, at);
                 thread.add(1, at);
               } else {
                 for (size_t i = 0; i < 3; ++i) thread.read(i, at);
               }
             },
         .judge = [](const Outcome& seen) { return forbidden_if(seen[1][0] > seen[1][1] || seen[1][1] > seen[1][2]); }},
        GetParam());
  }
}

// A rank gets what it has put, once that is flushed; before, it may get the old words.
TEST_P(LitmusPair, GetsItsOwnPut) {
  for (const bool flushes : {true, false}) {
    play({.name = std::string("put, ") + (flushes ? "flush, " : "") + "get",
          .registers = 2,
          .thread =
              [flushes](Thread& thread) {
                const Place at{thread.peer, 0};
                for (size_t i = 0; i < 2; ++i) {
                  thread.put(i + 1, at);
                  if (flushes) thread.flush(thread.peer);
                  thread.get(i, at);
                }
              },
          .judge =
              [flushes](const Outcome& seen) {
                const bool all = seen[0] == Registers{1, 2, 0, 0} && seen[1] == Registers{1, 2, 0, 0};
                return all ? Verdict::Strong : flushes ? Verdict::Forbidden : Verdict::Weak;
              }},
         GetParam());
  }
}

}  // namespace
}  // namespace tutti::litmus
