// What the interpreter runs: one rank's plan, fused and scaled to one size of window, as plain tables.
//
// Every step has become the same operation: wait for some messages, fold them with some local pieces (a fold of one is
// a copy), store the result locally, publish it, or both. So a receive-reduce-send in one pass is not a special case.
#pragma once

#include <cstdint>

#include "base/rank.hpp"
#include "link/link.hpp"
#include "reduce/fold_shape.hpp"

namespace tutti::exec {

inline constexpr uint32_t kNone = 0xffffffff;

inline constexpr uint64_t kCooperativeFrom = 128 << 10;  ///< bytes: below, there is not enough to share

inline constexpr uint32_t kMaxDirectStores = 8;  ///< that a fold is stored to beside its own

struct Range {
  uint32_t begin = 0;
  uint32_t end = 0;
};

/// What an offset counts from. Message: the arrival of that operand.
enum class Base : uint32_t { Input, Output, Scratch, Message, None };

struct Ref {
  Base base = Base::None;
  uint64_t offset = 0;
};

/// A run of bytes that is contiguous in every operand and in the destination.
struct Segment {
  uint64_t bytes = 0;
  uint64_t at = 0;       ///< its place in the outgoing message
  Ref to;                ///< None: nothing is stored locally
  uint32_t sources = 0;  ///< first of the operation's `sources` entries in Tables::sources
  int32_t raw = -1;      ///< the operand that reads the call's input (pre-multiplied sums scale it), if any
};

struct Instruction {
  Range segments;
  Range arrivals;        ///< in-links, one for each operand that is a message, in operand order
  Range outs;            ///< out-links
  uint64_t bytes = 0;    ///< length of each message that comes or goes
  uint64_t salt = 0;     ///< send and recv: what tells this transfer's messages from the rank's others (xor on the tag)
  Ref zcopy_at;           ///< where the outgoing message lies in the rank's own memory, if it may be lent
  uint32_t sources = 0;  ///< operands
  uint32_t stage = kNone;  ///< staging for the outgoing message, if it needs any
  uint32_t after_lane = kNone;
  uint32_t after_op = 0;  ///< index within that lane
  uint32_t step = 0;      ///< the plan's step (within its lane) that this began as, for messages to people
  FoldShape shape = FoldShape::Left;
  bool completes = false;
  bool lend = false;
  bool pull = false;         ///< … also over links where it is by_cma
  bool share = false;        ///< what is lent is shared memory: over links that can, as such
  bool zcopy_first = false;   ///< what is lent lies there before the operation has done anything
  bool inlined = false;      ///< the outgoing message travels in its descriptor
  bool has_pieces = true;    ///< false: a bare signal, sent in the first round only
  bool cooperative = false;  ///< one long message, copied as it is: where it is lent, its writer may copy part of it
  bool nontemporal = false;  ///< what is stored locally is not read again soon: past the cache
  bool together = false;     ///< other ranks may have a part in it: it is lent, cooperative, offers or places
  bool lent = false;         ///< its messages may be read where they lie, by leave of their writers
  bool offers = false;       ///< a message that its writer may fold straight to where it belongs
  bool places = false;       ///< a fold that is stored straight to where the readers of its result want it, too …
  bool nontemporal_stores = false;  ///< … past the cache then, where that is one reader
  uint32_t ahead = 0;               ///< of one that `offers`: messages on its link before it, in a round …
  uint32_t after = 0;               ///< … and how many of this rank's the peer must have had by then, to write there
  uint32_t had = 0;  ///< of one that `places`: messages that it has had of each of its readers, in a round, at least
};

/// Pointers into a Program's tables: the same on host and device.
struct Tables {
  const Range* lanes = nullptr;  ///< operations of each lane
  const Instruction* ops = nullptr;
  const Segment* segments = nullptr;
  const Ref* sources = nullptr;
  const uint32_t* arrivals = nullptr;
  const uint32_t* outs = nullptr;
};

/// Staging slots that always go to the same out-links. A slot is free when every reader has consumed what it held.
struct Stage {
  unsigned char* base = nullptr;
  uint64_t slot_bytes = 0;
  uint32_t slots = 0;
  uint32_t readers = 0;
  uint64_t uses = 0;
  uint64_t* held = nullptr;        ///< [slot][reader]: the count of consumed messages at which that reader is done
  const uint32_t* outs = nullptr;  ///< the readers' out-links
};

}  // namespace tutti::exec
