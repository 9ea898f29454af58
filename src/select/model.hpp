// The model: what an algorithm costs on a machine.
//
// Costs are the algorithms' closed forms under the α–β–γ model: T = rounds·α + bytes·β + folded·γ, where `bytes` is the
// larger of what a rank sends and receives. When ranks read each other's memory, a message to several ranks is written
// once and counts once.
//
// Oversubscription: with k ranks per core, the ranks of a core run one after the other. α gains k − 1 context switches
// per round; the times to copy and to fold are multiplied by k.
//
// When groups of ranks (of one host) are known, links between groups have their own α and β. Algorithms that work along
// groups, or that keep some steps inside groups of neighbours, state which part of their cost goes between groups; each
// part is paid at its rate. For any other algorithm, the model assumes that all messages go between groups. Every rank
// has its own link out of its group; where ranks share one, β is that of a rank's share (select/machine.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "plan/algorithm.hpp"
#include "select/given.hpp"
#include "select/profile.hpp"

namespace tutti::select {

/// The cost of messages between the slowest of some pairs of ranks.
struct LinkCost {
  double alpha = 0;       ///< seconds for an empty message
  double beta = 0;        ///< seconds per byte
  double message = 0;     ///< seconds of processor time for each message beyond the first of a round
  bool in_place = false;  ///< readers read the writer's memory: a message to several readers is written once
};

/// The model's view of the machine and the communicator: equal on all ranks.
struct Setting {
  Rank ranks = 1;
  std::shared_ptr<const plan::Grouping> groups = nullptr;  ///< null: groups are unknown
  LinkCost inside;                                         ///< inside groups; of all links, without two levels
  LinkCost between;                                        ///< between groups, with two levels
  double gamma = 0;                                        ///< seconds per byte folded
  double oversubscription = 1;                             ///< ranks on the core that most ranks share; at least 1
  uint64_t staging = 0;                                    ///< bytes of the smallest staging memory of any rank
  uint64_t message = 0;                                    ///< bytes of the largest message
  bool reproducible = false;                               ///< reductions fold in the canonical order only
  bool groups_given = false;  ///< the groups come from TUTTI_GROUPS or a parent communicator, not from the hosts
  /// Forced algorithms by collective ("all_reduce" → "ring"), from TUTTI_ALGO.
  std::map<std::string, std::string> forced;
  /// The user's plans, from TUTTI_PLAN, used for all calls of their collective. The table of rank 0 names them by hash,
  /// so all ranks must have adopted the same plans.
  Given given;
  std::shared_ptr<const Profile> profile = nullptr;  ///< measured times, preferred where there are any …
  std::string situation;                             ///< … for this situation (select/profile.hpp)
};

/// The modelled time of one call, in seconds, by what it is spent on.
struct Predicted {
  double latency = 0;    ///< rounds, and the processor time of further messages
  double bandwidth = 0;  ///< bytes
  double reduction = 0;  ///< folding
  double seconds() const { return latency + bandwidth + reduction; }
};

/// `bytes`: of a block; `window`: of those, in one round of the plan.
Predicted predict(const plan::Cost& cost, uint64_t bytes, uint64_t window, const Setting& setting);

}  // namespace tutti::select
