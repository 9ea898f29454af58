// The calls of a job's ranks, from the traces of its processes (src/trace/rank_trace.hpp).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tutti::tools {

/// A long wait for a rank; −1: it is not known for which.
struct TracedWait {
  int64_t peer = -1;
  int64_t began = 0, ended = 0;  ///< nanoseconds
};

struct TracedCall {
  enum class Kind : uint8_t { Collective, Send, Recv, OneSided };
  Kind kind = Kind::Collective;
  uint64_t number = 0;
  std::string text;
  uint64_t bytes = 0;
  int64_t peer = -1;      ///< of a send or receive, or of a call on a window
  bool enqueued = false;  ///< on a device: when it ran is not known
  bool exact = true;      ///< `entered` is when it was entered; else it was before
  int64_t entered = 0;    ///< nanoseconds
  int64_t left = 0;       ///< 0: it has not ended, or that is not known
  uint64_t error = 0;     ///< the code with which it ended
  std::vector<TracedWait> waits;
};

struct RankCalls {
  std::string communicator, title;
  int64_t rank = 0, ranks = 0;
  uint64_t earlier = 0;  ///< events that the trace no longer has
  std::vector<TracedCall> calls;
};

struct ProcessCalls {
  std::string host;
  uint32_t process = 0;
  int64_t now = 0;   ///< when the trace was read, by the host's clock for all times here
  int64_t wall = 0;  ///< the same moment, nanoseconds since 1970
  std::vector<RankCalls> ranks;
};

/// Throws Error(InvalidArgument) if it is not a process's trace.
ProcessCalls read_trace(const nlohmann::json& page);

/// The collective's name: "all_reduce" of "all_reduce(count=4, f32, sum)".
std::string name_of(const TracedCall& call);

}  // namespace tutti::tools
