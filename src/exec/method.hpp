// Methods: the ways to run a plan. Beside its algorithm, a call's method is a candidate of the selector: what it can
// run follows from the plan's steps, and what it costs from the plan's costs and the method's own.
//
//   lanes         host memory: threads interpret the program's lanes
//   slots         GPU memory: blocks interpret them, messages are pushed to slots of the peer's memory
//   ll, ll128     the same, messages travel as lines that carry their flags (NCCL: LL, LL128)
//   copy_engine   the GPUs' copy engines move the messages, and no multiprocessor is used
//   nvls          the switch between the GPUs folds and multicasts (NVLink SHARP)
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "exec/memory_kind.hpp"
#include "link/cost.hpp"
#include "plan/algorithm.hpp"
#include "plan/plan.hpp"

namespace tutti::exec {

struct Reduction;

/// The figures by which a call is priced. `two_levels`: ranks are in groups, with other links between groups.
struct Prices {
  link::LinkCost inside;        ///< inside groups; of all links, without two levels
  link::LinkCost between;       ///< between groups, with two levels
  double gamma = 0;             ///< seconds per byte folded
  double context_switch = 0;    ///< seconds
  double oversubscription = 1;  ///< ranks on the core that most ranks share; at least 1
  bool two_levels = false;
};

struct Method {
  const char* name = "";
  MemoryKind memory = MemoryKind::Host;
  /// Why it cannot run a rank's plan; "" if it can. Null: it can run any.
  std::string (*accepts)(const plan::RankPlan& plan) = nullptr;
  /// Can it fold so? Null: it folds all.
  bool (*supports)(const Reduction& how) = nullptr;
  /// Changes the costs of a plan to those of running it so, in `width` replicas. Null: they are the plan's.
  void (*price)(plan::Cost& cost, Prices& prices, Rank ranks, uint32_t width) = nullptr;
  bool wide = true;  ///< its programs may have several replicas
  /// Its costs were never compared with hardware: it runs only where it is forced, or where a profile has its times.
  bool only_modelled = false;

  /// By name: a module has methods of its own.
  friend bool operator==(const Method& a, const Method& b) { return std::string_view(a.name) == b.name; }
};

namespace methods {
extern const Method lanes, slots, ll, ll128, copy_engine, nvls;
}  // namespace methods

/// Those for memory of this kind, the one that runs any plan first.
std::span<const Method* const> methods_for(MemoryKind memory);
/// Null: there is none of this name.
const Method* find_method(std::string_view name);

}  // namespace tutti::exec
