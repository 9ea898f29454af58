#include "select/explain.hpp"

#include <algorithm>
#include <set>

#include "base/counted.hpp"
#include "base/format.hpp"
#include "select/synthesised.hpp"

namespace tutti::select {
namespace {

/// "0.25", "12.3", "1234".
std::string microseconds(double seconds) {
  const double us = seconds * 1e6;
  return us < 10 ? fmt::format("{:.2f}", us) : us < 1000 ? fmt::format("{:.1f}", us) : fmt::format("{:.0f}", us);
}

/// Room for the longest name that is no hash.
int name_width(const std::vector<Candidate>& candidates) {
  const bool synthesised = std::any_of(candidates.begin(), candidates.end(),
                                       [](const Candidate& c) { return is_synthesised(name_of_algorithm(c.row)); });
  return synthesised ? 34 : 20;
}

bool by_switch(const Candidate& candidate) { return candidate.row.method == &exec::methods::nvls; }

/// The bounds, and which candidates were made for this machine.
std::string synthesis_text(const std::vector<Candidate>& candidates, uint64_t block, const CostInputs& inputs) {
  if (candidates.empty()) return "";
  const Collective collective = candidates.front().row.algorithm->collective;
  const auto least = least_time(collective, block, inputs);
  std::string text;
  if (least) {
    text += fmt::format("\n  bound: {}; {}", least->words,
                        least->exact ? "trees reach it" : "it may be that no schedule reaches it");
  }
  const bool switches = std::any_of(candidates.begin(), candidates.end(), [](const Candidate& candidate) {
    return by_switch(candidate) && candidate.rejected.empty();
  });
  const auto folding = least_time_folding(collective, block, inputs);
  if (switches && folding && (!least || folding->words != least->words)) {
    text += fmt::format("\n  bound of nvls: {}; {}", folding->words,
                        folding->exact ? "a switch reaches it" : "it may be that no schedule reaches it");
  }
  std::set<const plan::Algorithm*> told;  // by the best of its methods
  for (const Candidate& candidate : candidates) {
    if (!is_synthesised(name_of_algorithm(candidate.row)) || !candidate.rejected.empty()) continue;
    if (!told.insert(candidate.row.algorithm).second) continue;
    text += fmt::format("\n  {}: a plan synthesised for these ranks on this machine", name_of_algorithm(candidate.row));
    if (least) {
      text += fmt::format(", {} of the bound", share_of_bound(least_time(candidate, block, inputs), candidate.seconds));
    }
  }
  return text;
}

}  // namespace

namespace {

std::optional<LeastTime> least_time_by(const std::map<Collective, KnownBound>& bounds, Collective collective,
                                       uint64_t block, const CostInputs& inputs) {
  const auto known = bounds.find(collective);
  if (known == bounds.end()) return {};
  const uint64_t blocks = block_bytes(collective, static_cast<uint64_t>(inputs.ranks), inputs.ranks) == 1
                              ? static_cast<uint64_t>(inputs.ranks)
                              : 1;
  return LeastTime{known->second.of(block * blocks), known->second.exact, known->second.words};
}

}  // namespace

std::optional<LeastTime> least_time(Collective collective, uint64_t block, const CostInputs& inputs) {
  if (inputs.synthesised == nullptr) return {};
  return least_time_by(inputs.synthesised->bounds, collective, block, inputs);
}

std::optional<LeastTime> least_time_folding(Collective collective, uint64_t block, const CostInputs& inputs) {
  if (inputs.synthesised == nullptr) return {};
  return least_time_by(inputs.synthesised->folding, collective, block, inputs);
}

std::optional<LeastTime> least_time(const Candidate& candidate, uint64_t block, const CostInputs& inputs) {
  const Collective collective = candidate.row.algorithm->collective;
  return by_switch(candidate) ? least_time_folding(collective, block, inputs) : least_time(collective, block, inputs);
}

std::string share_of_bound(const std::optional<LeastTime>& least, double seconds) {
  return least && least->seconds > 0 && seconds > 0 ? fmt::format("{:.1f} %", 100 * least->seconds / seconds) : "-";
}

uint64_t block_bytes(Collective collective, uint64_t bytes, Rank ranks) {
  switch (collective) {
    case Collective::AllGather:
    case Collective::ReduceScatter:
    case Collective::AllToAll:
    case Collective::Gather:
    case Collective::Scatter:
      return bytes / static_cast<uint64_t>(ranks);
    default:
      return bytes;
  }
}

std::vector<Candidate> priced_candidates(Collective collective, uint64_t bytes, const CostInputs& inputs,
                                         const CallKind& kind) {
  const Choices choices(collective, inputs);
  std::vector<Candidate> all = choices.rated(bytes, kind);
  if (decided_at(bytes) == bytes || all.empty()) return all;
  const Row chosen = choices.rated(decided_at(bytes), kind).front().row;
  const auto at = std::find_if(all.begin(), all.end(), [&](const Candidate& c) {
    return c.row.algorithm == chosen.algorithm && c.row.method == chosen.method;
  });
  std::rotate(all.begin(), at, at + 1);
  return all;
}

std::string verdict(const Candidate& candidate, const Candidate& best) {
  if (!candidate.rejected.empty()) return "rejected: " + candidate.rejected;
  if (candidate.row.algorithm == best.row.algorithm && candidate.row.method == best.row.method) return "chosen";
  if (best.preferred && !candidate.preferred) return fmt::format("TUTTI_METHOD prefers {}", best.row.method->name);
  if (best.measured && !candidate.measured) return "not measured, and measured ones are preferred";
  const bool level = candidate.level && best.level && candidate.seconds != best.seconds;
  if (level && best.measured) return "measured as fast, predicted slower";
  if (level && best.reads_in_place && !candidate.reads_in_place) return "predicted as fast, but copies more";
  if (candidate.seconds == best.seconds) {
    return candidate.row.algorithm->lends == best.row.algorithm->lends ? "as long, but more staging"
                                                                       : "as long, but copies more";
  }
  if (best.seconds <= 0) return "longer";
  const double ratio = candidate.seconds / best.seconds;
  if (ratio < 1) return fmt::format("{:.4g} times as long, but not at the size for which its class is decided", ratio);
  return ratio < 1.0005 ? "hardly longer" : fmt::format("{:.4g} times as long", ratio);
}

std::string machine_text(const CostInputs& inputs, const MachineNotes& notes) {
  const auto link = [](const char* what, const LinkCost& cost, const std::string& kind) {
    return fmt::format("  {}: {:.3g} us and {:.3g} GB/s ({})", what, cost.alpha * 1e6, 1e-9 / cost.beta, kind);
  };
  std::vector<std::string> lines;
  const bool levels = inputs.groups != nullptr && inputs.groups->has_two_levels();
  const bool hosts = notes.hosts > 1, alone = hosts && !levels;
  if (!alone && inputs.inside.beta > 0) {
    lines.push_back(link(!hosts && levels ? "inside a group" : "inside a host", inputs.inside, notes.inside));
  }
  if (hosts) lines.push_back(link("between hosts", inputs.between, notes.between));
  if (!hosts && levels) lines.push_back(link("between groups", inputs.between, notes.between));
  if (notes.rails > 0 && hosts) {
    lines.push_back(fmt::format("  rails: {} a host, {:g} of its ranks on the busiest", counted(notes.rails, "NIC"),
                                notes.sharing));
  }
  for (const std::string& slow : notes.links) lines.push_back("  " + slow);
  if (inputs.order.is_given()) {
    lines.push_back(fmt::format("  order of ranks: {}", fmt::join(inputs.order.ranks(), ", ")));
  }
  for (const auto& [collective, order] : inputs.own_orders) {
    lines.push_back(fmt::format("  order of ranks for the {} demanded: {}", name_of(collective),
                                order.is_given() ? fmt::format("{}", fmt::join(order.ranks(), ", ")) : "natural"));
  }
  if (inputs.oversubscription > 1) lines.push_back(fmt::format("  {:g} ranks share a core", inputs.oversubscription));
  return fmt::format("{}", fmt::join(lines, "\n"));
}

std::string row_text(const Row& row, uint64_t bytes) {
  const std::string host =
      row.method->is_on_host() ? fmt::format("; messages: {}", deliveries_text(row.deliveries)) : "";
  return fmt::format("{} by {}, {}{}", name_of_algorithm(row), row.method->name, sizes_text(row, bytes), host);
}

std::string explanation(const std::vector<Candidate>& candidates, uint64_t bytes, const CostInputs& inputs) {
  std::string text = fmt::format("  {:<{}}{:<13}{:>10}{:>10}{:>11}{:>11}{:>11}{:>10}  {}", "algorithm",
                                 name_width(candidates), "method", "predicted", "latency", "bandwidth", "reduction",
                                 "measured", "of bound", "verdict (times in us)");
  std::set<const exec::Method*> shown;  // methods that cannot run some algorithm
  for (const Candidate& candidate : candidates) {
    const bool usable = candidate.rejected.empty();
    const bool plain = candidate.row.method == candidates.front().row.method;
    if (!usable && !plain && !shown.insert(candidate.row.method).second) continue;
    const auto told = [&](double seconds) { return usable ? microseconds(seconds) : std::string("-"); };
    const Predicted& of = candidate.predicted;
    text += fmt::format("\n{} {:<{}}{:<13}{:>10}{:>10}{:>11}{:>11}{:>11}{:>10}  {}",
                        usable && &candidate == &candidates.front() ? "*" : " ", name_of_algorithm(candidate.row),
                        name_width(candidates), candidate.row.method->name, told(of.seconds()), told(of.latency),
                        told(of.bandwidth), told(of.reduction),
                        candidate.measured ? microseconds(*candidate.measured) : "-",
                        usable ? share_of_bound(least_time(candidate, bytes, inputs), candidate.seconds) : "-",
                        verdict(candidate, candidates.front()));
  }
  if (!candidates.empty() && candidates.front().rejected.empty()) {
    text += fmt::format("\n  chosen: {}", row_text(candidates.front().row, bytes));
    const std::string& where = candidates.front().where;
    if (!where.empty()) text += fmt::format("\n  busy the longest: {}", where);
  }
  return text + synthesis_text(candidates, bytes, inputs);
}

}  // namespace tutti::select
