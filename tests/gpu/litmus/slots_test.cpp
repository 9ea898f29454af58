// The protocol of messages in slots (link/wire.hpp), all interleavings: one rank pushes three messages to another. A
// store becomes visible at any later moment, in any order with other stores; one with release, or one that a fence
// orders, after all before it.
// The code that runs is the library's; its memory is a model. (A descriptor's fields are plain stores, which the model
// takes as done at once.)
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "link/wire.hpp"

namespace tutti::link {
namespace {

constexpr uint64_t kMessages = 3;

struct Memory {
  alignas(128) std::array<unsigned char, kCapacity * kLine> ring{};
  std::array<uint64_t, kPushSlots> slots{};
  uint64_t consumed = 0;
};

struct Store {
  size_t at = 0;  // of Memory
  uint64_t value = 0;
  bool release = false;
};

struct World {
  Memory memory;
  OutLink out;
  InLink in;
  Arrival arrival;
  uint32_t writer = 0, reader = 0;  // steps
  std::vector<Store> writes, acknowledgements;
};

World* world = nullptr;  // the one that makes a step
bool writes = false;     // it is the writer's

void delay(const void* at, uint64_t value, bool release) {
  const auto offset = static_cast<const char*>(at) - reinterpret_cast<const char*>(&world->memory);
  (writes ? world->writes : world->acknowledgements).push_back({static_cast<size_t>(offset), value, release});
}

struct Model {
  static uint64_t load(const uint64_t* at) { return *at; }
  static uint64_t load_acquire(const uint64_t* at) { return *at; }
  static void store_release(uint64_t* at, uint64_t value) { delay(at, value, true); }
  static void prefetch(const void*) {}
  static void prefetch_for_writing(const void*) {}
};
struct WithoutRelease : Model {
  static void store_release(uint64_t* at, uint64_t value) { delay(at, value, false); }
};
/// As GPUs order: by fences. `fenced`: the writer has made one since its last store.
bool fenced = false;
struct Fencing : Model {
  static void fence() { fenced = true; }
  static void store_ordered(uint64_t* at, uint64_t value) { delay(at, value, !writes || std::exchange(fenced, false)); }
};
struct WithoutFence : Fencing {
  static void fence() {}
};

template <class Wire>
std::string write(World& all) {
  const uint64_t message = all.writer / 2;
  if (message == kMessages) return "";
  if (all.writer % 2 == 0) {
    if (!Wire::can_publish(all.out) || !Wire::can_push(all.out)) return "";
    delay(push_slot(all.out), 100 + message, false);
  } else {
    Wire::publish_pushed(all.out, message, 8);
    if constexpr (Fences<typename Wire::Words>) {
      Wire::Words::fence();
      Wire::commit(all.out);
    }
  }
  ++all.writer;
  return "";
}

template <class Wire>
std::string read(World& all) {
  const uint64_t message = all.reader / 2;
  if (message == kMessages) return "";
  Header header{};
  if (all.reader % 2 == 0) {
    const Poll poll = Wire::poll(all.in, header, all.arrival);
    if (poll == Poll::Empty) return "";
    if (poll == Poll::Bad || header.tag != message || header.length != 8) return "a wrong header";
  } else {
    uint64_t data = 0;
    std::memcpy(&data, all.arrival.data, sizeof data);
    if (data != 100 + message) return "a message before its bytes";
    Wire::consume(all.in, all.arrival);
  }
  ++all.reader;
  return "";
}

/// Links point into the memory of their world.
void point(World& all) {
  all.out.ring = all.memory.ring.data();
  all.out.consumed = &all.memory.consumed;
  all.out.arena = reinterpret_cast<unsigned char*>(all.memory.slots.data());
  all.out.push_bytes = sizeof(uint64_t);
  all.in.ring = all.memory.ring.data();
  all.in.consumed = &all.memory.consumed;
  all.in.arena = reinterpret_cast<const unsigned char*>(all.memory.slots.data());
  all.in.arena_bytes = sizeof all.memory.slots;
  all.arrival.data = all.in.arena + all.reader / 2 * sizeof(uint64_t);
}

std::string key_of(const World& all) {
  std::string key(reinterpret_cast<const char*>(&all.memory), sizeof all.memory);
  const auto add = [&](uint64_t value) { key.append(reinterpret_cast<const char*>(&value), sizeof value); };
  for (const uint64_t value : {all.out.next, all.out.acked, all.out.pushed, all.in.next, all.in.published,
                               uint64_t{all.writer}, uint64_t{all.reader}}) {
    add(value);
  }
  for (const auto* pending : {&all.writes, &all.acknowledgements}) {
    for (const Store& store : *pending) add(store.at), add(store.value);
    add(~uint64_t{0});
  }
  return key;
}

template <class Memory>
std::string explore() {
  using Wire = SlotWire<Memory>;
  std::unordered_set<std::string> seen;
  std::vector<World> open(1);
  const auto add = [&](const World& next) {
    if (seen.insert(key_of(next)).second) open.push_back(next);
  };
  while (!open.empty()) {
    const World now = open.back();
    open.pop_back();
    bool moves = false;
    for (const auto pending : {&World::writes, &World::acknowledgements}) {
      for (size_t i = 0; i < (now.*pending).size(); ++i) {
        const Store store = (now.*pending)[i];
        if (store.release && i > 0) continue;
        World next = now;
        (next.*pending).erase((next.*pending).begin() + static_cast<std::ptrdiff_t>(i));
        std::memcpy(reinterpret_cast<char*>(&next.memory) + store.at, &store.value, sizeof store.value);
        add(next);
        moves = true;
      }
    }
    for (const bool writer : {true, false}) {
      World next = now;
      point(next);
      world = &next, writes = writer;
      const std::string wrong = writer ? write<Wire>(next) : read<Wire>(next);
      if (!wrong.empty()) return wrong;
      moves = moves || key_of(next) != key_of(now);
      add(next);
    }
    if (!moves && (now.writer < 2 * kMessages || now.reader < 2 * kMessages)) return "nothing moves any more";
  }
  return "";
}

TEST(SlotsLitmus, DeliverInAllInterleavings) { EXPECT_EQ(explore<Model>(), ""); }

TEST(SlotsLitmus, DeliverInAllInterleavingsByFences) { EXPECT_EQ(explore<Fencing>(), ""); }

TEST(SlotsLitmus, AMissingFenceIsFound) { EXPECT_EQ(explore<WithoutFence>(), "a message before its bytes"); }

TEST(SlotsLitmus, AMissingReleaseIsFound) { EXPECT_EQ(explore<WithoutRelease>(), "a message before its bytes"); }

}  // namespace
}  // namespace tutti::link
