// The programs of all ranks, as far as their times depend on them.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/compile/lower.hpp"
#include "plan/algorithm.hpp"

namespace tutti::sim {

/// One direction of messages between two ranks: a link of one lane.
struct Channel {
  Rank from = kNoRank, to = kNoRank;
};

/// An instruction, without its addresses.
struct Work {
  uint64_t bytes = 0;    ///< of each message
  exec::Range arrivals;  ///< in RankWork::arrivals: channels
  exec::Range outs;      ///< in RankWork::outs
  uint32_t after_lane = exec::kNone, after_op = 0;
  uint32_t step = 0;          ///< of the plan, within its lane
  uint16_t local = 0;         ///< operands in the rank's own memory
  uint16_t writes = 0;        ///< of the result: to the rank's memory, to staging
  double buffer_loads = 0;    ///< bytes of the call's buffers that are read, if no instruction before has used them …
  double buffer_stores = 0;   ///< … or written, likewise: from then on a cache holds them, as it holds scratch
  bool lends_buffer = false;  ///< its zero-copy message is such bytes too
  bool stores = false;        ///< the result is stored in the rank's memory
  bool folds = false;
  bool publishes_first = false;
  bool has_pieces = true;
  bool cooperative = false;  ///< the writer copies part of the message that comes
};

struct Sent {
  uint32_t channel = 0;
  exec::Delivery delivery = exec::Delivery::Staged;
};

/// A window's instructions, by lane.
struct WindowWork {
  std::vector<exec::Range> lanes;
  std::vector<Work> ops;
  std::vector<uint32_t> arrivals;
  std::vector<Sent> outs;
};

struct RankWork {
  WindowWork full, last;  ///< of all rounds but the last, and of the last
  bool fenced = false;    ///< rounds at a distance of kVersions do not overlap
};

struct Programs {
  std::vector<RankWork> ranks;
  std::vector<Channel> channels;
  uint64_t rounds = 1;
  uint64_t bytes = 0;     ///< of a block
  uint64_t full_ops = 0;  ///< instructions of one full window, of all ranks
  bool verified = false;  ///< by this call; else the algorithm's tests have proven its kind
};

struct Call {
  const plan::Algorithm* algorithm = nullptr;
  plan::Shape shape;
  exec::Geometry geometry;
  link::Access near, far;       ///< what links inside a host, and between hosts, can do
  std::vector<uint32_t> hosts;  ///< by rank
};

inline constexpr uint64_t kMaxInstructions = uint64_t{6} << 20;  ///< of a window, of all ranks
/// What is verified before it is replayed, which takes about a second at most: steps, and what they name, of all ranks;
/// and these times the ranks, since the proof keeps a clock of every rank for messages under way.
inline constexpr uint64_t kMaxVerified = uint64_t{1} << 18, kMaxVerifiedClocks = uint64_t{1} << 27;

/// Generates all ranks' plans, verifies them if they are few enough, and compiles them as an executor would. Throws
/// Error(InvalidArgument) for plans that the verifier rejects, Error(Unsupported) for too many instructions.
Programs compile(const Call& call);

}  // namespace tutti::sim
