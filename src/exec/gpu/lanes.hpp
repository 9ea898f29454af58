// What the host and the kernels exchange: plain data.
//
// A call is one launch. Its blocks divide the program's lanes among them, and each runs its lanes to their end. What
// changes from call to call and must be right in a replayed graph lies in the GPU's memory: the number of the call, the
// counters of the links. The launch's own arguments are frozen in a graph, so they hold only what a graph repeats.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/gpu/fault_report.hpp"
#include "exec/state.hpp"

namespace tutti::exec::gpu {

inline constexpr uint32_t kMaxBlocks = 64;                  ///< of a rank's call
inline constexpr uint32_t kMaxThreads = 512;                ///< of a block
inline constexpr uint32_t kMaxOperands = 1024;              ///< of an instruction
inline constexpr uint64_t kMaxSegment = uint64_t{1} << 31;  ///< bytes
inline constexpr uint32_t kTurnsPerPoll =
    512;  ///< turns without progress from one look at the host's words to the next

/// Which kernel runs a program: by how its messages travel. Lines take registers, so programs without them have one
/// without them.
enum class KernelKind : uint8_t {
  Slots,  ///< none in lines
  Ll,     ///< some in lines, others in slots
  Short,  ///< one lane, all by LL, none of them by LL128
};

/// A communicator's words in the memory of its GPU.
struct Counters {
  uint64_t calls = 0;        ///< that have ended
  uint64_t collectives = 0;  ///< of them those that all ranks number alike
  uint64_t owner = 0;        ///< launch that runs now; 0: none
  uint64_t left = 0;         ///< blocks of it that have ended
  uint64_t faulted = 0;      ///< a block has claimed HostRecord::fault
  uint64_t closed = 0;       ///< the communicator has ended or failed: calls that begin do nothing
};

/// What a block waits for, as last reported; two numbers a word, each word stored on its own.
struct BlockWait {
  uint64_t turn = 0;        ///< changes with each report
  uint64_t call = 0;        ///< the number of the call that waits
  uint64_t await_peer = 0;  ///< Await << 32 | peer
  uint64_t link_lane_step = 0;
  uint64_t replica_lane = 0;
  uint64_t round = 0, rounds = 0;
};

/// Words in pinned memory of the host.
struct HostRecord {
  uint64_t abort = 0;        ///< written by the host: kernels that wait end
  uint64_t started = 0;      ///< the number of the call that began last
  uint64_t ended = 0;        ///< of the one that ended last, well or badly
  uint64_t collectives = 0;  ///< Counters::collectives after that one
  uint64_t counted = 0;      ///< CallHead::counted of the last that had one
  FaultReport fault;         ///< the first of the communicator
  BlockWait waits[kMaxBlocks];
};

/// What the parameter of every kernel begins with.
struct CallHead {
  Counters* counters = nullptr;
  HostRecord* record = nullptr;
  uint64_t salt = 0;      ///< the tag is the salt plus, of a collective, its number
  uint64_t numbered = 0;  ///< 1: a collective
  uint64_t launch = 0;    ///< number of the launch, unique in the communicator
  uint64_t counted = 0;   ///< the number in CallCount; 0: captured
};

/// Without a plan: what a transfer of a call moves (exec/gpu/transfers.hpp). The host has divided it: a division of 64
/// bits is a function in a kernel, and a function takes registers from all of it.
struct TransferPart {
  uint64_t at = 0;     ///< the address of its bytes
  uint64_t tag = 0;    ///< exec::Transfer::tag
  uint64_t each = 0;   ///< messages of the greatest length, of each replica that takes part
  uint64_t rest = 0;   ///< bytes of the message that follows them
  uint32_t more = 0;   ///< so many replicas, the first ones, have one more
  uint32_t width = 1;  ///< so many take part
};
inline constexpr uint32_t kNearParts = 16;  ///< that are in the parameter itself

/// What a call tells a program of transfers.
struct TransfersCall {
  uint64_t message = 0;                 ///< bytes of a message, at most; 0: the program has a plan
  const uint32_t* firsts = nullptr;     ///< of each lane, and of one more: the number of its first transfer
  const TransferPart* parts = nullptr;  ///< by number; a fold's result comes after it. Null: they are in `near`
  TransferPart near[kNearParts];
};

/// A link that an item uses. The kernel copies it to the item when a call begins, and back when it ends.
struct LinkUse {
  static constexpr uint32_t kIn = uint32_t{1} << 31;
  uint32_t number = kNone;  ///< among the rank's out-links or, plus kIn, its in-links
  uint32_t at = 0;          ///< where its copy lies in the item
};

/// The state of one lane of a replica. Behind it lie its LinkUses, and what it points to but for the tables.
struct Item {
  RankState rank;  ///< begins with its tables
  LaneState lane;
};
static_assert(offsetof(Item, rank) == 0 && offsetof(RankState, full) == 0 &&
              offsetof(RankState, last) == sizeof(Tables));

/// Where a program's items lie in the image, and the tables of its lanes. Blocks copy both to shared memory, where
/// there is room: a load of the GPU's memory takes ten times as long, and an instruction has dozens that wait for each
/// other.
struct Items {
  unsigned char* at = nullptr;      ///< each of `bytes` bytes
  unsigned char* tables = nullptr;  ///< each of `table_bytes`, of each lane; of each item if `own_tables`
  uint32_t bytes = 0, table_bytes = 0;
  uint32_t links = 0;  ///< LinkUses of each item
  bool own_tables = false;
};
inline constexpr uint32_t kAlignment = 128;                         ///< of all sizes there
inline constexpr uint32_t kUsesAt = (sizeof(Item) + 15) / 16 * 16;  ///< where an item's LinkUses begin
inline constexpr uint32_t kSharedBytes = 32 << 10;                  ///< of a block, for items and tables

/// The parameter of the kernels that run lanes.
struct LanesCall {
  CallHead head;
  Items image;
  link::OutLink* out_links = nullptr;  ///< all of the rank, in the GPU's memory
  link::InLink* in_links = nullptr;
  LaneState* progress = nullptr;  ///< of each item, where lanes wait for each other; else null
  uint32_t items = 0;
  uint32_t lanes = 0;         ///< of a replica
  bool in_shared = false;     ///< blocks run items in shared memory
  uint16_t threads = 0;       ///< of a block, that a short call has work for; 0: as many as there are
  bool straight = false;      ///< one item, one round, all messages in lines: instructions run one after the other
  uint64_t window_bytes = 0;  ///< by which a replica's part of the buffers begins after that of the one before
  uint64_t scaled = 0;        ///< 1: `scale` holds an element; 2: it holds the address of one
  unsigned char* in = nullptr;
  unsigned char* out = nullptr;
  unsigned char scale[8] = {};
  link::SharedRegion in_region, out_region;  ///< that peers can read, with `in` and with `out`
  TransfersCall transfers;
};

/// Calls of a group that one launch runs in turn: each begins when the one before it has ended.
inline constexpr uint32_t kMaxBatch = 16;
inline constexpr const char* kBatchTypes[] = {"u16", "u32", "bf16", "f32"};  ///< that have kernels for it
struct LanesBatch {
  uint32_t count = 0;
  LanesCall calls[kMaxBatch];
};
static_assert(sizeof(LanesBatch) <= 32764, "what a kernel's parameters may take, from CUDA 12.1 on");

}  // namespace tutti::exec::gpu
