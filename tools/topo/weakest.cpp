#include "tools/topo/weakest.hpp"

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "base/format.hpp"
#include "select/explain.hpp"
#include "select/machine.hpp"
#include "synth/folding.hpp"
#include "synth/weakest.hpp"

namespace tutti::tools {
namespace {

constexpr uint64_t kBytes = uint64_t{1} << 30;  // of a call, where its latency counts little
constexpr const char* kLine = "{:>12}  {:<28}{:>6}{:>7}  {}\n";

std::string end_of(const topo::Graph& graph, topo::NodeId node) {
  const bool several = graph.all(topo::NodeKind::Host).size() > 1;
  const bool inside = graph.nodes[node].kind != topo::NodeKind::Fabric;
  return several && inside ? label(graph, graph.host_of(node)) + ": " + label(graph, node) : label(graph, node);
}

/// The best algorithm of the catalogue, by the selector's cost model.
struct OfCatalogue {
  double seconds = 0;
  std::string name;
  bool switched = false;  ///< a switch folds
};

/// Inputs of the whole machine's ranks; none: between some of them there is no way that passes no other rank.
std::optional<select::CostInputs> inputs_on(const topo::Graph& graph) {
  try {
    return select::inputs_of(graph, 0).inputs;
  } catch (const Error& error) {
    if (error.code() != Code::InvalidArgument) throw;
    return {};
  }
}

/// None: no algorithm can be used. What the environment demands, and plans that are kept, do not count.
std::optional<OfCatalogue> catalogue_on(const topo::Graph& graph, Collective collective) {
  std::optional<select::CostInputs> found = inputs_on(graph);
  if (!found) return {};
  select::CostInputs& inputs = *found;
  inputs.own_orders.clear();
  inputs.forced.clear();
  inputs.forced_methods.clear();
  inputs.given.clear();
  inputs.synthesised = nullptr;
  const uint64_t block = select::block_bytes(collective, kBytes, inputs.ranks);
  const auto all = select::priced_candidates(collective, block, inputs);
  if (all.empty() || !all.front().rejected.empty()) return {};
  const select::Row& row = all.front().row;
  const bool switched = row.method == &exec::methods::nvls;
  const char* const by = switched ? " (nvls)" : "";
  return OfCatalogue{all.front().predicted.seconds(), fmt::format("{}{}", select::name_of_algorithm(row), by),
                     switched};
}

/// "1.13 times, ring": in terms of what the whole machine takes at least, in seconds.
std::string text_of(const std::optional<OfCatalogue>& best, double whole) {
  return best ? fmt::format("{:.2f} times, {}", best->seconds / whole, best->name) : "none";
}

/// A row of the table, with how many links are alike.
std::string row_text(const topo::Graph& graph, const synth::Loss& loss, const std::string& catalogue, size_t alike) {
  const std::string cost = loss.apart ? "apart" : fmt::format("{:.2f} times", loss.times);
  return fmt::format(kLine, cost, catalogue, fmt::format("{:.4g}", loss.gbps), alike,
                     end_of(graph, loss.a) + " - " + end_of(graph, loss.b));
}

}  // namespace

std::string weakest_text(const topo::Graph& graph, Collective collective) {
  std::vector<topo::NodeId> ranks = graph.all(topo::NodeKind::Gpu);
  if (ranks.empty()) ranks = graph.all(topo::NodeKind::Core);
  const synth::Network network = synth::network_at_most(graph, ranks);
  const synth::Bound bound = synth::bound_of(network, collective);
  const double whole = bound.seconds_per_byte() * static_cast<double>(kBytes);
  bool switched = false;  // some row is by nvls
  const auto catalogue = [&](const topo::Graph& of) {
    const std::optional<OfCatalogue> best = catalogue_on(of, collective);
    switched = switched || (best && best->switched);
    return text_of(best, whole);
  };
  const std::string of_whole = catalogue(graph);
  std::string table;
  const std::vector<synth::Loss> losses = synth::losses(graph, ranks, collective);
  for (size_t i = 0; i < losses.size();) {  // those that are alike are one line
    const synth::Loss& first = losses[i];
    size_t alike = 0;
    for (; i < losses.size() && losses[i].apart == first.apart && losses[i].times == first.times &&
           losses[i].gbps == first.gbps;
         ++i) {
      ++alike;
    }
    table += row_text(graph, first, first.apart ? "-" : catalogue(synth::without_link(graph, first)), alike);
  }
  std::string text =
      fmt::format("{} on {} ranks, at best: {}\n", name_of(collective), ranks.size(), synth::words_of(network, bound));
  // Of all-reduce it is another one where switches fold.
  const bool folds = switched && collective == Collective::AllReduce;
  if (folds) text += fmt::format("of nvls, at best: {}\n", synth::words_of(network, synth::folding_bound_of(network)));
  text += fmt::format("with the catalogue: {}\n\n", of_whole);
  text += fmt::format(kLine, "without it", "with the catalogue", "GB/s", "links", "for example") + table;
  text += R"(
Both in times of the whole machine's bound. Without it: at best, with plans made for what is left. With the catalogue:
its fastest algorithm on what is left of the example, for 1 GiB, by the selector's cost model. 1.00 times: nothing is
lost. apart: some ranks cannot reach each other. none: some can only by way of other ranks, which it does not use.
)";
  if (folds) text += "The bound is that where ranks alone fold: nvls may be faster, by which switches fold.\n";
  if (switched) text += "Of nvls no switch was measured.\n";
  return text;
}

}  // namespace tutti::tools
