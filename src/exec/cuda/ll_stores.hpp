// Messages in lines (link/ll.hpp), as a block of threads writes them.
#pragma once

#include <cstdint>

#include "exec/cuda/block.hpp"
#include "exec/cuda/device.hpp"
#include "exec/cuda/packs.hpp"
#include "exec/state.hpp"

namespace tutti::exec::cuda {

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

/// Threads that store a message: number `index` of so many.
struct Team {
  uint32_t index, threads;
};

template <class Words>
TUTTI_DEVICE void store_lines(const link::OutLink& out, const Words& words, const Team& team) {
  const auto lines = static_cast<uint32_t>(Ll::to_store(out, link::lines_of(words.bytes)));
  TUTTI_HD_ROLLED
  for (uint32_t line = team.index; line < lines; line += team.threads) Ll::store(out, line, words[line]);
}

/// Eight threads store a line at once. In a block that has no whole warps, one thread stores it, and its flag last.
template <class Words>
TUTTI_DEVICE void store_ll128(const link::OutLink& out, const Words& words, const Team& team) {
  constexpr uint32_t kThreads = 8;
  const auto lines = static_cast<uint32_t>(Ll128::to_store(out, Ll128::lines_of(words.bytes)));
  const uint32_t flag = Ll::flag_of(out.next);
  if (ptx::block_size() % ptx::kWarp != 0) {
    TUTTI_HD_ROLLED
    for (uint32_t line = team.index; line < lines; line += team.threads) {
      uint64_t* const at = Ll128::line_of(out, line);
      TUTTI_HD_ROLLED
      for (uint32_t i = 0; i < Ll128::kWords; ++i) ptx::store_relaxed(at + i, words[line * Ll128::kWords + i]);
      ptx::store_release(at + Ll128::kWords, flag);
    }
    return;
  }
  const uint32_t part = team.index % kThreads;
  const uint32_t neighbours = 0xffU << (ptx::lane_index() - part);
  TUTTI_HD_ROLLED
  for (uint32_t line = team.index / kThreads; line < lines; line += team.threads / kThreads) {
    const uint32_t first = line * Ll128::kWords + 2 * part;
    auto* const at = reinterpret_cast<ptx::Words*>(Ll128::line_of(out, line)) + part;
    ptx::Words both{};
    TUTTI_HD_ROLLED
    for (uint32_t i = 0; i < 2; ++i) {
      both.low = both.high;
      both.high = words[first + i];
    }
    if (part + 1 == kThreads) both.high = flag;
    ptx::store_ll128(at, both, neighbours);
  }
}

/// Sends the message at `from` to those of the instruction's readers that get it in lines. All threads of the block:
/// as many as a message has lines send it to one reader, and others at the same time to the next ones.
template <class Stored, bool kLl128>
TUTTI_DEVICE void send_in_lines(const RankState& rank, const LaneState& lane, const Instruction& op,
                                const unsigned char* from) {
  const MessageWords<Stored> words{Ll::header_of(rank.tag ^ op.salt, op.bytes), from, static_cast<uint32_t>(op.bytes)};
  const uint32_t lines = static_cast<uint32_t>(link::lines_of(words.bytes));
  uint32_t shift = kLl128 ? 3 : 0;  // a team is a power of two, or all threads
  while (1U << shift < lines && 1U << shift < ptx::block_size()) ++shift;
  const bool all = 2U << shift > ptx::block_size();
  const uint32_t number = all ? 0 : ptx::thread_index() >> shift, teams = all ? 1 : ptx::block_size() >> shift;
  if (number >= teams) return;
  const Team team{ptx::thread_index() - (number << shift), all ? ptx::block_size() : 1U << shift};
  TUTTI_HD_ROLLED
  for (uint32_t i = op.outs.begin + number; i < op.outs.end; i += teams) {
    const Out& to = lane.tables->outs[i];
    if (to.delivery == Delivery::Ll) store_lines(rank.out[to.link], words, team);
    if (kLl128 && to.delivery == Delivery::Ll128) store_ll128(rank.out[to.link], words, team);
  }
}

}  // namespace tutti::exec::cuda
