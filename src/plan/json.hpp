// Plans as text: what people write, keep and send to each other. docs/plan-format.md describes the format.
//
// A text from outside is hostile until it is proven: its size, its nesting and every number in it are bounded before
// anything is allocated for them, it is read in one pass whose memory is a small multiple of the text, and unless the
// caller asks for it as it is, plans leave only with the verifier's consent.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.hpp"

namespace tutti::plan {

inline constexpr size_t kMaxPlanText = size_t{64} << 20;  ///< bytes of a text that is read
inline constexpr size_t kMaxPlanName = 64;                ///< bytes of the name of a set of plans

/// The plans of all ranks, and what they are called.
struct PlanSet {
  std::string name;
  std::vector<RankPlan> plans;
};

enum class Proof : uint8_t { Demand, Omit };

/// The plans of all ranks of one collective as text, a step a line. They must be well-formed: as generated or verified.
std::string to_json(std::span<const RankPlan> plans, std::string_view name);

/// Reads such a text. Each table of a plan comes out in the order of lanes and steps, whatever its order was when the
/// text was written. Throws Error(InvalidArgument) that says where in the text (JSON pointer), or at which rank, lane
/// and step, what is wrong; with Proof::Omit the plans are well-formed but their tables' entries may be out of range:
/// give them to verify() and to nothing else.
PlanSet from_json(std::string_view text, Proof proof = Proof::Demand);

/// Reads a file, which must be a regular one. Throws as from_json does, and Error(SystemError), naming the file.
PlanSet load_plans(const std::string& path, Proof proof = Proof::Demand);

}  // namespace tutti::plan
