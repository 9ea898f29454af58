// The protocol of messages in lines (link/ll.hpp), all interleavings: two ranks exchange three messages each through
// two slots. A store becomes visible at any later moment, in any order with the rank's other stores but those to the
// same word. The code that runs is the library's; only its memory is a model.
#include "link/ll.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iostream>
#include <string>
#include <unordered_set>
#include <vector>

namespace tutti::link {
namespace {

constexpr uint32_t kSlots = 2;
constexpr uint64_t kEpochs = 3;  // uses of each slot
constexpr uint64_t kMessages = kSlots * kEpochs;
constexpr uint64_t kLines = 2;                   // of a message: its header and 8 bytes
constexpr size_t kHalves = kSlots * kLines * 4;  // of 4 bytes, in a rank's slots

/// What both ranks see. `slots[r]` and `consumed[r]` lie with rank r.
struct Memory {
  alignas(128) std::array<std::array<uint32_t, kHalves>, 2> slots{};
  alignas(8) std::array<uint64_t, 2> consumed{};
};

/// A store that is not visible yet: `bytes` bytes at `at`.
struct Store {
  size_t at = 0;  // of Memory
  size_t bytes = 0;
  uint64_t value = 0;
};

/// One rank between two steps.
struct End {
  uint64_t sent = 0, received = 0;
  uint32_t step = 0;
  OutLink out;
  InLink in;
  Arrival arrival;
  std::array<Store, 32> pending;
  size_t pending_count = 0;
};

struct World {
  Memory memory;
  std::array<End, 2> ranks;
};

World* world = nullptr;  // the one that makes a step
End* self = nullptr;

void delay(const void* at, size_t bytes, uint64_t value) {
  const auto offset = static_cast<size_t>(static_cast<const char*>(at) - reinterpret_cast<const char*>(&world->memory));
  ASSERT_LT(self->pending_count, self->pending.size());
  self->pending[self->pending_count++] = {offset, bytes, value};
}

/// Each word of a line is stored at once.
struct Model {
  static uint64_t load(const uint64_t* at) { return *at; }
  static void store_relaxed(uint64_t* at, uint64_t value) { delay(at, 8, value); }
  static Line load_line(const Line* at) { return *at; }
  static void store_line(Line* at, const Line& line) {
    delay(&at->words[0], 8, line.words[0]);
    delay(&at->words[1], 8, line.words[1]);
  }
};
/// Flags and data are stored apart, flags first.
struct SplitStores : Model {
  static void store_line(Line* at, const Line& line) {
    for (const size_t half : {1, 0}) {
      for (const size_t word : {0, 1}) {
        delay(reinterpret_cast<uint32_t*>(at) + 2 * word + half, 4,
              half == 1 ? line.words[word] >> 32 : line.words[word] & 0xffffffff);
      }
    }
  }
};

/// What a rank's program may do wrong.
struct Right {
  static constexpr bool kWaitsForRoom = true;
  static constexpr bool kLoadsBeforeItConsumes = true;  // what the barrier before the leader's consume() is for
};
struct StoresWithoutRoom : Right {
  static constexpr bool kWaitsForRoom = false;
};
struct ConsumesBeforeItLoads : Right {
  static constexpr bool kLoadsBeforeItConsumes = false;
};

uint64_t payload(uint64_t rank, uint64_t message) { return (rank + 1) << 40 | (message + 1) << 8 | 1; }

/// Runs one rank to its next access that others can see. Returns a complaint.
template <class Wire, class Program>
std::string step(World& all, size_t r) {
  End& me = all.ranks[r];
  world = &all, self = &me;
  uint64_t data = 0;
  switch (me.step) {
    case 0:
      if (me.sent == kMessages || (Program::kWaitsForRoom && !Wire::can_publish(me.out))) {
        if (me.sent == kMessages) me.step = 2;
        return "";
      }
      Wire::store(me.out, 1, payload(r, me.sent));  // the data first: the order is nobody's business
      me.step = 1;
      return "";
    case 1:
      Wire::store(me.out, 0, Wire::header_of(me.sent, 8));
      Wire::published(me.out);
      ++me.sent;
      me.step = 2;
      return "";
    case 2: {
      Header header{};
      // Rank 1 lets rank 0 run ahead as far as its slots allow.
      if (Wire::poll(me.in, header, me.arrival) != Poll::Ready) {
        if (me.sent < kMessages && me.sent < me.received + kSlots) me.step = 0;
        return "";
      }
      if (header.tag != me.received || header.length != 8) return "another message's header";
      if (!Program::kLoadsBeforeItConsumes) Wire::consume(me.in);
      me.step = 3;
      return "";
    }
    default:
      if (!Wire::load(me.arrival, 1, data)) return "";
      if (data != payload(1 - r, me.received)) return "another message's data";
      if (Program::kLoadsBeforeItConsumes) Wire::consume(me.in);
      ++me.received;
      me.step = me.received == kMessages && me.sent == kMessages ? 4 : 0;
      return "";
  }
}

bool is_done(const World& all) { return all.ranks[0].step == 4 && all.ranks[1].step == 4; }

/// All that the future depends on.
std::string key_of(const World& all) {
  std::string key(reinterpret_cast<const char*>(&all.memory.slots), sizeof all.memory.slots);
  const auto add = [&](uint64_t value) { key.append(reinterpret_cast<const char*>(&value), sizeof value); };
  for (const uint64_t consumed : all.memory.consumed) add(consumed);
  for (const End& rank : all.ranks) {
    for (const uint64_t value : {rank.sent, rank.received, uint64_t{rank.step}, rank.out.next, rank.out.acked,
                                 rank.in.next, rank.in.published}) {
      add(value);
    }
    for (size_t i = 0; i < rank.pending_count; ++i) add(rank.pending[i].at), add(rank.pending[i].value);
    add(~uint64_t{0});
  }
  return key;
}

void flush(World& all, size_t r, size_t index) {
  End& rank = all.ranks[r];
  const Store store = rank.pending[index];
  std::copy(rank.pending.begin() + index + 1, rank.pending.begin() + rank.pending_count--,
            rank.pending.begin() + index);
  std::memcpy(reinterpret_cast<char*>(&all.memory) + store.at, &store.value, store.bytes);
}

bool is_first_to_its_word(const End& rank, size_t index) {
  for (size_t before = 0; before < index; ++before) {
    if (rank.pending[before].at == rank.pending[index].at) return false;
  }
  return true;
}

/// The memory's addresses are those of `all`: links point into it, so a copy must be pointed anew.
void point(World& all) {
  for (size_t r = 0; r < 2; ++r) {
    End& rank = all.ranks[r];
    auto* const theirs = reinterpret_cast<unsigned char*>(all.memory.slots[1 - r].data());
    auto* const mine = reinterpret_cast<unsigned char*>(all.memory.slots[r].data());
    const uint64_t at = rank.received % kSlots * kLines * sizeof(Line);
    rank.out.arena = theirs;
    rank.out.push_bytes = kLines * sizeof(Line);
    rank.out.consumed = &all.memory.consumed[r];
    rank.in.consumed = &all.memory.consumed[1 - r];
    rank.in.arena = mine;
    rank.in.arena_bytes = kSlots * kLines * sizeof(Line);
    if (rank.step == 3) rank.arrival.data = mine + at;
  }
}

struct Result {
  size_t states = 0;
  std::string wrong;
};

/// Visits all states that can be reached.
template <class Wire, class Program = Right>
Result explore() {
  Result result;
  std::unordered_set<std::string> seen;
  std::vector<World> open(1);
  const auto add = [&](const World& next) {
    if (seen.insert(key_of(next)).second) open.push_back(next);
  };
  seen.insert(key_of(open[0]));
  while (!open.empty() && result.wrong.empty()) {
    const World now = open.back();
    open.pop_back();
    ++result.states;
    bool moves = false;
    for (size_t r = 0; r < 2; ++r) {
      for (size_t i = 0; i < now.ranks[r].pending_count; ++i) {
        if (!is_first_to_its_word(now.ranks[r], i)) continue;
        World next = now;
        flush(next, r, i);
        moves = true;
        add(next);
      }
      if (now.ranks[r].step == 4) continue;
      World next = now;
      point(next);
      result.wrong = step<Wire, Program>(next, r);
      if (!result.wrong.empty()) return result;
      moves = moves || key_of(next) != key_of(now);
      add(next);
    }
    if (!moves && !is_done(now)) result.wrong = "nothing moves any more";
  }
  return result;
}

constexpr uint64_t kPeriod = uint64_t{1} << 31;

TEST(LinesLitmus, DeliverInAllInterleavings) {
  const Result result = explore<LlWire<Model, kSlots, kPeriod>>();
  EXPECT_EQ(result.wrong, "");
  EXPECT_GT(result.states, 10000U);
  RecordProperty("states", static_cast<int>(result.states));
  std::cout << result.states << " states\n";
}

// Each of these mistakes is found by the model: so it can find them.

TEST(LinesLitmus, AFlagThatDoesNotChangeIsFound) { EXPECT_NE((explore<LlWire<Model, kSlots, 1>>().wrong), ""); }

TEST(LinesLitmus, AFlagThatIsStoredBeforeItsDataIsFound) {
  EXPECT_NE((explore<LlWire<SplitStores, kSlots, kPeriod>>().wrong), "");
}

TEST(LinesLitmus, AWriterThatDoesNotWaitForRoomIsFound) {
  EXPECT_NE((explore<LlWire<Model, kSlots, kPeriod>, StoresWithoutRoom>().wrong), "");
}

TEST(LinesLitmus, AReaderThatConsumesBeforeItHasLoadedIsFound) {
  EXPECT_NE((explore<LlWire<Model, kSlots, kPeriod>, ConsumesBeforeItLoads>().wrong), "");
}

}  // namespace
}  // namespace tutti::link
