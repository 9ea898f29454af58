// What the interpreter runs: instructions, as plain tables that are the same on hosts and devices.
//
// Every step becomes an instruction of one form: wait for messages, fold them with local pieces (a fold of one operand
// is a copy), then store the result locally, publish it, or both. So receive-reduce-send in one pass is no special
// case.
#pragma once

#include <cstdint>

#include "base/hd.hpp"
#include "reduce/fold_shape.hpp"

namespace tutti::exec {

inline constexpr uint32_t kNone = 0xffffffff;

struct Range {
  uint32_t begin = 0;
  uint32_t end = 0;
};

/// What an offset counts from. Message: the payload of that operand's message.
enum class Base : uint32_t { Input, Output, Scratch, Message, None };

struct Ref {
  constexpr Ref() = default;
  TUTTI_HD constexpr Ref(Base from, uint64_t at) : base(from), offset(at) {}
  Base base = Base::None;
  uint32_t message = 0;  ///< Message: its number among the instruction's
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

/// How a message's bytes reach one reader; decided in exec/compile/delivery.hpp. The last three are zero-copy: the
/// reader reads the message in the writer's own memory.
enum class Delivery : uint32_t {
  Inline,   ///< in the descriptor
  Staged,   ///< copied to the writer's arena, read there
  Pushed,   ///< written to a slot in the reader's memory
  Ll,       ///< the same, each word with its flag, on a link of its own (link/ll.hpp)
  Ll128,    ///< the same, each 128 bytes with their flag
  Address,  ///< at its address, by a thread of the same process or by the link's engine
  Mapped,   ///< in a region that the reader maps
  Cma       ///< copied by the reader's kernel
};
TUTTI_HD inline constexpr bool is_flagged(Delivery delivery) {
  return delivery == Delivery::Ll || delivery == Delivery::Ll128;
}
TUTTI_HD inline constexpr bool is_zero_copy(Delivery delivery) { return delivery >= Delivery::Address; }

/// One reader of an outgoing message.
struct Out {
  uint32_t link = 0;
  Delivery delivery = Delivery::Staged;
};

/// Where the outgoing message is written: nowhere (all readers read it in its memory), to the lane's buffer for inline
/// messages, to staging, or to the memory of the one reader to whom it is pushed, Instruction::push_to. Several such
/// readers get copies of what is in staging or in the rank's own memory.
enum class Slot : uint8_t { None, Small, Stage, Push };

/// What an instruction does beyond the links' messages: bits, see exec/host/remote_access.hpp.
inline constexpr uint8_t kZeroCopyArrivals = 1;   ///< its messages may be zero-copy
inline constexpr uint8_t kCooperativeCopy = 2;    ///< copies one long message unchanged: its writer may copy part of it
inline constexpr uint8_t kOffersDestination = 4;  ///< offers its destination to a writer that folds the message
inline constexpr uint8_t kStoresDirect = 8;       ///< a fold that may be stored directly to the readers' destinations

/// With kOffersDestination or kStoresDirect. Messages are counted in a round.
struct DirectStore {
  uint32_t ahead = 0;        ///< offers: messages on the link before this one
  uint32_t after = 0;        ///< offers: messages of this rank that must arrive before the store
  uint32_t received = 0;     ///< stores: messages received from each reader by then, at least
  bool nontemporal = false;  ///< a store to a single reader goes past the cache
};

struct Instruction {
  Range segments;
  Range arrivals;      ///< in-links, one for each operand that is a message, in operand order
  Range outs;          ///< readers of the result
  uint64_t bytes = 0;  ///< length of each message that comes or goes
  uint64_t repeats =
      1;              ///< times that it runs, each time `bytes` further in the input; more than 1 without a plan only
  uint64_t salt = 0;  ///< xored into the tag: distinguishes the messages of one send or recv from the rank's others
  uint32_t sources = 0;  ///< operands
  uint32_t after_lane = kNone;
  uint32_t after_op = 0;     ///< index within that lane
  uint32_t stage = kNone;    ///< with Slot::Stage
  uint32_t push_to = kNone;  ///< with Slot::Push: an entry of Tables::outs
  FoldShape shape = FoldShape::Left;
  Slot slot = Slot::None;
  uint8_t remote = 0;            ///< kZeroCopyArrivals | …
  bool completes = false;        ///< the fold's result is final: averages divide it
  bool push_copies = false;      ///< the message is copied to the readers to whom it is pushed
  bool lines = false;            ///< messages come to it in lines
  bool only_sends = false;       ///< nothing is moved but to the readers
  bool defers_fence = false;     ///< where fences order: a short send that another follows, whose fence serves both
  bool publishes_first = false;  ///< the outgoing message exists before the instruction runs
  bool lands = false;            ///< copies one message unchanged to one place: an engine may receive it there
  bool has_pieces = true;        ///< false: a bare signal, sent in the first round only
  bool nontemporal = false;      ///< the local result is not read again soon: store it past the cache
  uint32_t step = 0;             ///< the plan's step, within its lane, for messages to users
  Ref message;                   ///< where the outgoing message lies in the rank's own memory, for zero-copy
  DirectStore direct;
};

/// Pointers into a program's tables: the same on host and device.
struct Tables {
  const Range* lanes = nullptr;  ///< instructions of each lane
  const Instruction* ops = nullptr;
  const Segment* segments = nullptr;
  const Ref* sources = nullptr;
  const uint32_t* arrivals = nullptr;
  const Out* outs = nullptr;
};

}  // namespace tutti::exec
