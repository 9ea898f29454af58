// Messages in lines (link/ll.hpp), as a block of threads writes and reads them.
#pragma once

#include <cstdint>

#include "exec/cuda/block.hpp"
#include "exec/cuda/device.hpp"
#include "exec/cuda/packs.hpp"
#include "exec/state.hpp"

namespace tutti::exec::cuda {

// A line orders nothing but its own words: that is why it needs no fence. A rank may overwrite its input with what
// comes back in lines (in place, where one lane sends and another receives), since what comes back was made of what it
// read: no value depends on itself (PTX ISA, memory consistency model, "No-Thin-Air"). ThreadSanitizer does not know
// this rule; tests/gpu/calls/races.py does. Everything else that one lane leaves for another goes by `after`.

// There is no address at which such a message could be read. As an operand it is the address of its arrival, marked by
// a bit that no address of a GPU or a process has.
inline constexpr uintptr_t kInLines = uintptr_t{1} << 63;

TUTTI_DEVICE const unsigned char* operand_in_lines(const link::Arrival& arrival) {
  return reinterpret_cast<const unsigned char*>(reinterpret_cast<uintptr_t>(&arrival) | kInLines);
}

/// Operands of which some are messages in lines. Each thread waits for the lines it reads. `kWhole`: some may be
/// LL128.
template <class Stored, class Group, bool kWhole>
struct FromLines {
  const Group& group;
  uint32_t begin;  ///< of the segment in the message

  TUTTI_DEVICE Stored element(const unsigned char* operand, uint32_t at) const {
    const auto bits = reinterpret_cast<uintptr_t>(operand);
    if ((bits & kInLines) == 0) return *reinterpret_cast<const Stored*>(operand + at);
    const auto& arrival = *reinterpret_cast<const link::Arrival*>(bits & ~kInLines);
    const uint32_t in_message = begin + at;
    uint64_t data = 0;
    for (uint32_t turn = 1; !load(arrival, 1 + in_message / link::kLineData, data); ++turn) {
      if (group.keep_waiting(turn)) continue;
      group.give_up();
      break;
    }
    data >>= in_message % link::kLineData * 8;
    Stored element;
    __builtin_memcpy(&element, &data, sizeof element);
    return element;
  }

 private:
  TUTTI_DEVICE static bool load(const link::Arrival& arrival, uint32_t word, uint64_t& data) {
    return kWhole ? MixedWire::load(arrival, word, data) : Ll::load(arrival, word, data);
  }
};

template <class Stored, class Source>
TUTTI_DEVICE void copy_from_lines(const Segment& segment, unsigned char* to, unsigned char* slot,
                                  const unsigned char* message, const Source& source) {
  const auto bytes = static_cast<uint32_t>(segment.bytes);
  constexpr uint32_t kUnit = sizeof(Stored);
  for (uint32_t at = ptx::thread_index() * kUnit; at < bytes; at += ptx::block_size() * kUnit) {
    const Stored element = source.element(message, at);
    if (to != nullptr) *reinterpret_cast<Stored*>(to + at) = element;
    if (slot != nullptr) *reinterpret_cast<Stored*>(slot + at) = element;
  }
}

/// A message as words of 8 bytes: its header, then its payload.
template <class Stored>
struct MessageWords {
  uint64_t header;
  const unsigned char* from;
  uint32_t bytes;

  TUTTI_DEVICE uint64_t operator[](uint32_t word) const {
    if (word == 0) return header;
    const uint32_t begin = (word - 1) * link::kLineData;
    if (begin + link::kLineData <= bytes && reinterpret_cast<uintptr_t>(from) % alignof(uint64_t) == 0) {
      return *reinterpret_cast<const uint64_t*>(from + begin);
    }
    uint64_t data = 0;
    TUTTI_HD_ROLLED
    for (uint32_t at = begin; at < begin + link::kLineData && at < bytes; at += sizeof(Stored)) {
      uint64_t element = 0;
      __builtin_memcpy(&element, from + at, sizeof(Stored));
      data |= element << (at - begin) * 8;
    }
    return data;
  }
};

template <class Words>
TUTTI_DEVICE void store_lines(const link::OutLink& out, const Words& words) {
  const auto lines = static_cast<uint32_t>(Ll::to_store(out, link::lines_of(words.bytes)));
  TUTTI_HD_ROLLED
  for (uint32_t line = ptx::thread_index(); line < lines; line += ptx::block_size()) {
    Ll::store(out, line, words[line]);
  }
}

/// Eight threads store a line at once. In a block that has no whole warps, one thread stores it, and its flag last.
template <class Words>
TUTTI_DEVICE void store_ll128(const link::OutLink& out, const Words& words) {
  constexpr uint32_t kThreads = 8;
  const auto lines = static_cast<uint32_t>(Ll128::to_store(out, Ll128::lines_of(words.bytes)));
  const uint32_t flag = Ll::flag_of(out.next);
  if (ptx::block_size() % ptx::kWarp != 0) {
    TUTTI_HD_ROLLED
    for (uint32_t line = ptx::thread_index(); line < lines; line += ptx::block_size()) {
      uint64_t* const at = Ll128::line_of(out, line);
      TUTTI_HD_ROLLED
      for (uint32_t i = 0; i < Ll128::kWords; ++i) ptx::store_relaxed(at + i, words[line * Ll128::kWords + i]);
      ptx::store_release(at + Ll128::kWords, flag);
    }
    return;
  }
  const uint32_t part = ptx::thread_index() % kThreads;
  const uint32_t neighbours = 0xffU << (ptx::lane_index() - part);
  TUTTI_HD_ROLLED
  for (uint32_t line = ptx::thread_index() / kThreads; line < lines; line += ptx::block_size() / kThreads) {
    const uint32_t first = line * Ll128::kWords + 2 * part;
    auto* const at = reinterpret_cast<ptx::Words*>(Ll128::line_of(out, line)) + part;
    ptx::Words both{};
    TUTTI_HD_ROLLED
    for (uint32_t i = 0; i < 2; ++i) {
      both.low = both.high;
      both.high = words[first + i];
    }
    if (part + 1 == kThreads) both.high = flag;
    ptx::store_whole(at, both, neighbours);
  }
}

/// Sends the message at `from` to those of the instruction's readers that get it in lines. All threads of the block.
template <class Stored, bool kWhole>
TUTTI_DEVICE void send_in_lines(const RankState& rank, const LaneState& lane, const Instruction& op,
                                const unsigned char* from) {
  const MessageWords<Stored> words{Ll::header_of(rank.tag ^ op.salt, op.bytes), from, static_cast<uint32_t>(op.bytes)};
  for (uint32_t i = op.outs.begin; i < op.outs.end; ++i) {
    const Out& to = lane.tables->outs[i];
    if (to.delivery == Delivery::Ll) store_lines(rank.out[to.link], words);
    if (kWhole && to.delivery == Delivery::Ll128) store_ll128(rank.out[to.link], words);
  }
}

}  // namespace tutti::exec::cuda
