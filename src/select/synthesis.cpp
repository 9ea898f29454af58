#include "select/synthesis.hpp"

#include <algorithm>
#include <iterator>
#include <memory>

#include "base/format.hpp"
#include "plan/json.hpp"
#include "select/machine_view.hpp"
#include "select/small_plans.hpp"
#include "synth/folding.hpp"
#include "synth/synthesize.hpp"

namespace tutti::select {
namespace {

constexpr size_t kMaxBoundRanks = 128;  // of more, finding it takes seconds

constexpr Collective kWithBound[] = {Collective::AllGather, Collective::ReduceScatter, Collective::AllReduce,
                                     Collective::Broadcast, Collective::Reduce,        Collective::AllToAll};

KnownBound as_known(const synth::Network& network, const synth::Bound& bound) {
  return {.seconds_per_byte = bound.seconds_per_byte(),
          .seconds = bound.us * 1e-6,
          .exact = bound.exact,
          .words = synth::words_of(network, bound)};
}

/// Is there one, in general?
bool may_have_bound(Collective collective, size_t ranks) {
  return ranks >= 2 && ranks <= kMaxBoundRanks &&
         std::find(std::begin(kWithBound), std::end(kWithBound), collective) != std::end(kWithBound);
}

/// What an empty call takes at least, by what messages between ranks take.
void add_latency(const MessageCosts& costs, Collective collective, Rank root, bool is_job, KnownBound& bound) {
  const synth::Postal postal = costs.of_links();
  const double least = has_root(collective) ? synth::least_latency(postal, root) : synth::least_latency(postal);
  // What a job has seen messages take is not the least that they can.
  bound.seconds = is_job ? std::min(bound.seconds, least) : std::max(bound.seconds, least);
}

constexpr size_t kMaxTexts = kMaxSynthesised - (1 << 20);  // bytes of all plans: quotes take room too

/// As many as there is room for.
void add_small_plans(const topo::Graph& graph, const std::vector<topo::NodeId>& ranks, const CostInputs& inputs,
                     const std::function<void(const std::string&)>& progress, std::optional<Collective> only,
                     SynthesisedText& page) {
  const auto all = MessageCosts::of(graph, ranks, inputs);
  if (!all || all->ranks() > kMaxSmallRanks) return;
  const MessageCosts costs = all->on(inputs.order);
  size_t bytes = 0;
  for (const std::string& text : page.plans) bytes += text.size();
  for (const Collective collective : kWithBound) {
    if (only && collective != *only) continue;
    progress(fmt::format("{}: plans for small calls", name_of(collective)));
    for (const synth::SmallPlan& small : best_small_plans(collective, costs)) {
      std::string text = plan::to_json(small.plans, fmt::format("{}_{}", kSynthesised, small.name));
      bytes += text.size() + text.size() / 8;
      if (bytes > kMaxTexts) return;
      page.plans.push_back(std::move(text));
    }
  }
}

}  // namespace

std::optional<KnownBound> known_bound(const topo::Graph& graph, const std::vector<topo::NodeId>& ranks,
                                      Collective collective, std::optional<Rank> root, const CostInputs& inputs) {
  if (!may_have_bound(collective, ranks.size())) return {};
  try {
    const synth::Network network = synth::network_at_most(graph, nodes_of_plans(graph, ranks, {}));
    const auto costs = MessageCosts::of(graph, ranks, inputs);
    std::vector<Rank> roots = {root.value_or(0)};
    if (has_root(collective) && !root) roots = likely_roots(network.ranks);
    std::optional<KnownBound> least;
    for (const Rank one : roots) {
      KnownBound bound = as_known(network, synth::bound_of(network, collective, one));
      if (costs) add_latency(*costs, collective, one, !graph.figures.empty(), bound);
      const double seconds = least ? std::min(least->seconds, bound.seconds) : bound.seconds;
      if (!least || bound.seconds_per_byte < least->seconds_per_byte) least = std::move(bound);
      least->seconds = seconds;
    }
    return least;
  } catch (const Error& error) {
    if (error.code() != Code::InvalidArgument) throw;
    return {};
  }
}

std::optional<KnownBound> known_folding_bound(const topo::Graph& graph, const std::vector<topo::NodeId>& ranks,
                                              Collective collective, const CostInputs& inputs) {
  const bool reduces = collective == Collective::AllReduce;
  const bool runs = reduces || collective == Collective::AllGather || collective == Collective::ReduceScatter;
  const bool can = std::any_of(inputs.methods.begin(), inputs.methods.end(), [](const UsableMethod& usable) {
    return usable.method == &exec::methods::nvls && usable.why_not.empty();
  });
  if (!runs || !can || !may_have_bound(collective, ranks.size())) return {};
  try {
    const synth::Network network = synth::network_at_most(graph, nodes_of_plans(graph, ranks, {}));
    if (network.folding.empty()) return {};
    KnownBound bound =
        as_known(network, reduces ? synth::folding_bound_of(network) : synth::bound_of(network, collective));
    // A rank need not send a message to each other one: only the way to the farthest counts.
    const auto costs = MessageCosts::of(graph, ranks, inputs);
    if (costs && !graph.figures.empty()) add_latency(*costs, collective, 0, true, bound);
    return bound;
  } catch (const Error& error) {
    if (error.code() != Code::InvalidArgument) throw;
    return {};
  }
}

void add_bound(const topo::Graph& graph, const std::vector<topo::NodeId>& ranks, Collective collective,
               std::optional<Rank> root, CostInputs& inputs) {
  auto known = inputs.synthesised == nullptr ? std::make_shared<Synthesised>()
                                             : std::make_shared<Synthesised>(*inputs.synthesised);
  known->bounds.erase(collective);
  known->folding.erase(collective);
  inputs.synthesised = known;  // also where none is found: what was kept is of other figures
  const auto bound = known_bound(graph, ranks, collective, root, inputs);
  if (!bound) return;
  known->bounds[collective] = *bound;
  if (const auto folding = known_folding_bound(graph, ranks, collective, inputs)) known->folding[collective] = *folding;
}

bool is_synthesised(Collective collective) {
  return collective != Collective::AllToAll &&
         std::find(std::begin(kWithBound), std::end(kWithBound), collective) != std::end(kWithBound);
}

SynthesisedText synthesise_for(const topo::Graph& graph, const std::vector<topo::NodeId>& ranks,
                               const CostInputs& inputs, const std::function<void(const std::string&)>& progress,
                               std::optional<Collective> only) {
  const std::vector<topo::NodeId> nodes = nodes_of_plans(graph, ranks, inputs.order);
  const synth::Network network = synth::network_of(graph, nodes, synth::Sharing::Allow);
  SynthesisedText page{
      .key = synthesis_key(graph, nodes), .ranks = static_cast<Rank>(ranks.size()), .bounds = {}, .plans = {}};
  for (const Collective collective : kWithBound) {
    if (only && collective != *only) continue;
    if (const auto bound = known_bound(graph, ranks, collective, {}, inputs)) page.bounds[collective] = *bound;
    if (!is_synthesised(collective)) continue;
    const auto tell = [&](const std::string& what) { progress(fmt::format("{}: {}", name_of(collective), what)); };
    const synth::Synthesis made = synth::synthesize(network, collective, {.progress = tell});
    page.plans.push_back(plan::to_json(synth::plans_of(made), kSynthesised));
  }
  add_small_plans(graph, ranks, inputs, progress, only, page);
  return page;
}

}  // namespace tutti::select
