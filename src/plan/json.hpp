// Plans as JSON text. docs/plan-format.md describes the format.
//
// A text from outside is untrusted: its size, its nesting and every number in it are checked before anything is
// allocated for them. It is read in one pass whose memory is a small multiple of the text. Plans are verified unless
// the caller omits that.
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

/// The plans of all ranks, and their name.
struct PlanSet {
  std::string name;
  std::vector<RankPlan> plans;
};

enum class Proof : uint8_t { Demand, Omit };

/// The plans of all ranks of one collective as text, one step per line. They must be generated or verified.
std::string to_json(std::span<const RankPlan> plans, std::string_view name);

/// Reads such a text. The tables of a plan are in the order of lanes and steps, which may differ from the writer's.
/// Throws Error(InvalidArgument), which names the fault and its position: a JSON pointer, or rank, lane and step. With
/// Proof::Omit the tables' entries may be out of range: such plans may only be passed to verify().
PlanSet from_json(std::string_view text, Proof proof = Proof::Demand);

/// Reads a regular file. Throws as from_json does, and Error(SystemError); both name the file.
PlanSet load_plans(const std::string& path, Proof proof = Proof::Demand);

}  // namespace tutti::plan
