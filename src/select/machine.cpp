#include "select/machine.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/env.hpp"
#include "base/format.hpp"
#include "select/forced.hpp"
#include "select/machine_view.hpp"
#include "select/network.hpp"
#include "select/order.hpp"
#include "select/pairs.hpp"
#include "select/profile.hpp"
#include "select/synthesised.hpp"
#include "topo/constants.hpp"
#include "topo/folding.hpp"

namespace tutti::select {
namespace {

constexpr Rank kMaxSources = 64;  // ranks whose paths are looked at

/// The slowest of some pairs, and the links that they share when all send at the same time.
struct Slowest {
  double alpha = 0, beta = 0;
  topo::PathKind kind = topo::PathKind::SameCore;
  double longest = 0;  // for a message of 64 KiB
  std::string figure;  // of that: "shm, the quick calibration"; "": those of links
  bool in_place = true;

  void take(const PairCost& cost, const topo::Figure* known) {
    alpha = std::max(alpha, cost.alpha);
    beta = std::max(beta, cost.beta);
    kind = std::max(kind, cost.path.kind);
    if (known == nullptr) return;
    in_place = in_place && known->in_place;
    constexpr double kBytes = 64 << 10;
    if (cost.alpha + kBytes * cost.beta < longest) return;
    longest = cost.alpha + kBytes * cost.beta;
    figure = fmt::format("{}, {}", known->transport, known->origin);
  }
};

LinkCost cost_of(const Slowest& slowest, double contended, bool in_place, double message_share) {
  const double beta = std::max(slowest.beta, contended);
  return {slowest.alpha, beta, slowest.alpha * message_share, in_place && slowest.in_place};
}

/// The part of α that each further message of a round takes. A GPU's block stores its messages one after the other.
double share_of_messages(bool gpus_of_a_job) {
  return gpus_of_a_job ? machine_constants().cuda_message / machine_constants().cuda_alpha
                       : machine_constants().message_share;
}

/// What ranks send to: inside their group, all others, and the next; between groups, the rank of its place in the next.
class Survey {
 public:
  Survey(const Pairs& pairs, const plan::Grouping& groups) : pairs_(pairs) {
    Rank sources = 0;
    const auto members = [&](Rank of) {
      const auto ranks = groups.members(of % groups.groups());
      return std::vector<Rank>(ranks.begin(), ranks.end());
    };
    for (Rank group = 0; group < groups.groups() && sources < kMaxSources; ++group) {
      sources += groups.size(group);
      look_inside(members(group));
      if (groups.groups() > 1) look_between(members(group), members(group + 1));
    }
    // The last group and the first may be of different packages, where few groups were looked at.
    if (groups.groups() > 2) look_between(members(groups.groups() - 1), members(0));
  }

  Slowest inside, between;
  double contended_inside = 0, contended_between = 0;
  uint32_t rails = 0;
  double sharing = 1;

 private:
  topo::NodeId node(Rank rank) const { return pairs_.places().nodes[static_cast<size_t>(rank)]; }

  void look_inside(const std::vector<Rank>& ranks) {
    Load load(pairs_.graph());
    for (size_t i = 0; i < ranks.size() && ranks.size() > 1; ++i) {
      std::vector<Rank> others;  // the next first
      for (size_t next = 1; next < ranks.size(); ++next) others.push_back(ranks[(i + next) % ranks.size()]);
      const std::vector<PairCost> costs = pairs_.from(ranks[i], others);
      for (size_t to = 0; to < others.size(); ++to)
        inside.take(costs[to], pairs_.figure(ranks[i], others[to], costs[to].path.kind));
      load.add(node(ranks[i]), costs.front().path);
    }
    contended_inside = std::max(contended_inside, load.beta());
  }

  void look_between(const std::vector<Rank>& ranks, const std::vector<Rank>& next) {
    Load load(pairs_.graph());
    for (size_t i = 0; i < ranks.size(); ++i) {
      const Rank to = next[i % next.size()];
      const PairCost cost = pairs_.from(ranks[i], {to}).front();
      between.take(cost, pairs_.figure(ranks[i], to, cost.path.kind));
      load.add(node(ranks[i]), cost.path);
    }
    contended_between = std::max(contended_between, load.beta());
    const auto [used, busiest] = load.ports_of(pairs_.graph().host_of(node(ranks.front())));
    rails = rails == 0 ? used : std::min(rails, used);
    sharing = std::max(sharing, busiest);
  }

  const Pairs& pairs_;
};

CostInputs common_inputs(const std::vector<Rank>& labels) {
  const auto ranks = static_cast<Rank>(labels.size());
  CostInputs inputs{.ranks = ranks,
                    .groups = std::make_shared<const plan::Grouping>(labels),
                    .gamma = machine_constants().fold_gamma,
                    .staging = env().arena.value_or(Bytes{machine_constants().process_arena}),
                    .message = env().message.value,
                    .reproducible = env().reproducible,
                    .forced = parse_forced(env().algorithm),
                    .forced_methods = parse_forced_methods(forced_methods_text()),
                    .given = given_plans(env().plan, ranks),
                    .hand_over = {.reading = transports::ReadAccess::Cma},
                    .max_width = static_cast<uint32_t>(env().threads)};
  return inputs;
}

/// Why no switch between the ranks' GPUs folds; "" if one should.
std::string why_no_nvls(const Pairs& pairs, topo::PathKind between_gpus) {
  if (between_gpus != topo::PathKind::NvSwitch) return "no NVLink switches join the GPUs";
  return topo::why_no_fold(pairs.graph(), pairs.places().nodes);
}

/// As far as a topology tells.
std::vector<UsableMethod> methods_of_gpus(bool several_hosts, bool nvlink, const std::string& no_nvls) {
  const std::string far = several_hosts ? "the ranks are of several hosts" : "";
  const std::string torn = nvlink ? "" : "NVLink does not join all GPUs, so lines of 128 bytes may be torn";
  const MachineConstants& known = machine_constants();
  return {{.method = &exec::methods::slots, .width = static_cast<uint32_t>(known.cuda_slots_width)},
          {.method = &exec::methods::get, .why_not = far, .message = known.cuda_get_message},
          {.method = &exec::methods::ll, .why_not = far, .message = machine_constants().cuda_ll_up_to, .rounds = 1},
          {.method = &exec::methods::ll128,
           .why_not = far.empty() ? torn : far,
           .message = machine_constants().cuda_ll128_up_to,
           .rounds = 1},
          {.method = &exec::methods::copy_engine, .why_not = far, .staging = machine_constants().cuda_copies_staging},
          {.method = &exec::methods::nvls,
           .why_not = far.empty() ? no_nvls : far,
           .buffer = machine_constants().cuda_multimem_slot,
           .least_window = machine_constants().cuda_multimem_window}};
}

/// What a job says of itself, beside its links. Staging memory and messages are in bytes, shifts are LengthShifts'. The
/// facts may come from a file: throws Error(InvalidArgument) for a number that a fact cannot have.
void take_facts(const std::map<std::string, double>& facts, CostInputs& inputs) {
  const auto take = [&](const char* name, double least, double most, auto& into) {
    const auto fact = facts.find(name);
    if (fact == facts.end()) return;
    if (!(fact->second >= least && fact->second <= most)) {
      throw_error(Code::InvalidArgument, "the topology's fact \"{}\" is {}; it is from {} to {}", name, fact->second,
                  least, most);
    }
    into = static_cast<std::decay_t<decltype(into)>>(fact->second);
  };
  constexpr double kMaxBytes = uint64_t{1} << 50, kMaxShift = LengthShifts::kMax, kMaxReading = 2;
  static_assert(static_cast<int>(transports::ReadAccess::Direct) == kMaxReading);
  take(facts::kGamma, 0, 1, inputs.gamma);
  take(facts::kContextSwitch, 0, 1, inputs.context_switch);
  take(facts::kOversubscription, 1, 1e6, inputs.oversubscription);
  take(facts::kStaging, 0, kMaxBytes, inputs.staging);
  take(facts::kMessage, 1, kMaxBytes, inputs.message);
  take(facts::kWidth, 1, 4096, inputs.max_width);
  HandOver& over = inputs.hand_over;
  take(facts::kReading, 0, kMaxReading, over.reading);
  take(facts::kSharesCores, 0, 1, over.shares_cores);
  take(facts::kAlwaysCma, 0, 1, over.always_cma);
  take(facts::kShiftCma, -kMaxShift, kMaxShift, over.shifts.cma);
  take(facts::kNoCma, 0, 1, over.shifts.no_cma);
  take(facts::kNoCmaFolds, 0, 1, over.shifts.no_cma_folds);
  take(facts::kShiftWait, -kMaxShift, kMaxShift, over.shifts.wait);
  take(facts::kShiftCaches, -kMaxShift, kMaxShift, over.shifts.caches);
}

/// TUTTI_ORDER's, or that of the topology. Reproducible folds follow the communicator's own order.
plan::RankOrder order_of(const Pairs& pairs, bool reproducible) {
  const auto forced = parse_order(env().order, pairs.ranks());
  if (!reproducible) return forced ? *forced : find_order(pairs);
  if (!forced || !forced->is_given()) return {};
  throw_error(Code::InvalidArgument,
              "TUTTI_ORDER gives another order than the communicator's, in which TUTTI_REPRODUCIBLE folds; unset one");
}

std::atomic<bool> keeps_one_order{false};

/// Orders for the algorithms of the catalogue that TUTTI_ALGO demands, and for the plans that TUTTI_PLAN gives, unless
/// TUTTI_ORDER says which: the communicator's own order is one for rings.
std::map<Collective, plan::RankOrder> orders_of_demands(const CostInputs& inputs) {
  std::map<Collective, plan::RankOrder> orders;
  if (inputs.view == nullptr || inputs.reproducible || inputs.ranks < 3 || keeps_one_order) return orders;
  if (parse_order(env().order, inputs.ranks)) return orders;
  std::map<Collective, const plan::Algorithm*> demanded(inputs.given.begin(), inputs.given.end());
  for (const auto& [name, algorithm] : inputs.forced) {
    const Collective collective = collective_named(name);
    if (!is_synthesised(algorithm)) demanded.emplace(collective, plan::find_algorithm(collective, algorithm));
  }
  for (const auto& [collective, algorithm] : demanded) {
    plan::RankOrder order = order_for(*algorithm, *inputs.view, inputs.groups, inputs.order, inputs.ranks);
    if (order != inputs.order) orders[collective] = std::move(order);
  }
  return orders;
}

/// Ranks of one host whose groups nobody has given are grouped by the caches that they share, where there are several.
bool take_caches(const topo::Graph& graph, const RankNodes& places, CostInputs& inputs) {
  if (inputs.groups->groups() > 1 || !env().groups.empty()) return false;
  auto groups = groups_by_cache(graph, places);
  if (groups == nullptr) return false;
  inputs.groups = std::move(groups);
  return true;
}

/// A path's kind, or what is known of the links beside it.
std::string kind_text(const Slowest& slowest) {
  return slowest.figure.empty() ? name_of(slowest.kind) : fmt::format("{}: {}", name_of(slowest.kind), slowest.figure);
}

}  // namespace

void keep_one_order() { keeps_one_order = true; }

MachineInputs inputs_of(const topo::Graph& graph, Rank ranks, std::shared_ptr<const plan::Grouping> groups) {
  const Pairs pairs(graph, place_ranks(graph, ranks));
  const Rank hosts = 1 + *std::max_element(pairs.places().hosts.begin(), pairs.places().hosts.end());
  MachineInputs made{.inputs = common_inputs(pairs.places().hosts), .notes = {}};
  CostInputs& inputs = made.inputs;
  if (groups == nullptr && !env().groups.empty()) {
    groups = std::make_shared<const plan::Grouping>(plan::parse_labels(env().groups, inputs.ranks, "TUTTI_GROUPS"));
    inputs.groups_given = true;
  }
  if (groups != nullptr) inputs.groups = std::move(groups);
  const bool by_cache = take_caches(graph, pairs.places(), inputs);
  const Survey survey(pairs, *inputs.groups);
  const bool gpus = pairs.on_gpus(), job = is_job(graph);
  take_facts(graph.facts, inputs);
  if (gpus) {
    inputs.gamma = 0;
    inputs.methods = methods_of_gpus(hosts > 1, !job || survey.inside.kind <= topo::PathKind::NvSwitch,
                                     why_no_nvls(pairs, survey.inside.kind));
    inputs.max_width = static_cast<uint32_t>(env().max_blocks);
    inputs.shares_staging = false;
  }
  const double share = share_of_messages(gpus && job);
  inputs.inside = cost_of(survey.inside, job ? 0 : survey.contended_inside, !gpus, share);
  inputs.between = cost_of(survey.between, job ? 0 : survey.contended_between, job || by_cache, share);
  if (inputs.groups->groups() > 1 && !inputs.groups->has_two_levels()) inputs.inside = inputs.between;
  inputs.order = order_of(pairs, inputs.reproducible);
  inputs.synthesised = kept_synthesised(graph, pairs.places().nodes, inputs.order);
  if (pairs.ranks() <= MachineView::kMaxRanks) {
    auto view = std::make_shared<const MachineView>(pairs, share, !gpus);
    if (!view->is_uniform()) inputs.view = std::move(view);
  }
  inputs.own_orders = orders_of_demands(inputs);
  std::string over = name_of(by_cache ? std::max(survey.inside.kind, survey.between.kind) : survey.inside.kind);
  if (hosts > 1) over = fmt::format("{}{}", survey.inside.alpha > 0 ? over + "+" : "", name_of(survey.between.kind));
  made.notes = {.ends = gpus ? "GPUs" : "cores",
                .hosts = hosts,
                .rails = survey.rails,
                .sharing = survey.sharing,
                .over = over,
                .inside = kind_text(survey.inside),
                .between = kind_text(survey.between),
                .links = slow_links(graph),
                .unknown = graph.notes};
  return made;
}

void take_lengths(CostInputs& inputs) {
  if (has_host_profile()) return;  // it knows better
  if (const Calibration* const measured = local_calibration()) inputs.hand_over.shifts = shifts_of(*measured);
}

MachineInputs inputs_here(Rank ranks, Rank hosts) {
  std::vector<Rank> labels;
  for (Rank rank = 0; rank < ranks; ++rank) labels.push_back(static_cast<Rank>(int64_t{rank} * hosts / ranks));
  MachineInputs made{.inputs = common_inputs(labels), .notes = {.ends = "cores", .hosts = hosts}};
  const MachineConstants& known = machine_constants();
  const auto link = [&](double alpha, double beta, bool in_place) {
    return LinkCost{alpha, beta, alpha * known.message_share, in_place};
  };
  made.inputs.inside = link(known.shm_alpha, known.shm_beta, true);
  made.inputs.between = link(known.tcp_alpha, known.tcp_beta, false);
  if (hosts > 1 && !made.inputs.groups->has_two_levels()) made.inputs.inside = made.inputs.between;
  take_lengths(made.inputs);
  made.notes.inside = "shared memory";
  made.notes.between = "TCP";
  return made;
}

}  // namespace tutti::select
