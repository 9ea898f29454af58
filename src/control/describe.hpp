// How error messages name ranks.
#pragma once

#include <unistd.h>

#include <string>
#include <vector>

#include "control/host.hpp"
#include "control/messages.hpp"

namespace tutti::control {

/// "process 4711 on node17".
inline std::string describe_process(const Member& member) {
  return fmt::format("process {} on {}", member.process, member.host_name);
}

/// "10.0.0.7".
inline std::string address_of(const Member& member) {
  return member.addresses.empty() ? "127.0.0.1" : to_string(member.addresses.front());
}

/// "rank 2 (process 4711 on node17)".
inline std::string describe_rank(Rank rank, const Member& member) {
  return fmt::format("rank {} ({})", rank, describe_process(member));
}

inline std::string describe_silence(double seconds) {
  return fmt::format(
      "nothing was heard of it for {:.1f} s: its host is lost, or its process is stopped. Raise "
      "TUTTI_HEARTBEAT_TIMEOUT if it may be silent for longer",
      seconds);
}

/// The ranks of a communicator that is being made of another one are named by their numbers in that one.
inline Rank name_of(Rank rank, const std::vector<Rank>& names) {
  return static_cast<size_t>(rank) < names.size() ? names[static_cast<size_t>(rank)] : rank;
}

/// The text sent to the other ranks when a rank withdraws.
inline std::string describe_withdrawal(Rank rank, const Error& why) {
  return fmt::format("rank {} (process {} on {}) cannot take part: {}", rank, getpid(), host_name(), why.what())
      .substr(0, kMaxSmall);
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

/// Prefixes the text with "rank 3: ", unless it begins so already.
inline std::string said_by(Rank rank, const std::string& text) {
  const std::string prefix = fmt::format("rank {}: ", rank);
  return text.compare(0, prefix.size(), prefix) == 0 ? text : prefix + text;
}

/// The name of a split communicator in messages: "split of world (colour 2, ranks 0, 1 and 3)".
inline std::string title_of_split(const std::string& parent, int colour, const std::vector<Rank>& ranks) {
  constexpr size_t kLongest = 80;  // bytes of the parent's title
  return fmt::format("split of {} (colour {}, {})", parent.substr(0, kLongest), colour, list_ranks(ranks));
}

/// Of a communicator, with this public name, to which nobody has given another one.
inline std::string title_of_unnamed(const std::string& name, Rank ranks) {
  return fmt::format("communicator {} of {} ranks", name.substr(0, 4), ranks);
}

inline std::string title_of_shrunk(const std::string& parent, const std::vector<Rank>& excluded) {
  constexpr size_t kLongest = 80;  // bytes of the parent's title
  return fmt::format("{} without {}", parent.substr(0, kLongest), list_ranks(excluded));
}

/// True if both members are the same process.
inline bool same_process(const Member& a, const Member& b) {
  return a.host == b.host && a.process == b.process && a.started == b.started && a.nonce == b.nonce;
}

}  // namespace tutti::control
