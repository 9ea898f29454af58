// How a stream runs a program with the copy engines: the items that a rank enqueues, one after the other. The executor
// (exec/cuda/copies.cpp) writes them on a stream, and the proof (src/proof) runs the same.
//
// Each rank has staging memory of link::kCopySlots slots, which the others read, and words by which streams wait for
// each other: of each peer and slot a tag, set when the peer's message is there, and a word "free", set when the peer
// has read this rank's message. A rank resets each word that it has waited for before it tells anybody.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/program.hpp"

namespace tutti::exec {

struct CopyItem {
  enum class Kind : uint8_t {
    AwaitFree,     ///< until the peer has read what this rank had in the slot; then reset the word
    AwaitMessage,  ///< until the tag of the peer's message is in the slot; then reset it
    Stage,         ///< bytes: from `from` to this rank's staging memory
    Store,         ///< bytes: from `from`, or (Base::Message) the peer's staging memory, to `to`
    TellFree,      ///< the peer: its message in the slot is read
    TellMessage    ///< the peer: the message in the slot is there
  };
  Kind kind = Kind::AwaitFree;
  Rank peer = kNoRank;
  uint64_t slot = 0;
  uint32_t step = 0;    ///< of the plan, of waits
  Ref from, to;         ///< of buffers: where the call's begin
  uint64_t staged = 0;  ///< bytes from the beginning of the staging memory
  uint64_t bytes = 0;
};

/// How a program uses staging memory.
struct CopyLayout {
  Rank rank = 0, ranks = 0;
  uint64_t slot_bytes = 0;
  uint64_t region = 0;  ///< bytes of a slot's part for one reader; one for all readers where all read the same
  bool shared = false;  ///< all readers read the same
};

/// Throws Error(Unsupported) for a program that copy engines cannot run, with the reason.
CopyLayout copy_layout(const Program& program, Rank rank, Rank ranks, uint64_t slot_bytes);

/// The items of one round, in their order. First all waits for slots: another call may have parted them in another way.
std::vector<CopyItem> copy_items(const Program& program, const CopyLayout& layout, uint64_t round);

}  // namespace tutti::exec
