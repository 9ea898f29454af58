// What a process gives away of its last calls: for `tutti trace`, and in the file that it leaves when it fails.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/rank.hpp"
#include "trace/ring.hpp"

namespace tutti::trace {

inline constexpr int kTraceFormat = 1;  ///< of to_json(); docs/watching.md has the schema

/// A call, from the event of its beginning.
struct TracedCall {
  uint64_t number = 0;     ///< of collectives on the communicator; of transfers to, or from, the peer
  std::string text;        ///< "barrier()"
  uint64_t bytes = 0;      ///< of its count
  Rank peer = kNoRank;     ///< of a transfer, or of a call on a window
  bool sends = false;      ///< it is a send
  bool one_sided = false;  ///< it is a call on a window; `number` is of those of the rank
};

struct RankTrace {
  std::string communicator;  ///< its public name, the same on all ranks
  std::string title;         ///< in messages
  Rank rank = 0, ranks = 0;
  Ring::Events events;
  std::function<TracedCall(const Event&)> call;  ///< reads an event of a beginning
};

std::string to_json(const RankTrace& rank);

struct ProcessTrace {
  std::string host;
  uint32_t process = 0;
  std::vector<std::string> ranks;  ///< as JSON
  uint64_t omitted = 0;            ///< ranks beyond kMaxTrace
};

inline constexpr size_t kMaxTrace = size_t{32} << 20;  ///< bytes of the ranks' JSON, or little more

/// One line.
std::string to_json(const ProcessTrace& process);

}  // namespace tutti::trace
