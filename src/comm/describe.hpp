// How ranks are named in messages.
#pragma once

#include <string>
#include <vector>

#include "comm/messages.hpp"

namespace tutti::comm {

/// "process 4711 on node17".
inline std::string describe_process(const Member& member) {
  return fmt::format("process {} on {}", member.process, member.host_name);
}

/// "rank 2 (process 4711 on node17)".
inline std::string describe_rank(Rank rank, const Member& member) {
  return fmt::format("rank {} ({})", rank, describe_process(member));
}

/// "rank 1", "ranks 1, 3, 4 and 60 more".
inline std::string list_ranks(const std::vector<Rank>& ranks) {
  constexpr size_t kShown = 16;
  const size_t shown = std::min(ranks.size(), kShown);
  std::string text = fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks",
                                 fmt::join(ranks.begin(), ranks.begin() + static_cast<ptrdiff_t>(shown), ", "));
  if (shown < ranks.size()) text += fmt::format(" and {} more", ranks.size() - shown);
  return text;
}

/// True for ranks of one process.
inline bool same_process(const Member& a, const Member& b) {
  return a.host == b.host && a.process == b.process && a.started == b.started && a.nonce == b.nonce;
}

}  // namespace tutti::comm
