// The protocol of folds through a switch (exec/cuda/multimem_call.hpp), all interleavings of two ranks in three rounds,
// whose windows have a part for each rank. A store becomes visible at any later moment, in any order with stores to
// other places, and one to all GPUs on each of them at another moment; one with release, after all before it. The
// switch reads the GPUs one after the other. The steps, the signals and what they mean are the library's; the memory is
// a model.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "exec/cuda/multimem_call.hpp"

namespace tutti::exec::cuda {
namespace {

using Kind = MultimemSteps::Kind;
constexpr uint32_t kRanks = 2;

/// What is explored; and what is changed, for a mistake.
struct Protocol {
  uint64_t rounds = 3;      // of a call
  uint64_t calls = 1;       // one after the other
  bool other_call = false;  // the ranks' last calls differ
  uint32_t slots = kMultimemSlots;
  bool releases = true, awaits_fold = true;
};

struct Memory {
  uint16_t slots[kMultimemSlots][kRanks] = {};  // the parts of a window
  uint16_t signals[kRanks] = {};                // tag << 8 | how many
};
struct Store {
  uint8_t rank = 0, place = 0;  // of Memory, in words
  uint16_t value = 0;
  bool release = false, to_all = false;
};
struct Rank {
  uint32_t steps = 0;  // done
  uint32_t seen = 0;   // GPUs that the switch has read in this fold
  uint16_t sum = 0;
  std::vector<Store> stores;  // that are not visible yet
};
struct World {
  std::array<Memory, kRanks> memory;
  std::array<Rank, kRanks> ranks;
};

constexpr size_t kWords = sizeof(Memory) / sizeof(uint16_t), kFirstSignal = kWords - kRanks;

uint16_t input(uint32_t rank, uint64_t round, uint32_t part) {
  return static_cast<uint16_t>(100 * (round + 1) + 10 * part + rank + 1);
}

/// Where a rank is.
struct Position {
  uint64_t call;
  MultimemSteps steps;
};
Position position_of(uint32_t done, uint64_t rounds) {
  Position at{0, MultimemSteps(rounds)};
  for (uint32_t i = 0; i < done; ++i) {
    at.steps.advance();
    if (!at.steps.ended()) continue;
    ++at.call;
    std::destroy_at(&at.steps);
    std::construct_at(&at.steps, rounds);
  }
  return at;
}

class Explorer {
 public:
  explicit Explorer(const Protocol& protocol) : protocol_(protocol) {}

  /// "", or what went wrong first.
  std::string explore() {
    std::unordered_set<std::string> seen;
    std::vector<World> open(1);
    while (!open.empty()) {
      const World now = open.back();
      open.pop_back();
      bool moves = false, ended = true;
      const auto add = [&](const World& next) {
        moves = true;
        if (seen.insert(key_of(next)).second) open.push_back(next);
      };
      for (uint32_t r = 0; r < kRanks; ++r) {
        for (size_t i = 0; i < now.ranks[r].stores.size(); ++i) {
          if (may_be_seen(now.ranks[r].stores, i)) add(with_store(now, r, i));
        }
        World next = now;
        if (position_of(now.ranks[r].steps, protocol_.rounds).call == protocol_.calls) continue;
        ended = false;
        if (!step(next, r)) continue;
        if (!wrong_.empty()) return wrong_;
        add(next);
      }
      if (!moves && !ended) return "nothing moves any more";
    }
    return "";
  }

 private:
  /// Of one place, a rank's stores are seen in their order.
  static bool may_be_seen(const std::vector<Store>& stores, size_t i) {
    if (stores[i].release && i > 0) return false;
    for (size_t before = 0; before < i; ++before) {
      if (stores[before].rank == stores[i].rank && stores[before].place == stores[i].place) return false;
    }
    return true;
  }
  static World with_store(World world, uint32_t rank, size_t i) {
    auto& stores = world.ranks[rank].stores;
    words_of(world, stores[i].rank)[stores[i].place] = stores[i].value;
    stores.erase(stores.begin() + static_cast<std::ptrdiff_t>(i));
    return world;
  }
  static uint16_t* words_of(World& world, uint32_t rank) { return &world.memory[rank].slots[0][0]; }
  size_t place(uint64_t round, uint32_t part) const { return round % protocol_.slots * kRanks + part; }
  /// A rank sees what it has stored to its own GPU, but not at once what it has stored to all.
  static uint16_t own(World& world, uint32_t rank, size_t place) {
    uint16_t value = words_of(world, rank)[place];
    for (const Store& store : world.ranks[rank].stores) {
      if (!store.to_all && store.rank == rank && store.place == place) value = store.value;
    }
    return value;
  }

  /// False: the rank waits.
  bool step(World& world, uint32_t r) {
    Rank& rank = world.ranks[r];
    const auto [call, now] = position_of(rank.steps, protocol_.rounds);
    const uint64_t round = call * protocol_.rounds + now.round();  // of all calls
    const uint64_t count = 2 * protocol_.rounds * call + now.count();
    const auto tag_of = [&](uint32_t of) { return static_cast<uint32_t>(protocol_.other_call ? call + of : call); };
    const auto store = [&](uint32_t to, size_t where, uint64_t value, bool to_all, bool release = false) {
      rank.stores.push_back(
          {static_cast<uint8_t>(to), static_cast<uint8_t>(where), static_cast<uint16_t>(value), release, to_all});
    };
    switch (now.kind()) {
      case Kind::CopyIn:
        for (uint32_t part = 0; part < kRanks; ++part) {
          store(r, place(now.round(), part), input(r, round, part), false);
        }
        break;
      case Kind::SignalIn:
      case Kind::SignalFold:
        for (uint32_t to = 0; to < kRanks; ++to)
          store(to, kFirstSignal + r, tag_of(r) << 8 | count, true, protocol_.releases);
        break;
      case Kind::AwaitFold:
        if (!protocol_.awaits_fold) break;
        [[fallthrough]];
      case Kind::AwaitIn:
        for (uint32_t peer = 0; peer < kRanks; ++peer) {
          const uint16_t word = own(world, r, kFirstSignal + peer);
          const Heard heard = hear(make_signal(word >> 8, word & 0xFFU), tag_of(r), count);
          if (heard == Heard::NotYet) return false;
          if (heard == Heard::OtherCall) wrong_ = "another call";
        }
        break;
      case Kind::Fold:
        if (rank.seen < kRanks) {
          const size_t where = place(now.round(), r);
          rank.sum = static_cast<uint16_t>(rank.sum +
                                           (rank.seen == r ? own(world, r, where) : words_of(world, rank.seen)[where]));
          ++rank.seen;
          return true;
        }
        for (uint32_t to = 0; to < kRanks; ++to) store(to, place(now.round(), r), rank.sum, true);
        rank.sum = 0, rank.seen = 0;
        break;
      case Kind::CopyOut:
        for (uint32_t part = 0; part < kRanks; ++part) {
          const auto expected = static_cast<uint16_t>(input(0, round, part) + input(1, round, part));
          if (own(world, r, place(now.round(), part)) != expected) wrong_ = "a wrong sum";
        }
        break;
    }
    ++rank.steps;
    return true;
  }

  static std::string key_of(const World& world) {
    std::string key(reinterpret_cast<const char*>(&world.memory), sizeof world.memory);
    const auto add = [&](uint64_t value) { key.append(reinterpret_cast<const char*>(&value), sizeof value); };
    for (const Rank& rank : world.ranks) {
      add(uint64_t{rank.steps} << 32 | rank.seen << 16 | rank.sum);
      for (const Store& store : rank.stores) {
        add(uint64_t{store.value} << 32 | uint64_t{store.place} << 16 | store.rank << 2 | (store.release ? 2 : 0) |
            (store.to_all ? 1 : 0));
      }
      add(~uint64_t{0});
    }
    return key;
  }

  const Protocol protocol_;
  std::string wrong_;
};

TEST(MultimemLitmus, IsRightInAllInterleavings) { EXPECT_EQ(Explorer({}).explore(), ""); }
/// The first window of a call has the place of the last one of the call before; a rank may be in the next call already.
TEST(MultimemLitmus, CallsFollowEachOther) {
  EXPECT_EQ(Explorer({.rounds = 1, .calls = 3}).explore(), "");
  EXPECT_EQ(Explorer({.rounds = 2, .calls = 2}).explore(), "");
}
TEST(MultimemLitmus, AnotherCallIsHeard) {
  EXPECT_EQ(Explorer({.rounds = 1, .other_call = true}).explore(), "another call");
}
TEST(MultimemLitmus, OneSlotIsTooFew) { EXPECT_EQ(Explorer({.slots = 1}).explore(), "a wrong sum"); }
TEST(MultimemLitmus, AMissingReleaseIsFound) { EXPECT_EQ(Explorer({.releases = false}).explore(), "a wrong sum"); }
TEST(MultimemLitmus, AMissingWaitIsFound) { EXPECT_EQ(Explorer({.awaits_fold = false}).explore(), "a wrong sum"); }

/// A signal of this call that is late is not one of another call; nor is one of the next call, which its rank begins
/// only after this one.
TEST(MultimemSignals, AreHeardForWhatTheyAre) {
  EXPECT_EQ(hear(make_signal(1, 9), 2, 10), Heard::NotYet);  // of the call before
  EXPECT_EQ(hear(make_signal(2, 10), 2, 10), Heard::Yes);
  EXPECT_EQ(hear(make_signal(1, 10), 2, 10), Heard::OtherCall);
  EXPECT_EQ(hear(make_signal(3, 11), 2, 10), Heard::Yes);  // of the next
  EXPECT_EQ(hear(make_signal(2, 0xFFFFFFFF), 2, uint64_t{1} << 32), Heard::NotYet);
  EXPECT_EQ(hear(make_signal(2, uint64_t{1} << 32), 2, uint64_t{1} << 32), Heard::Yes);
}

}  // namespace
}  // namespace tutti::exec::cuda
