// Messages in lines (link/ll.hpp), as a block of threads reads them: each waits for just what it folds or copies.
#pragma once

#include <cstdint>

#include "exec/cuda/block.hpp"
#include "exec/cuda/block_operands.hpp"
#include "exec/cuda/device.hpp"
#include "exec/cuda/packs.hpp"
#include "exec/state.hpp"

namespace tutti::exec::cuda {

// A line orders nothing but its own words: that is why it needs no fence. A rank may overwrite its input with what
// comes back in lines (in place, where one lane sends and another receives), since what comes back was made of what it
// read: no value depends on itself (PTX ISA, memory consistency model, "No-Thin-Air"). ThreadSanitizer does not know
// this rule; tests/gpu/calls/races.py does. Everything else that one lane leaves for another goes by `after`.

/// Of the 8 bytes of a message's word, those that a segment has; its first byte in the message is `begin`.
struct WordBytes {
  uint32_t begin, end;
  int32_t at;  ///< of the word's first byte, from the segment's on

  /// Of word `word`, from 1 on; 0 is the header. The segment has bytes [first, last) of the message.
  TUTTI_DEVICE static WordBytes of(uint32_t word, uint32_t first, uint32_t last) {
    const int32_t at = static_cast<int32_t>(word - 1) * static_cast<int32_t>(link::kLineData);
    const auto within = [&](uint32_t place) {
      const int32_t byte = static_cast<int32_t>(place) - at;
      constexpr auto kMost = static_cast<int32_t>(link::kLineData);
      return static_cast<uint32_t>(byte < 0 ? 0 : byte < kMost ? byte : kMost);
    };
    return {within(first), within(last), at - static_cast<int32_t>(first)};
  }
  TUTTI_DEVICE bool empty() const { return begin == end; }
  TUTTI_DEVICE bool whole_at(const unsigned char* place) const {
    return end - begin == link::kLineData && reinterpret_cast<uintptr_t>(place) % alignof(uint64_t) == 0;
  }

  /// The word of an operand in memory, in elements of type Stored. What is not the segment's is 0.
  template <class Stored>
  TUTTI_DEVICE uint64_t load(const unsigned char* segment) const {
    const unsigned char* const from = segment + at;
    if (whole_at(from)) return *reinterpret_cast<const uint64_t*>(from);
    uint64_t word = 0;
    TUTTI_HD_ROLLED
    for (uint32_t byte = begin; byte < end; byte += sizeof(Stored)) {
      uint64_t element = 0;
      __builtin_memcpy(&element, from + byte, sizeof(Stored));
      word |= element << byte * 8;
    }
    return word;
  }
  /// Stores the word to both places, of which one may be null.
  template <class Stored>
  TUTTI_DEVICE void store(uint64_t word, unsigned char* to, unsigned char* slot) const {
    if (to != nullptr) store<Stored>(word, to + at);
    if (slot != nullptr) store<Stored>(word, slot + at);
  }

 private:
  template <class Stored>
  TUTTI_DEVICE void store(uint64_t word, unsigned char* to) const {
    if (whole_at(to)) {
      *reinterpret_cast<uint64_t*>(to) = word;
      return;
    }
    TUTTI_HD_ROLLED
    for (uint32_t byte = begin; byte < end; byte += sizeof(Stored)) {
      const uint64_t element = word >> byte * 8;
      __builtin_memcpy(to + byte, &element, sizeof(Stored));
    }
  }
};

/// A word of 8 bytes, as it is folded.
struct Half {
  uint32_t words[2];
};

/// A segment whose messages come in lines of any form, or in memory: each thread has a word of all operands at a time.
/// `kLl128`: some may come by LL128.
template <class Stored, class Group, bool kLl128>
class LlOperands {
 public:
  using Chunk = Half;

  TUTTI_DEVICE LlOperands(const Group& group, const Segment& segment)
      : group_(group),
        first_(static_cast<uint32_t>(segment.at)),
        last_(first_ + static_cast<uint32_t>(segment.bytes)) {}

  /// Calls body(place) for each place of the thread: a word's number.
  template <class Body>
  TUTTI_DEVICE void each_place(Body&& body) const {
    const uint32_t end = 1 + (last_ + link::kLineData - 1) / link::kLineData;
    TUTTI_HD_ROLLED
    for (uint32_t word = 1 + first_ / link::kLineData + ptx::thread_index(); word < end; word += ptx::block_size()) {
      body(word);
    }
  }

  /// Waits for operands j, j + 1, …; in place of number `end` and those behind it, it loads number j.
  template <uint32_t kCount>
  TUTTI_DEVICE void load(uint32_t word, const BlockOperands& operands, uint32_t j, uint32_t end,
                         Half (&loaded)[kCount]) const {
    constexpr bool kBeside =
        !kLl128 && kCount == 2;  // operands in memory are loaded beside the lines: it takes registers
    Half in_memory[kBeside ? kCount : 1] = {};
    TUTTI_HD_UNROLLED
    for (uint32_t i = 0; kBeside && i < kCount; ++i) {
      const unsigned char* const operand = operands.at[j + i < end ? j + i : j];
      if (!BlockOperands::in_lines(operand)) in_memory[i] = half_of(bytes_of(word).template load<Stored>(operand));
    }
    TUTTI_HD_ROLLED
    for (uint32_t turn = 1;; ++turn) {
      const ptx::Words* places[kCount];
      ptx::Words lines[kCount];
      TUTTI_HD_UNROLLED
      for (uint32_t i = 0; i < kCount; ++i) {
        const unsigned char* const operand = operands.at[j + i < end ? j + i : j];
        places[i] = is_line(operand) ? BlockOperands::slot(operand) + word : operands.anything();
      }
      ptx::load_together(places, lines);
      bool complete = true;
      TUTTI_HD_UNROLLED
      for (uint32_t i = 0; i < kCount; ++i) {
        const uint32_t number = j + i < end ? j + i : j;
        const uint64_t flag = operands.flags[number];
        loaded[i] = {{static_cast<uint32_t>(lines[i].low), static_cast<uint32_t>(lines[i].high)}};
        const bool has_flags = lines[i].low >> 32 == flag && lines[i].high >> 32 == flag;
        if (is_line(operands.at[number])) {
          complete = complete && has_flags;
        } else if (BlockOperands::in_lines(operands.at[number])) {
          complete = load_ll128(operands.at[number], flag, word, loaded[i]) && complete;
        } else {
          loaded[i] = kBeside ? in_memory[i] : half_of(bytes_of(word).template load<Stored>(operands.at[number]));
        }
      }
      if (complete) return;
      if (group_.keep_waiting(turn)) continue;
      return group_.give_up();
    }
  }

  TUTTI_DEVICE void store(uint32_t word, unsigned char* to, unsigned char* slot, const Half& half) const {
    bytes_of(word).template store<Stored>(half.words[0] | uint64_t{half.words[1]} << 32, to, slot);
  }

 private:
  TUTTI_DEVICE WordBytes bytes_of(uint32_t word) const { return WordBytes::of(word, first_, last_); }

  /// Does each word of the operand come in a line of its own?
  TUTTI_DEVICE static bool is_line(const unsigned char* operand) {
    return BlockOperands::in_lines(operand) && !(kLl128 && BlockOperands::by_ll128(operand));
  }
  /// False if it has not come yet.
  TUTTI_DEVICE static bool load_ll128(const unsigned char* operand, uint64_t flag, uint32_t word, Half& half) {
    uint64_t data = 0;
    link::Arrival arrival;
    arrival.data = reinterpret_cast<const unsigned char*>(BlockOperands::slot(operand));
    arrival.id = flag;
    const bool complete = Ll128::load(arrival, word, data);
    half = half_of(data);
    return complete;
  }
  TUTTI_DEVICE static Half half_of(uint64_t data) {
    return {{static_cast<uint32_t>(data), static_cast<uint32_t>(data >> 32)}};
  }

  const Group& group_;
  const uint32_t first_, last_;  ///< the segment's bytes in its message
};

/// A segment whose messages all come by LL128, or in memory, for a block of whole warps. Threads share the lines as
/// their writers do: eight load one, 16 bytes each, and the last has the flag, of which a ballot tells the others.
template <class Stored, class Group>
class Ll128Operands {
 public:
  using Chunk = ptx::Pack;

  TUTTI_DEVICE Ll128Operands(const Group& group, const Segment& segment)
      : group_(group),
        first_(static_cast<uint32_t>(segment.at)),
        last_(first_ + static_cast<uint32_t>(segment.bytes)) {}

  /// Calls body(place) for each place of the thread: the number of a part of a line. All of a warp have equally many:
  /// what lies beyond the end is waited for with the others, and not stored.
  template <class Body>
  TUTTI_DEVICE void each_place(Body&& body) const {
    if (first_ == last_) return;
    TUTTI_HD_ROLLED
    for (uint32_t part = line_of(first_) * kParts + ptx::thread_index(); part - ptx::lane_index() < end();
         part += ptx::block_size()) {
      body(part);
    }
  }

  /// As LlOperands::load(). Beyond the end: the last line once more.
  template <uint32_t kCount>
  TUTTI_DEVICE void load(uint32_t part, const BlockOperands& operands, uint32_t j, uint32_t end,
                         ptx::Pack (&loaded)[kCount]) const {
    const uint32_t place = part < this->end() ? part : this->end() - kParts + part % kParts;
    ptx::Words parts[kCount];
    TUTTI_HD_ROLLED
    for (uint32_t turn = 1;; ++turn) {
      load_parts(place, operands, j, end, parts);
      bool complete = true;
      TUTTI_HD_UNROLLED
      for (uint32_t i = 0; i < kCount; ++i) {
        const uint32_t number = j + i < end ? j + i : j;
        const bool waits = has_flag(place) && BlockOperands::in_lines(operands.at[number]);
        complete = complete && !(waits && parts[i].high != operands.flags[number]);
      }
      if (all_of_warp(complete)) break;
      if (all_of_warp(group_.keep_waiting(turn))) continue;
      group_.give_up();
      break;
    }
    load_parts(place, operands, j, end, parts);  // the flags have come: now with the data that came with them
    TUTTI_HD_UNROLLED
    for (uint32_t i = 0; i < kCount; ++i) {
      const unsigned char* const operand = operands.at[j + i < end ? j + i : j];
      loaded[i] = BlockOperands::in_lines(operand) ? pack_of(parts[i].low, parts[i].high) : from_memory(operand, place);
    }
    ptx::sync_warp();  // in place, another thread stores where this one, beyond the end, has loaded
  }

  TUTTI_DEVICE void store(uint32_t place, unsigned char* to, unsigned char* slot, const ptx::Pack& pack) const {
    if (place >= end()) return;
    TUTTI_HD_UNROLLED
    for (uint32_t i = 0; i < 2; ++i) {
      const uint64_t word = pack.words[2 * i] | uint64_t{pack.words[2 * i + 1]} << 32;
      bytes_of(place, i).template store<Stored>(word, to, slot);
    }
  }

 private:
  static constexpr uint32_t kWords = Ll128::kWords, kParts = 8;

  TUTTI_DEVICE static uint32_t line_of(uint32_t byte) { return (1 + byte / link::kLineData) / kWords; }
  /// The first place that the segment does not have. It has bytes.
  TUTTI_DEVICE uint32_t end() const { return (line_of(last_ - 1) + 1) * kParts; }
  TUTTI_DEVICE static bool has_flag(uint32_t place) { return place % kParts == kParts - 1; }
  TUTTI_DEVICE static bool all_of_warp(bool value) { return ptx::ballot(ptx::kWholeWarp, value) == ptx::kWholeWarp; }

  /// Of the first or second word at this place.
  TUTTI_DEVICE WordBytes bytes_of(uint32_t place, uint32_t which) const {
    const uint32_t word = place / kParts * kWords + place % kParts * 2 + which;
    if (which == 1 && has_flag(place)) return {};  // it is the flag
    return WordBytes::of(word, first_, last_);
  }

  /// The threads of the warp at once.
  template <uint32_t kCount>
  TUTTI_DEVICE static void load_parts(uint32_t place, const BlockOperands& operands, uint32_t j, uint32_t end,
                                      ptx::Words (&parts)[kCount]) {
    const ptx::Words* places[kCount];
    TUTTI_HD_UNROLLED
    for (uint32_t i = 0; i < kCount; ++i) {
      const unsigned char* const operand = operands.at[j + i < end ? j + i : j];
      places[i] = BlockOperands::in_lines(operand) ? BlockOperands::slot(operand) + place : operands.anything();
    }
    ptx::sync_warp();
    ptx::load_ll128(places, parts);
  }

  TUTTI_DEVICE ptx::Pack from_memory(const unsigned char* operand, uint32_t place) const {
    return pack_of(bytes_of(place, 0).template load<Stored>(operand),
                   bytes_of(place, 1).template load<Stored>(operand));
  }
  TUTTI_DEVICE static ptx::Pack pack_of(uint64_t first, uint64_t second) {
    return {{low(first), high(first), low(second), high(second)}};
  }
  TUTTI_DEVICE static uint32_t low(uint64_t word) { return static_cast<uint32_t>(word); }
  TUTTI_DEVICE static uint32_t high(uint64_t word) { return static_cast<uint32_t>(word >> 32); }

  const Group& group_;
  const uint32_t first_, last_;  ///< the segment's bytes in its message
};

}  // namespace tutti::exec::cuda
