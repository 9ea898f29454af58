// What the interpreter runs: one rank's plan, fused and scaled to one window size, as plain tables.
//
// Every step becomes an instruction of one form: wait for messages, fold them with local pieces (a fold of one operand
// is a copy), then store the result locally, publish it, or both. So receive-reduce-send in one pass is no special
// case.
#pragma once

#include <cstdint>

#include "base/rank.hpp"
#include "link/link.hpp"
#include "reduce/fold_shape.hpp"

namespace tutti::exec {

inline constexpr uint32_t kNone = 0xffffffff;

inline constexpr uint32_t kMaxDirectStores = 8;  ///< of one fold

struct Range {
  uint32_t begin = 0;
  uint32_t end = 0;
};

/// What an offset counts from. Message: the payload of that operand's message.
enum class Base : uint32_t { Input, Output, Scratch, Message, None };

struct Ref {
  Base base = Base::None;
  uint64_t offset = 0;
};

/// A run of bytes that is contiguous in every operand and in the destination.
struct Segment {
  uint64_t bytes = 0;
  uint64_t at = 0;       ///< its offset in the outgoing message
  Ref to;                ///< None: nothing is stored locally
  uint32_t sources = 0;  ///< first of the instruction's `sources` entries in Tables::sources
  int32_t raw = -1;      ///< the operand that reads the call's input, which pre-multiplied sums scale; −1: none
};

struct Instruction {
  Range segments;
  Range arrivals;        ///< in-links, one for each operand that is a message, in operand order
  Range outs;            ///< out-links
  uint64_t bytes = 0;    ///< length of each message that comes or goes
  uint64_t salt = 0;     ///< xored into the tag: distinguishes the messages of one send or recv from the rank's others
  Ref zcopy_at;          ///< where the outgoing message lies in the rank's own memory, if it may be zero-copy
  uint32_t sources = 0;  ///< operands
  uint32_t stage = kNone;  ///< staging for the outgoing message, if it needs any
  uint32_t after_lane = kNone;
  uint32_t after_op = 0;  ///< index within that lane
  uint32_t step = 0;      ///< the plan's step, within its lane, for messages to users
  FoldShape shape = FoldShape::Left;
  bool completes = false;           ///< the fold's result is final: averages divide it
  bool zcopy = false;               ///< the outgoing message may be zero-copy
  bool allow_cma = false;           ///< … also on links whose readers use CMA
  bool mapped = false;              ///< … and lies in memory that peers can map
  bool zcopy_first = false;         ///< the zero-copy message exists before the instruction runs: publish it first
  bool inlined = false;             ///< the outgoing message travels in its descriptor
  bool has_pieces = true;           ///< false: a bare signal, sent in the first round only
  bool cooperative = false;         ///< copies one long message unchanged: its writer may copy part of it
  bool nontemporal = false;         ///< the local result is not read again soon: store it past the cache
  bool involves_peers = false;      ///< any of zcopy_arrivals, cooperative, offers, stores_direct
  bool zcopy_arrivals = false;      ///< its messages may be zero-copy
  bool offers = false;              ///< offers its destination to a writer that folds the message
  bool stores_direct = false;       ///< a fold that may be stored directly to the readers' destinations
  bool nontemporal_stores = false;  ///< a direct store to a single reader goes past the cache
  uint32_t ahead = 0;               ///< with `offers`: messages on its link before this one, in a round
  uint32_t after = 0;  ///< with `offers`: messages of this rank, in a round, that must arrive before the direct store
  uint32_t received = 0;  ///< with `stores_direct`: messages received from each reader by then, in a round, at least
};

/// Pointers into a Program's tables: the same on host and device.
struct Tables {
  const Range* lanes = nullptr;  ///< instructions of each lane
  const Instruction* ops = nullptr;
  const Segment* segments = nullptr;
  const Ref* sources = nullptr;
  const uint32_t* arrivals = nullptr;
  const uint32_t* outs = nullptr;
};

/// Staging slots whose messages go to the same out-links. A slot is free when every reader has consumed its message.
struct Stage {
  unsigned char* base = nullptr;
  uint64_t slot_bytes = 0;
  uint32_t slots = 0;
  uint32_t readers = 0;
  uint64_t uses = 0;
  uint64_t* held = nullptr;        ///< [slot][reader]: the count of consumed messages that frees the slot
  const uint32_t* outs = nullptr;  ///< the readers' out-links
};

}  // namespace tutti::exec
