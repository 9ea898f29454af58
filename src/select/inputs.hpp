// What a choice is made from: the machine and the communicator, as all ranks know them alike. Made from a topology
// (select/machine.hpp) and from what ranks report (comm/agreement.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/method.hpp"
#include "plan/algorithm.hpp"
#include "plan/order.hpp"
#include "select/calibration.hpp"
#include "select/given.hpp"
#include "select/profile.hpp"
#include "transports/transport.hpp"

namespace tutti::select {

using exec::UsableMethod;
using link::LinkCost;

/// How blocks in host memory can be handed over between ranks of a host.
struct HandOver {
  transports::ReadAccess reading =
      transports::ReadAccess::None;  ///< the weakest access of any rank to another's zero-copy data
  bool shares_cores = false;         ///< some ranks share their cores
  bool always_cma = false;           ///< TUTTI_CMA is "always"
  LengthShifts shifts;               ///< how the lengths of the constants' table are scaled: by rank 0's calibration
};

class MachineView;   // select/machine_view.hpp
struct Synthesised;  // select/synthesised.hpp

/// Equal on all ranks, but the view, which only rank 0 has.
struct CostInputs {
  Rank ranks = 1;
  std::shared_ptr<const plan::Grouping> groups = nullptr;  ///< null: groups are unknown
  plan::RankOrder order;                                   ///< that plans are drawn on, …
  std::map<Collective, plan::RankOrder> own_orders;        ///< … but for algorithms that the user demands
  LinkCost inside;                                         ///< inside groups; of all links, without two levels
  LinkCost between;                                        ///< between groups, with two levels
  double gamma = 0;                                        ///< seconds per byte folded
  double context_switch = 0;                               ///< seconds; 0: machine_constants() has it
  double oversubscription = 1;                             ///< ranks on the core that most ranks share; at least 1
  uint64_t staging = 0;                                    ///< bytes of the smallest staging memory of any rank
  uint64_t message = 0;                                    ///< bytes of the largest message
  bool reproducible = false;                               ///< reductions fold in the canonical order only
  bool groups_given = false;  ///< the groups come from TUTTI_GROUPS or a parent communicator, not from the hosts
  /// Forced algorithms by collective ("all_reduce" → "ring"), from TUTTI_ALGO.
  std::map<std::string, std::string> forced;
  /// Forced methods by collective, "" for all collectives that it can run, from TUTTI_METHOD.
  std::map<std::string, std::string> forced_methods;
  /// The user's plans, from TUTTI_PLAN, used for all calls of their collective. The table of rank 0 names them by hash,
  /// so all ranks must have adopted the same plans.
  Given given;
  /// Plans made for this machine, which are candidates like the catalogue's; null: none are known. As rank 0's table
  /// names them by hash, all ranks have adopted the same ones.
  std::shared_ptr<const Synthesised> synthesised = nullptr;
  std::shared_ptr<const Profile> profile = nullptr;  ///< measured times, preferred where there are any …
  std::string situation;                             ///< … for this situation (select/profile.hpp)
  /// Of the call, where it is known; none: a choice for all roots, as tables have.
  std::optional<Rank> root = {};
  HandOver hand_over;  ///< of host memory
  std::vector<UsableMethod> methods = {UsableMethod{}};
  uint32_t max_width = 1;      ///< replicas of a plan's lanes: threads of a rank, blocks of a call
  bool shares_staging = true;  ///< replicas share the staging memory
  std::shared_ptr<const MachineView> view = nullptr;  ///< where pairs of ranks differ; null: the closed forms say it

  /// That plans of this collective are drawn on.
  const plan::RankOrder& order_of(Collective collective) const {
    const auto own = own_orders.find(collective);
    return own == own_orders.end() ? order : own->second;
  }
};

}  // namespace tutti::select
