#include "select/entries.hpp"

#include <algorithm>

#include "base/counted.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "exec/why_not.hpp"
#include "link/link.hpp"
#include "select/profile.hpp"
#include "select/select.hpp"
#include "select/synthesis.hpp"
#include "select/synthesised.hpp"
#include "topo/constants.hpp"

namespace tutti::select {
namespace {

constexpr uint64_t kGranule = 128;
constexpr uint64_t kNoPayloads = uint64_t{1} << 62;  // bytes

/// The larger of both, figure by figure.
void raise(plan::Cost& most, const plan::Cost& cost) {
  const auto lift = [](auto& figure, const auto& other) { figure = std::max(figure, other); };
  lift(most.rounds, cost.rounds);
  lift(most.sent, cost.sent);
  lift(most.received, cost.received);
  lift(most.folded, cost.folded);
  lift(most.stages, cost.stages);
  lift(most.message, cost.message);
  lift(most.chain, cost.chain);
  lift(most.handled, cost.handled);
  if (!most.between || !cost.between) return;
  lift(most.between->rounds, cost.between->rounds);
  lift(most.between->moved, cost.between->moved);
  lift(most.between->chain, cost.between->chain);
  lift(most.between->stages, cost.between->stages);
}

bool works_along_groups(const plan::Algorithm& algorithm, const CostInputs& s) {
  return s.groups != nullptr && !algorithm.allows({algorithm.collective, s.ranks});
}

/// The cost for the worst root, because one choice is made for all roots. The root's group comes first in the order of
/// groups, so the order is the same for consecutive roots of one group.
plan::Cost cost_of(const plan::Algorithm& algorithm, const CostInputs& s) {
  plan::Shape shape{algorithm.collective, s.ranks, s.order_of(algorithm.collective).seen(s.groups, 0)};
  plan::Cost worst = algorithm.cost(shape);
  if (!has_root(algorithm.collective) || !works_along_groups(algorithm, s)) return worst;
  if (s.groups->smallest() == s.groups->largest()) return worst;
  for (Rank root = 1; root < s.ranks; ++root) {
    if (s.groups->group_of(root) == s.groups->group_of(root - 1)) continue;
    shape.groups = s.order_of(algorithm.collective).seen(s.groups, root);
    raise(worst, algorithm.cost(shape));
  }
  return worst;
}

/// Where the root of calls is known, for that one. Else one choice is made for all of them, while a communicator is
/// made and before it has a call: it should be the one that takes the least time if each rank is the root equally
/// often, so its price is the mean. (The worst root's would reject what was made for the usual root, 0, and is good
/// for most; root 0's would take it where it is bad for all others.)
Traffic traffic_of(const plan::Algorithm& algorithm, const CostInputs& s) {
  std::vector<Rank> roots = {s.root.value_or(0)};
  if (!has_root(algorithm.collective)) roots = {0};
  if (has_root(algorithm.collective) && !s.root) roots = likely_roots(s.ranks);
  const plan::RankOrder& order = s.order_of(algorithm.collective);
  std::vector<Traffic> all;
  std::vector<plan::RankPlan> plans;
  for (const Rank root : roots) {
    const plan::Shape shape{algorithm.collective, s.ranks, order.seen(s.groups, root)};
    if (plans.empty() || works_along_groups(algorithm, s)) plans = plan::generate_all(algorithm, shape);
    all.push_back(s.view->traffic(plans, order, root));
  }
  return mean_of(all);
}

/// The same bytes for a message of this method as its staging memory has for each set of peers.
uint64_t window_of(const plan::Cost& cost, Collective collective, const CostInputs& inputs,
                   const UsableMethod& usable) {
  if (cost.message == plan::Ratio(0)) return kNoPayloads / kGranule * kGranule;  // no message has a payload
  const bool in_place = usable.method->reads_in_place;
  const uint64_t longest = usable.message == 0 ? inputs.message
                           : in_place          ? usable.message
                                               : std::min(usable.message, inputs.message);
  const auto stages = static_cast<uint64_t>(std::max<int64_t>(1, cost.stages));
  uint64_t payload = longest;
  if (usable.staging > 0) {
    payload = usable.staging / stages;
    if (in_place && payload < 2 * kGranule) return 0;
    if (in_place) payload = std::min(payload, longest) - kGranule;  // rounding may lengthen a chunk by a granule
  } else if (usable.message == 0) {
    // A plan gets half of the staging memory, so two plans can alternate without waiting for each other.
    const uint64_t share = inputs.staging / 2 / stages;
    // If that is little, half as many messages of twice the length.
    const uint64_t slot = std::min(
        longest, std::max(share / link::kSlots, std::min(machine_constants().ample_slot, share / link::kFewestSlots)));
    payload = std::max(slot, 2 * kGranule) - kGranule;  // as above
  }
  auto window = static_cast<uint64_t>(static_cast<double>(payload) / cost.message.value());
  if (usable.window > 0) window = std::min(window, usable.window);
  if (usable.buffer > 0) {
    const auto of = [&](plan::Buffer buffer) { return plan::blocks(collective, inputs.ranks, buffer, 0); };
    window = std::min<uint64_t>(window, usable.buffer / std::max(of(plan::Buffer::Input), of(plan::Buffer::Output)));
  }
  return window / kGranule * kGranule;
}

/// What the user demands of a collective.
struct Wish {
  const plan::Algorithm* algorithm = nullptr;
  bool given = false;                    ///< by TUTTI_PLAN, else by TUTTI_ALGO
  const exec::Method* method = nullptr;  ///< by TUTTI_METHOD; null: any
  bool for_all = false;                  ///< of the method: for all collectives that it can run
};

/// A method for the other kind of memory demands nothing here.
void add_method(Wish& wish, Collective collective, const CostInputs& inputs) {
  for (const std::string& key : {std::string(name_of(collective)), std::string()}) {
    const auto forced = inputs.forced_methods.find(key);
    if (forced == inputs.forced_methods.end()) continue;
    const exec::Method* const method = exec::find_method(forced->second);
    if (method == nullptr || inputs.methods.empty() || method->backend != inputs.methods.front().method->backend)
      continue;
    wish.method = method;
    wish.for_all = key.empty();
    return;
  }
}

bool is_of_host(const CostInputs& inputs) {
  return inputs.methods.empty() || inputs.methods.front().method->backend == exec::methods::lanes.backend;
}

/// "no plan is kept for these 4 ranks"
std::string none_kept(const CostInputs& inputs) {
  const bool none = inputs.synthesised == nullptr || inputs.synthesised->algorithms.empty();
  return fmt::format("{} is kept for these {}", none ? "no plan" : "no such plan",
                     counted(static_cast<uint64_t>(inputs.ranks), "rank"));
}

std::string_view plain_name(std::string_view name) { return name.substr(0, name.find('@')); }

/// The plans of a collective that are kept: "synth, synth_tree"; "": there are none.
std::string kept_names(Collective collective, const CostInputs& inputs) {
  std::vector<std::string_view> names;
  if (inputs.synthesised == nullptr) return "";
  for (const plan::Algorithm* const a : inputs.synthesised->algorithms) {
    if (a->collective == collective) names.push_back(plain_name(a->name));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

/// How there may be a synthesised plan where none with the name is kept.
std::string advice_on_plans(Collective collective, const CostInputs& inputs) {
  if (!is_synthesised(collective)) return fmt::format("plans of {} are not synthesised", name_of(collective));
  if (const std::string names = kept_names(collective, inputs); !names.empty())
    return fmt::format("the plans of {} are: {}", name_of(collective), names);
  const bool is_on = env().synth == Synth::Auto;
  return fmt::format("`tutti tune --synth` makes plans and keeps them{}",
                     is_on ? "" : ", or, for up to 64 ranks, TUTTI_SYNTH=auto; TUTTI_SYNTH=kept uses them");
}

/// The synthesised plan that TUTTI_ALGO names. A single rank moves nothing, and needs none. For calls on memory of GPUs
/// it is no error that there is none, since the same TUTTI_ALGO is for those on memory of the host: unused_demands().
const plan::Algorithm* synthesised_plan(Collective collective, const std::string& name, const CostInputs& inputs) {
  const plan::Algorithm* const found =
      inputs.synthesised == nullptr ? nullptr : inputs.synthesised->find(collective, name);
  if (found != nullptr || inputs.ranks == 1 || !is_of_host(inputs)) return found;
  throw_error(Code::Unsupported, "TUTTI_ALGO forces {}:{}, and {} on this topology: {}", name_of(collective), name,
              none_kept(inputs), advice_on_plans(collective, inputs));
}

Wish wish_of(Collective collective, const CostInputs& inputs) {
  Wish wish;
  add_method(wish, collective, inputs);
  const auto given = inputs.given.find(collective);
  const auto forced = inputs.forced.find(name_of(collective));
  if (given != inputs.given.end() && forced != inputs.forced.end()) {
    throw_error(Code::InvalidArgument, "TUTTI_PLAN gives {} for {}, where TUTTI_ALGO forces {}; unset one of them",
                given->second->name, name_of(collective), forced->second);
  }
  if (given != inputs.given.end()) {
    wish.algorithm = given->second;
    wish.given = true;
  } else if (forced != inputs.forced.end()) {
    wish.algorithm = is_synthesised(forced->second) ? synthesised_plan(collective, forced->second, inputs)
                                                    : plan::find_algorithm(collective, forced->second);
  }
  return wish;
}

/// Does it work along groups, and are these trivial: one group, or every rank alone?
bool tells_nothing(const plan::Algorithm& a, const CostInputs& inputs) {
  return works_along_groups(a, inputs) && !inputs.groups->has_two_levels();
}

const char* why_groups_tell_nothing(const CostInputs& inputs) {
  return inputs.groups->groups() == 1 ? "all ranks are in one group" : "every rank is alone";
}

/// An algorithm along groups may be forced with trivial groups if the groups were given: the ranks of a
/// sub-communicator are often of one group. If none were given, the user has forgotten them. A single rank needs none.
bool may_be_forced(const CostInputs& inputs) { return inputs.groups_given || inputs.ranks == 1; }

/// Why the algorithm cannot be used here; "" if it can.
std::string why_not(const plan::Algorithm& a, const Wish& wish, const CostInputs& inputs) {
  if (!a.allows({a.collective, inputs.ranks, inputs.groups})) {
    return fmt::format("does not work for {} ({})", counted(static_cast<uint64_t>(inputs.ranks), "rank"), a.summary);
  }
  if (tells_nothing(a, inputs) && (wish.algorithm == nullptr || !may_be_forced(inputs))) {
    return fmt::format("{}, so there is nothing to gain from groups", why_groups_tell_nothing(inputs));
  }
  if (inputs.reproducible && reduces(a.collective) && !a.canonical) {
    return "TUTTI_REPRODUCIBLE: it folds in another order than the canonical one";
  }
  return "";
}

/// Why the method cannot run the algorithm, by the plans of all ranks; "" if it can.
std::string why_not_by(const exec::Method& method, const plan::Algorithm& a, const CostInputs& inputs) {
  const plan::Shape shape{a.collective, inputs.ranks, inputs.groups};
  return exec::why_not(method, a.collective == Collective::Barrier, inputs.ranks,
                       [&](Rank rank) { return plan::generate(a, shape, rank); });
}

void reject(Entry& entry, std::string why, bool outdone = false) {
  entry.rejected = std::move(why);
  entry.outdone = outdone;
}

/// An algorithm that can be used, by this method. `traffic`: of its plans, once it is known.
void enter_method(Entry& entry, const Wish& wish, const CostInputs& inputs, std::optional<Traffic>& traffic) {
  const exec::Method& method = *entry.usable->method;
  entry.forced_method = wish.method == &method;
  entry.preferred = entry.forced_method && wish.for_all;
  if (wish.method != nullptr && !wish.for_all && !entry.forced_method) {
    return reject(entry, fmt::format("TUTTI_METHOD forces {}", wish.method->name), true);
  }
  if (!entry.usable->why_not.empty()) return reject(entry, entry.usable->why_not);
  if (std::string why = why_not_by(method, *entry.algorithm, inputs); !why.empty())
    return reject(entry, std::move(why));
  entry.cost = cost_of(*entry.algorithm, inputs);
  entry.window = window_of(entry.cost, entry.algorithm->collective, inputs, *entry.usable);
  if (entry.window > 0) {
    if (inputs.view != nullptr && !traffic) traffic = traffic_of(*entry.algorithm, inputs);
    entry.traffic = traffic;
    return;
  }
  reject(entry, fmt::format("its messages fit neither TUTTI_MESSAGE ({} bytes) nor a share of the staging "
                            "memory ({} bytes of TUTTI_ARENA); raise what is too small",
                            inputs.message, inputs.staging));
}

/// All methods with one algorithm, those left out that say nothing new.
void enter(std::vector<Entry>& all, const plan::Algorithm& a, const Wish& wish, const CostInputs& inputs) {
  Entry entry{.algorithm = &a, .usable = &inputs.methods.front()};
  if (wish.algorithm != nullptr && wish.algorithm != &a) {
    reject(entry, fmt::format("{} {}", wish.given ? "TUTTI_PLAN gives" : "TUTTI_ALGO forces", wish.algorithm->name),
           true);
  } else {
    reject(entry, why_not(a, wish, inputs));
  }
  if (!entry.rejected.empty()) return all.push_back(std::move(entry));
  std::optional<Traffic> traffic;
  for (const UsableMethod& usable : inputs.methods) {
    Entry by{.algorithm = &a, .usable = &usable};
    enter_method(by, wish, inputs, traffic);
    const bool first = &usable == &inputs.methods.front();
    const bool demanded = by.forced_method && !by.preferred;
    if (by.rejected.empty() || demanded || (first && (wish.method == nullptr || wish.for_all))) {
      all.push_back(std::move(by));
    }
  }
}

/// TUTTI_METHOD demands a method for all collectives that it can run, and TUTTI_ALGO (or TUTTI_PLAN) demands for this
/// one an algorithm that it cannot run, where it can run another.
void check_demands(Collective collective, const Wish& wish, const CostInputs& inputs) {
  if (wish.algorithm == nullptr || wish.method == nullptr || !wish.for_all || inputs.ranks == 1) return;
  const std::string why = why_not_by(*wish.method, *wish.algorithm, inputs);
  if (why.empty()) return;
  for (const plan::Algorithm* other : plan::algorithms_of(collective)) {
    if (!other->allows({collective, inputs.ranks, inputs.groups})) continue;
    if (!why_not_by(*wish.method, *other, inputs).empty()) continue;
    throw_error(Code::Unsupported, "{} {}:{}, which TUTTI_METHOD's {} cannot run: {}; unset one of them",
                wish.given ? "TUTTI_PLAN gives" : "TUTTI_ALGO forces", name_of(collective), wish.algorithm->name,
                wish.method->name, why);
  }
}

}  // namespace

std::vector<Entry> entries_of(Collective collective, const CostInputs& inputs) {
  const Wish wish = wish_of(collective, inputs);
  check_demands(collective, wish, inputs);
  std::vector<const plan::Algorithm*> known = plan::algorithms_of(collective);
  if (wish.given) known.push_back(wish.algorithm);
  if (inputs.synthesised != nullptr) {
    for (const plan::Algorithm* a : inputs.synthesised->algorithms) {
      if (a->collective == collective) known.push_back(a);
    }
  }
  std::vector<Entry> all;
  for (const plan::Algorithm* a : known) enter(all, *a, wish, inputs);
  return all;
}

void refuse(const Entry& entry, const std::string& why, const CostInputs& inputs) {
  const plan::Algorithm& a = *entry.algorithm;
  const Wish wish = wish_of(a.collective, inputs);
  const std::string ranks = counted(static_cast<uint64_t>(inputs.ranks), "rank");
  const char* const collective = name_of(a.collective);
  if (entry.forced_method && !entry.preferred) {
    const std::string of =
        wish.algorithm == nullptr ? "" : fmt::format(" with {} {}", wish.given ? "the plan" : "TUTTI_ALGO's", a.name);
    throw_error(Code::Unsupported, "TUTTI_METHOD forces {}, which cannot run {}{} on {}: {}; unset one of them",
                entry.usable->method->name, collective, of, ranks, why);
  }
  if (wish.algorithm != &a) {
    throw_error(Code::Unsupported, "no algorithm can do {} on {}: {} {}", collective, ranks, a.name, why);
  }
  const bool groups = plan::needs_groups(a, inputs.ranks) && (inputs.groups == nullptr || tells_nothing(a, inputs));
  throw_error(Code::Unsupported, "{} {}:{}, which cannot be used on {}: {}{}",
              wish.given ? "TUTTI_PLAN gives" : "TUTTI_ALGO forces", collective, a.name, ranks, why,
              groups ? ". Say by TUTTI_GROUPS which ranks are near each other, or force another algorithm" : "");
}

void warn_of_one_level(const std::vector<Entry>& all, const CostInputs& inputs) {
  if (inputs.ranks == 1) return;
  for (const Entry& entry : all) {
    const plan::Algorithm& a = *entry.algorithm;
    if (!entry.rejected.empty() || !tells_nothing(a, inputs)) continue;
    log_warn("TUTTI_ALGO forces {}:{} in a communicator of {} where {}: it gains nothing there", name_of(a.collective),
             a.name, counted(static_cast<uint64_t>(inputs.ranks), "rank"), why_groups_tell_nothing(inputs));
  }
}

std::vector<std::string> unused_demands(const CostInputs& inputs, std::optional<Collective> only) {
  std::vector<std::string> unused;
  if (inputs.ranks == 1 || is_of_host(inputs)) return unused;
  for (const auto& [name, algorithm] : inputs.forced) {
    const Collective collective = collective_named(name);
    if (!is_synthesised(algorithm) || collective != only.value_or(collective)) continue;
    if (synthesised_plan(collective, algorithm, inputs) != nullptr) continue;
    unused.push_back(fmt::format(
        "TUTTI_ALGO={}:{} is not used by calls on memory of GPUs: {} on the GPUs of this topology. TUTTI_SYNTH=auto "
        "makes plans for the next communicator; `tutti plan synth {} --topo FILE -o PLAN` makes one that TUTTI_PLAN "
        "gives",
        name, algorithm, none_kept(inputs), name));
  }
  return unused;
}

uint64_t window_bytes(const plan::Algorithm& algorithm, const CostInputs& inputs) {
  return window_of(cost_of(algorithm, inputs), algorithm.collective, inputs, inputs.methods.front());
}

}  // namespace tutti::select
