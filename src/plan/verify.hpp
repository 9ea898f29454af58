// The verifier: runs the plans of all ranks together on symbols instead of numbers, and proves their result for every
// message size and every order of execution.
//
// It assumes of an executor:
// - a step begins to write only when all of its messages have arrived, and its reads of lent memory end with the step;
// - a message that has chunks is sent in every round, even if the window is so short that it is empty (else what it
//   orders would be unordered in a short last round); one without chunks need be sent in round 0 only;
// - the lanes of a rank that share scratch (plan/scratch.hpp) enter round k + versions only when all of them have
//   finished round k (others may be any number of rounds apart);
// - a Reduce whose destination is, element for element, one of its operands folds as if it had read them all first, and
//   a Copy whose pieces are the same memory as its source's, piece by piece, writes nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/algorithm.hpp"
#include "plan/plan.hpp"

namespace tutti::plan {

struct VerifyOptions {
  uint32_t capacity = 4;            ///< unread messages that a link always has room for
  uint32_t versions = 2;            ///< how many rounds' scratch exists at the same time
  bool check_reproducible = false;  ///< also require the canonical order of every fold (see is_canonical)
  bool every_rank = false;          ///< check races on every rank, even if all ranks are alike (verify/alike.hpp)
};

/// The result of a proof. If it fails, `reason` names rank, lane, step and the fault.
struct Verdict {
  bool ok = true;
  std::string reason;
  bool too_large = false;  ///< nothing wrong was found, but the proof passes a limit, which `reason` names
  explicit operator bool() const { return ok; }
};

/// Proves, for every message size and every timing, that the plans of all ranks (in rank order; they may come from
/// outside and are not trusted) together compute their collective:
/// - every table entry is in bounds, and the sizes are within the verifier's limits;
/// - every message is received, by the same lane and of the same chunks that were sent;
/// - no deadlock when each link holds `capacity` messages;
/// - every output has exactly the required contributions, each once, in place and out of place; each `completes` claim
///   holds, and every output of a reduction passed exactly one such fold (n > 1);
/// - no two lanes race for memory over versions + 1 rounds, and no `lend` claim is false.
/// In place means: input is output (all-reduce, broadcast, reduce), is output block [rank] (all-gather, gather), or
/// output is input block [rank] (reduce-scatter, scatter). All-to-all is never in place.
Verdict verify(std::span<const RankPlan> plans, const VerifyOptions& options = {});

/// A send that claims a weaker Lend than can be proven.
struct MissedLend {
  Rank rank = 0;
  uint32_t lane = 0;
  uint32_t step = 0;  ///< within the lane
  Lend provable = Lend::Never;
};

/// What is sent over one link in one round.
struct LinkCount {
  Rank from = 0;
  Rank to = 0;
  uint32_t lane = 0;
  uint32_t messages = 0;
  Ratio sent;  ///< in units of the call's count
};

/// What plans really do, for comparison with the claims of their algorithm.
/// A chain of dependent messages follows the steps of a lane in order, `after`, and messages.
struct Counted {
  Cost cost;
  std::vector<LinkCount> links;  ///< by sender, lane, receiver
  uint32_t lends = 0;            ///< sends that claim lending
  std::vector<MissedLend> lends_missed;
};

/// Counts plans, which it verifies first. Throws Error(InvalidArgument) with the reason if verify() rejects them, and
/// Error(Unsupported) if they are too large to prove or the fractions are too fine for 64-bit sums.
Counted count(std::span<const RankPlan> plans, const VerifyOptions& options = {});

/// True if both sets of plans (of one shape, each accepted by verify) give the same bits in every output, for every
/// type: the same fold trees over the same operands in the same order. With `round_every_node`, 16- and 8-bit results
/// are rounded at each addition (the reproducible mode), else once per step.
bool same_bits(std::span<const RankPlan> a, std::span<const RankPlan> b, bool round_every_node = false);

/// True if every output is folded in the canonical order: with e = n − 2^⌊log2 n⌋, leaves (0+1), (2+3), …
/// (2e−2 + 2e−1), 2e, … n−1, and the perfect binary tree over those; of the ranks before relabelling
/// (Shape::root). For plans that verify() has accepted.
bool is_canonical(std::span<const RankPlan> plans);

}  // namespace tutti::plan
