// Methods: the ways to run a plan. Beside its algorithm, a call's method is a candidate of the selector: what it can
// run follows from the plan's steps, and what it costs from the plan's costs and the method's own.
//
//   lanes         host memory: threads interpret the program's lanes
//   slots         GPU memory: blocks interpret them, messages are pushed to slots of the peer's memory (put)
//   get           the same, messages stay in their writer's memory, and their readers load them there
//   ll, ll128     the same, messages travel as lines that carry their flags (NCCL: LL, LL128)
//   copy_engine   the GPUs' copy engines move the messages, and no multiprocessor is used
//   nvls          the switch between the GPUs folds and multicasts (NVLink SHARP)
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "link/cost.hpp"
#include "plan/algorithm.hpp"
#include "plan/plan.hpp"

namespace tutti::exec {

struct Reduction;

inline constexpr const char* kHost = "host";  ///< the backend of memory of the host

/// The figures by which a call is priced. `two_levels`: ranks are in groups, with other links between groups.
struct Prices {
  double call = 0;              ///< seconds of each call, beside its messages and folds
  link::LinkCost inside;        ///< inside groups; of all links, without two levels
  link::LinkCost between;       ///< between groups, with two levels
  double gamma = 0;             ///< seconds per byte folded
  double context_switch = 0;    ///< seconds
  double oversubscription = 1;  ///< ranks on the core that most ranks share; at least 1
  bool two_levels = false;
  /// Ranks copy into and out of staging memory at the same time, each in half of β, and do not wait for all others.
  bool overlaps = false;
};

struct Method {
  const char* name = "";
  std::string_view backend = "";  ///< that runs it; kHost: calls in memory of the host
  /// Why it cannot run a rank's plan; "" if it can. Null: it can run any.
  std::string (*accepts)(const plan::RankPlan& plan) = nullptr;
  /// Can it fold so? Null: it folds all.
  bool (*supports)(const Reduction& how) = nullptr;
  /// Changes the costs of a plan to those of running it so, in `width` replicas. Null: they are the plan's.
  void (*price)(plan::Cost& cost, Prices& prices, Rank ranks, uint32_t width) = nullptr;
  /// Why it cannot run barriers; "" if it can: what a rank wrote before a barrier is seen by all after it.
  const char* why_no_barrier = "";
  bool wide = true;  ///< its programs may have several replicas
  /// Its costs were never compared with hardware: it runs only where it is forced, or where a profile has its times.
  bool only_modelled = false;
  /// Nobody but its backend counts its calls: they have numbers of their own there.
  bool counted_apart = false;
  /// Why no program of it says how messages are delivered; "": programs say it, since their lanes are interpreted.
  const char* delivery = "";
  /// Messages that lie in memory which peers can read are read there, others in staging memory of their writer.
  bool reads_in_place = false;

  bool is_on_host() const { return backend == kHost; }
  bool interprets_lanes() const { return *delivery == '\0'; }
  /// By names, since a module has copies of the library's. Methods of two backends may have one name.
  friend bool operator==(const Method& a, const Method& b) {
    return std::string_view(a.name) == b.name && a.backend == b.backend;
  }
};

namespace methods {
extern const Method lanes, slots, get, ll, ll128, copy_engine, nvls;
}  // namespace methods

/// A method as the ranks of a communicator can use it. 0: no limit of its own.
struct UsableMethod {
  const Method* method = &methods::lanes;
  std::string why_not = "";   ///< it cannot be used at all; "" if it can
  uint64_t message = 0;       ///< bytes of its longest message
  uint64_t staging = 0;       ///< bytes that all messages of a replica take in a round
  uint64_t buffer = 0;        ///< bytes of all blocks of a buffer that a round moves
  uint64_t window = 0;        ///< bytes of a block that a round moves, …
  uint64_t least_window = 0;  ///< … and for each replica at least
  uint64_t rounds = 0;        ///< of a call
  uint32_t width = 0;         ///< replicas
};

/// A backend's methods, the one that runs any plan first.
std::vector<const Method*> methods_of(std::string_view backend);
/// Those of all backends.
const std::vector<const Method*>& all_methods();
/// Null: there is none of this name.
const Method* find_method(std::string_view name);
/// Adds those of a backend.
void register_methods(std::span<const Method* const> methods);

}  // namespace tutti::exec
