// The protocol of LL128 messages (link/ll.hpp, Ll128Wire), all interleavings: one rank sends messages
// of two lines through eight slots, two of them used three times. A store of a line becomes visible at once, at any
// later moment and in any order with other lines'; a mutant's comes in two halves. Loads happen in program order, the
// flag's first (it acquires).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iostream>
#include <string>
#include <unordered_set>
#include <vector>

#include "link/ll.hpp"

namespace tutti::link {
namespace {

constexpr uint64_t kMessages = 2 * kLlSlots + 2;  // two slots are used three times
constexpr uint64_t kLines = 2;                    // of a message
constexpr uint64_t kLineBytes = 128, kWordsOfLine = 16;
constexpr uint64_t kPayload = 16 * 8;  // bytes: with the header 17 words, so two lines

struct Memory {
  alignas(128) std::array<uint64_t, kLlSlots * kLines * kWordsOfLine> slots{};
  uint64_t consumed = 0;
};
/// A store that is not visible yet: `words` words at `at` of slots, or the counter.
struct Store {
  uint64_t at = 0, words = 0;
  std::array<uint64_t, kWordsOfLine> values{};
};
constexpr uint64_t kCounter = ~uint64_t{0};

struct World {
  Memory memory;
  OutLink out;
  InLink in;
  uint64_t sent = 0, received = 0, word = 0;  // word: the next to be loaded; 0: the header
  uint64_t line = 0;                          // the next to be stored
  std::vector<Store> pending;
};
World* world = nullptr;

struct Model {
  static uint64_t load(const uint64_t* at) { return *at; }
  static uint64_t load_acquire(const uint64_t* at) { return *at; }
  static void store_relaxed(uint64_t*, uint64_t value) { world->pending.push_back({kCounter, 1, {value}}); }
};
using Wire = Ll128Wire<Model>;

struct Right {
  static constexpr bool kWhole = true;  // a line's store is visible at once
  static constexpr bool kWaitsForRoom = true;
  static constexpr bool kFlagChanges = true;
};
struct FlagFirst : Right {
  static constexpr bool kWhole = false;
};
struct WithoutRoom : Right {
  static constexpr bool kWaitsForRoom = false;
};
struct OneFlag : Right {
  static constexpr bool kFlagChanges = false;
};

uint64_t payload(uint64_t message, uint64_t word) { return (message + 1) << 16 | word; }

/// The writer stores its next line.
template <class Program>
void write(World& all) {
  if (all.sent == kMessages) return;
  if (all.line == 0 && Program::kWaitsForRoom && !Wire::can_publish(all.out)) return;
  const uint64_t at = static_cast<uint64_t>(Wire::line_of(all.out, all.line) - all.memory.slots.data());
  Store whole{at, kWordsOfLine, {}};
  for (uint64_t i = 0; i < Wire::kWords; ++i) {
    const uint64_t word = all.line * Wire::kWords + i;
    whole.values[i] = word == 0 ? Wire::header_of(all.sent, kPayload) : payload(all.sent, word);
  }
  whole.values[Wire::kWords] = Program::kFlagChanges ? Wire::flag_of(all.out.next) : 1;
  if (Program::kWhole) {
    all.pending.push_back(whole);
  } else {
    Store flag{at + Wire::kWords, 1, {whole.values[Wire::kWords]}};
    whole.words = Wire::kWords;
    all.pending.push_back(flag);
    all.pending.push_back(whole);
  }
  if (++all.line < kLines) return;
  all.line = 0;
  Wire::published(all.out);
  ++all.sent;
}

/// The reader loads its next word. Returns a complaint.
template <class Program>
std::string read(World& all) {
  if (all.received == kMessages) return "";
  Header header{};
  Arrival arrival = Wire::arrival_of(all.in, Form::Ll128);
  if (!Program::kFlagChanges) arrival.id = 1;
  uint64_t data = 0;
  if (all.word == 0) {
    if (!Wire::load(arrival, 0, data)) return "";
    header = {data >> 16, data & 0xffff, Where::Flagged};
    if (header.tag != all.received || header.length != kPayload) return "another message's header";
    all.word = Wire::kWords - 1;  // then the last word of the first line, and the last one of the message
    return "";
  }
  if (!Wire::load(arrival, all.word, data)) return "";
  if (data != payload(all.received, all.word)) return "another message's data";
  if (all.word == Wire::kWords - 1) {
    all.word = kPayload / 8;
    return "";
  }
  all.word = 0;
  ++all.received;
  Wire::consume(all.in);
  return "";
}

void point(World& all) {
  world = &all;
  auto* const slots = reinterpret_cast<unsigned char*>(all.memory.slots.data());
  all.out.arena = slots;
  all.out.push_bytes = kLines * kLineBytes;
  all.out.consumed = &all.memory.consumed;
  all.in.arena = slots;
  all.in.arena_bytes = kLlSlots * kLines * kLineBytes;
  all.in.consumed = &all.memory.consumed;
}

std::string key_of(const World& all) {
  std::string key(reinterpret_cast<const char*>(&all.memory.slots), sizeof all.memory.slots);
  const auto add = [&](uint64_t value) { key.append(reinterpret_cast<const char*>(&value), sizeof value); };
  for (const uint64_t value : {all.memory.consumed, all.sent, all.received, all.word, all.line, all.out.next,
                               all.out.acked, all.in.next, all.in.published}) {
    add(value);
  }
  std::vector<std::pair<uint64_t, uint64_t>> pending;
  for (const Store& store : all.pending) pending.emplace_back(store.at, store.values[0]);
  std::sort(pending.begin(), pending.end());
  for (const auto& [at, value] : pending) add(at), add(value);
  return key;
}

void flush(World& all, size_t index) {
  const Store store = all.pending[index];
  all.pending.erase(all.pending.begin() + static_cast<std::ptrdiff_t>(index));
  if (store.at == kCounter) {
    all.memory.consumed = store.values[0];
  } else {
    std::copy_n(store.values.begin(), store.words, all.memory.slots.begin() + static_cast<std::ptrdiff_t>(store.at));
  }
}

bool is_first_to_its_place(const World& all, size_t index) {
  return std::none_of(all.pending.begin(), all.pending.begin() + static_cast<std::ptrdiff_t>(index),
                      [&](const Store& before) { return before.at == all.pending[index].at; });
}

struct Result {
  size_t states = 0;
  std::string wrong;
};

template <class Program>
Result explore() {
  Result result;
  std::unordered_set<size_t> seen;
  std::vector<World> open(1);
  const auto add = [&](World& next) {
    if (seen.insert(std::hash<std::string>()(key_of(next))).second) open.push_back(std::move(next));
  };
  while (!open.empty() && result.wrong.empty()) {
    const World now = std::move(open.back());
    open.pop_back();
    ++result.states;
    const std::string before = key_of(now);
    bool moves = false;
    for (size_t i = 0; i < now.pending.size(); ++i) {
      if (!is_first_to_its_place(now, i)) continue;
      World next = now;
      flush(next, i);
      moves = true;
      add(next);
    }
    for (const bool writes : {true, false}) {
      World next = now;
      point(next);
      if (writes && next.pending.size() < 4) write<Program>(next);  // more wait for nothing else
      if (!writes) result.wrong = read<Program>(next);
      if (!result.wrong.empty()) return result;
      moves = moves || key_of(next) != before;
      add(next);
    }
    if (!moves && now.received != kMessages) result.wrong = "nothing moves any more";
  }
  return result;
}

TEST(Ll128Litmus, DeliverInAllInterleavings) {
  const Result result = explore<Right>();
  EXPECT_EQ(result.wrong, "");
  EXPECT_GT(result.states, 1000U);
  std::cout << result.states << " states\n";
}

TEST(Ll128Litmus, AFlagThatIsStoredBeforeItsLineIsFound) {
  EXPECT_EQ(explore<FlagFirst>().wrong.substr(0, 7), "another");
}

TEST(Ll128Litmus, AWriterThatDoesNotWaitForRoomIsFound) { EXPECT_NE(explore<WithoutRoom>().wrong, ""); }

TEST(Ll128Litmus, AFlagThatDoesNotChangeIsFound) { EXPECT_NE(explore<OneFlag>().wrong, ""); }

}  // namespace
}  // namespace tutti::link
