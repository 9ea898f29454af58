// Messages in lines, both ends played by one thread. All interleavings of two: tests/gpu/litmus.
#include "link/ll.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace tutti::link {
namespace {

struct PlainMemory {
  static uint64_t load(const uint64_t* at) { return *at; }
  static void store_relaxed(uint64_t* at, uint64_t value) { *at = value; }
  static Line load_line(const Line* at) { return *at; }
  static void store_line(Line* at, const Line& line) { *at = line; }
};

constexpr uint64_t kMax = 64;  // bytes of a message

template <class Wire>
struct LineEnds {
  std::vector<Line> memory = std::vector<Line>(kLlSlots * line_slot_bytes(kMax) / sizeof(Line));
  uint64_t consumed = 0;
  OutLink out{.consumed = &consumed,
              .arena = reinterpret_cast<unsigned char*>(memory.data()),
              .push_bytes = line_slot_bytes(kMax),
              .form = Form::Ll};
  InLink in{.consumed = &consumed,
            .arena = reinterpret_cast<unsigned char*>(memory.data()),
            .arena_bytes = kLlSlots * line_slot_bytes(kMax),
            .form = Form::Ll};
  Header header{};
  Arrival arrival;

  void send(uint64_t tag, uint64_t bytes, uint64_t data) {
    const uint64_t lines = lines_of(bytes), all = Wire::to_store(out, lines);
    for (uint64_t line = 0; line < all; ++line) {
      Wire::store(out, line, line == 0 ? Wire::header_of(tag, bytes) : line < lines ? data + line : 0);
    }
    Wire::published(out);
  }
  /// Lines of the next message that seem to have come.
  int come() {
    int lines = Wire::poll(in, header, arrival) == Poll::Ready ? 1 : 0;
    uint64_t data = 0;
    for (uint64_t line = 1; line < out.push_bytes / sizeof(Line); ++line)
      lines += Wire::load(arrival, line, data) ? 1 : 0;
    return lines;
  }
};

using Usual = LlWire<PlainMemory>;
using ShortPeriod = LlWire<PlainMemory, kLlSlots, 4>;

TEST(Lines, BringTagLengthAndBytes) {
  LineEnds<Usual> ends;
  EXPECT_EQ(Usual::poll(ends.in, ends.header, ends.arrival), Poll::Empty);
  ends.send(kTagMask - 5, kMax, 0xfedcba9876543210);
  ASSERT_EQ(Usual::poll(ends.in, ends.header, ends.arrival), Poll::Ready);
  EXPECT_EQ(ends.header.tag, kTagMask - 5);
  EXPECT_EQ(ends.header.length, kMax);
  EXPECT_EQ(ends.arrival.where, Where::Flagged);
  for (uint64_t line = 1; line < lines_of(kMax); ++line) {
    uint64_t data = 0;
    ASSERT_TRUE(Usual::load(ends.arrival, line, data));
    EXPECT_EQ(data, 0xfedcba9876543210 + line);
  }
}

TEST(Lines, AreNotThereBeforeBothWordsHaveCome) {
  LineEnds<Usual> ends;
  const Line empty = ends.memory[0];
  ends.send(1, 0, 0);
  const Line whole = ends.memory[0];
  for (const size_t word : {0, 1}) {
    ends.memory[0] = empty;
    ends.memory[0].words[word] = whole.words[word];
    EXPECT_EQ(Usual::poll(ends.in, ends.header, ends.arrival), Poll::Empty);
  }
  ends.memory[0] = whole;
  EXPECT_EQ(Usual::poll(ends.in, ends.header, ends.arrival), Poll::Ready);
}

TEST(Lines, FillTheirSlotsAndGetThemBackByHalves) {
  LineEnds<Usual> ends;
  for (uint32_t m = 0; m < kLlSlots; ++m) {
    ASSERT_TRUE(Usual::can_publish(ends.out));
    ends.send(m, 8, m);
  }
  EXPECT_FALSE(Usual::can_publish(ends.out));
  for (uint32_t m = 0; m < kLlSlots / 2; ++m) {
    EXPECT_FALSE(Usual::can_publish(ends.out));
    Usual::consume(ends.in);
  }
  EXPECT_TRUE(Usual::can_publish(ends.out));
  EXPECT_EQ(ends.out.acked, kLlSlots / 2);
}

TEST(Lines, IgnoreAnImpossibleCounter) {
  LineEnds<Usual> ends;
  for (uint32_t m = 0; m < kLlSlots; ++m) ends.send(m, 8, m);
  ends.consumed = 1000;
  EXPECT_FALSE(Usual::can_publish(ends.out));
}

/// What is left of older messages is never taken for the next one's, also when flags repeat.
template <class Wire>
int stale_lines() {
  LineEnds<Wire> ends;
  std::mt19937 random(7);
  int stale = 0;
  for (uint64_t m = 0; m < 4000; ++m) {
    stale += ends.come();
    ends.send(m, random() % 16 == 0 ? random() % (kMax + 1) : 8, m);
    uint64_t data = 0;
    EXPECT_EQ(Wire::poll(ends.in, ends.header, ends.arrival), Poll::Ready);
    for (uint64_t line = 1; line < lines_of(ends.header.length); ++line)
      EXPECT_TRUE(Wire::load(ends.arrival, line, data));
    Wire::consume(ends.in);
    EXPECT_TRUE(Wire::can_publish(ends.out));
  }
  return stale;
}

/// The writer never stores more than the message: a mistake.
struct NeverCleans : ShortPeriod {
  static uint64_t to_store(const OutLink&, uint64_t lines) { return lines; }
};

TEST(Lines, OfOlderMessagesAreNeverTakenForNewOnes) {
  EXPECT_EQ(stale_lines<Usual>(), 0);
  EXPECT_EQ(stale_lines<ShortPeriod>(), 0);
  EXPECT_GT(stale_lines<NeverCleans>(), 0) << "the test finds that slots are not cleaned";
}

}  // namespace
}  // namespace tutti::link
