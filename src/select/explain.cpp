#include "select/explain.hpp"

#include <algorithm>

#include "base/format.hpp"

namespace tutti::select {
namespace {

/// "0.25", "12.3", "1234".
std::string microseconds(double seconds) {
  const double us = seconds * 1e6;
  return us < 10 ? fmt::format("{:.2f}", us) : us < 1000 ? fmt::format("{:.1f}", us) : fmt::format("{:.0f}", us);
}

}  // namespace

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

std::vector<Candidate> priced_candidates(Collective collective, uint64_t bytes, const Setting& setting) {
  std::vector<Candidate> all = candidates(collective, bytes, setting);
  if (decided_at(bytes) == bytes || all.empty()) return all;
  const plan::Algorithm* const chosen = candidates(collective, decided_at(bytes), setting).front().algorithm;
  const auto at = std::find_if(all.begin(), all.end(), [&](const Candidate& c) { return c.algorithm == chosen; });
  std::rotate(all.begin(), at, at + 1);
  return all;
}

std::string verdict(const Candidate& candidate, const Candidate& best) {
  if (!candidate.rejected.empty()) return "rejected: " + candidate.rejected;
  if (candidate.algorithm == best.algorithm) return "chosen";
  if (best.measured && !candidate.measured) return "not measured, and measured ones are preferred";
  if (candidate.level && best.level && candidate.seconds != best.seconds) return "measured as fast, predicted slower";
  if (candidate.seconds == best.seconds) {
    return candidate.algorithm->lends == best.algorithm->lends ? "as long, but more staging"
                                                               : "as long, but copies more";
  }
  if (best.seconds <= 0) return "longer";
  const double ratio = candidate.seconds / best.seconds;
  if (ratio < 1) return fmt::format("{:.4g} times as long, but not at the size for which its class is decided", ratio);
  return ratio < 1.0005 ? "hardly longer" : fmt::format("{:.4g} times as long", ratio);
}

std::string explanation(const std::vector<Candidate>& candidates) {
  std::string text = fmt::format("  {:<20}{:>10}{:>10}{:>11}{:>11}{:>11}  {}", "algorithm", "predicted", "latency",
                                 "bandwidth", "reduction", "measured", "verdict (times in us)");
  for (const Candidate& candidate : candidates) {
    const bool usable = candidate.rejected.empty();
    const auto told = [&](double seconds) { return usable ? microseconds(seconds) : std::string("-"); };
    const Predicted& of = candidate.predicted;
    text += fmt::format(
        "\n{} {:<20}{:>10}{:>10}{:>11}{:>11}{:>11}  {}", usable && &candidate == &candidates.front() ? "*" : " ",
        candidate.algorithm->name, told(of.seconds()), told(of.latency), told(of.bandwidth), told(of.reduction),
        candidate.measured ? microseconds(*candidate.measured) : "-", verdict(candidate, candidates.front()));
  }
  return text;
}

}  // namespace tutti::select
