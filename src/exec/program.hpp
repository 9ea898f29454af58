// A program: one rank's plan, fused and scaled to a call's sizes.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "base/rank.hpp"
#include "exec/compile/delivery.hpp"
#include "exec/instruction.hpp"

namespace tutti::exec {

/// The tables for one window size. Their link numbers index Program::in_links and Program::out_links.
struct WindowProgram {
  std::vector<Range> lanes;
  std::vector<Instruction> ops;
  std::vector<Segment> segments;
  std::vector<Ref> sources;
  std::vector<uint32_t> arrivals;
  std::vector<Out> outs;
  std::vector<Decision> decisions;  ///< of `outs`: nothing runs by them, they explain
};

/// A link of a rank, to or from `peer`.
struct LinkId {
  Rank peer = kNoRank;
  uint32_t link_lane = 0;
  auto operator<=>(const LinkId&) const = default;
};

/// The staging memory that messages to the same readers need.
struct StageNeed {
  uint64_t slot_bytes = 0;
  std::vector<uint32_t> outs;  ///< the readers' links, as numbers in Program::out_links
};

struct Method;  // exec/method.hpp: how it is run
namespace methods {
extern const Method lanes;
}

/// A rank's program: immutable, and the same wherever it runs. It knows no buffer and no connected link.
struct Program {
  WindowProgram full, last;  ///< for all rounds but the last, and for the last
  std::vector<LinkId> out_links, in_links;
  std::vector<StageNeed> stages;
  uint64_t rounds = 1;
  uint64_t window_bytes = 0;   ///< by which a round advances input and output
  uint64_t scratch_bytes = 0;  ///< of one version; 0 if no instruction touches scratch
  uint32_t width = 1;          ///< replicas of the lanes that the executor runs, over disjoint windows
  /// Rounds of a replica: they are dealt out to the replicas in turn.
  uint64_t rounds_of(uint32_t replica) const { return (rounds - replica + width - 1) / width; }
  bool fenced = false;  ///< lanes share scratch (plan/scratch.hpp): their rounds are ordered as the verifier assumes
  bool offers = false;  ///< some instruction offers a destination for a direct store
  const Method* method = &methods::lanes;
  bool has_zero_copy = false;  ///< some message is zero-copy: its reader must be done before the call ends
  uint32_t max_arrivals = 0;   ///< of any instruction
  uint32_t max_sources = 0;
};

/// Bytes of payload in all messages that the program sends, one copy for each reader.
uint64_t sent_bytes(const Program& program);
/// Bytes that it receives.
uint64_t received_bytes(const Program& program);

}  // namespace tutti::exec
