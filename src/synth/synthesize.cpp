#include "synth/synthesize.hpp"

#include <algorithm>
#include <map>

#include "base/format.hpp"
#include "synth/bidirectional.hpp"

namespace tutti::synth {
namespace {

constexpr int64_t kSteps = 1000;       // times are tried in steps of the bound / kSteps
constexpr int64_t kLongest = 1 << 30;  // steps: no capacity that is needed is 0 then

/// Parts of a block whose plan stays small: steps grow with parts · ranks².
int64_t default_parts(Rank ranks) { return ranks <= 16 ? 16 : ranks <= 64 ? 8 : ranks <= 128 ? 2 : 1; }

constexpr size_t kOwnLanes = 32;      // trees, of the 64 lanes that plans can have
constexpr double kWorthLanes = 0.97;  // of the rate
constexpr int64_t kAllCounts = 16;    // of parts of the buffer: beyond, not each number of them is tried
constexpr Rank kFlat = 2;             // levels of trees: flatter ones are not looked for
/// Of a long call's time, a level: what is under way fills the ranks of a tree one after the other, and drains so.
constexpr double kLevel = 0.003;

/// Part of the bound, with the time in which trees fill.
double share(const Synthesis& made) { return made.reached / (1 + kLevel * made.depth()); }

/// What a search for a number of parts found: the demand, the capacities, and the time in steps of the bound.
struct Fit {
  int64_t parts = 1;
  int64_t steps = kSteps;
  double reached() const { return static_cast<double>(kSteps) / static_cast<double>(steps); }
};

/// The bound's time, by that of the busiest link, where each edge of a tree takes its messages' way.
double reached_by(const std::vector<Tree>& trees, int64_t parts, const Network& network, const Ratio& bound) {
  std::map<std::pair<Vertex, Vertex>, int64_t> load;
  for (const Tree& tree : trees) {
    for (const Rank rank : tree.order) {
      if (rank == tree.root) continue;
      const std::vector<Vertex> way = network.way(tree.parents[static_cast<size_t>(rank)], rank);
      for (size_t i = 1; i < way.size(); ++i) load[{way[i - 1], way[i]}] += tree.copies;
    }
  }
  Ratio busiest{0, 1};
  for (const Arc& arc : network.arcs) busiest = std::max(busiest, Ratio{load[{arc.from, arc.to}], arc.capacity});
  const double least = static_cast<double>(bound.blocks) / static_cast<double>(bound.capacity);
  const double takes = static_cast<double>(busiest.blocks) / static_cast<double>(busiest.capacity);
  return std::min(1.0, least * static_cast<double>(parts) / takes);  // but for rounding, no more
}

/// How often switches are removed in another order, where messages' ways load links more than the trees' capacities
/// say.
unsigned default_attempts(Rank ranks) { return ranks <= 16 ? 24 : ranks <= 32 ? 12 : ranks <= 64 ? 2 : 1; }

class Search {
 public:
  Search(const Network& network, Collective collective, const SynthesisOptions& options)
      : network_(network),
        collective_(collective),
        options_(options),
        weights_(weights_of(collective, network.ranks, options.root)) {
    tell("finding the bound");
    bound_ = tightest_cut(network_, weights_).must;
    most_ = options.max_parts > 0 ? options.max_parts : default_parts(network.ranks);
  }

  Synthesis run() const {
    Fit best = fit(1);
    for (int64_t parts = 2; parts <= most_ && best.reached() < options_.near_enough; ++parts) {
      tell(fmt::format("{} parts of a block", parts));
      const Fit other = fit(parts);
      if (other.reached() > best.reached()) best = other;
    }
    constexpr int64_t kFinest = 3;  // times as many parts: finer capacities leave more ways to go
    Synthesis made = made_in_attempts(best, kFinest);
    return has_root(collective_) ? flatter(std::move(made)) : with_lanes(std::move(made));
  }

 private:
  /// Where messages' ways load links more than the trees' capacities say, switches are removed in other orders, too.
  Synthesis made_in_attempts(const Fit& best, int64_t finest) const {
    Synthesis made = made_with(best, 0);
    const unsigned attempts = made.pattern == Pattern::Exact ? default_attempts(network_.ranks) : 1;
    for (unsigned i = 1; i < attempts && made.reached < std::min(options_.near_enough, best.reached()); ++i) {
      const int64_t parts = best.parts * (1 + i % finest);
      Synthesis other = made_with(parts <= most_ ? fit(parts) : best, i);
      if (other.reached > made.reached) made = std::move(other);
    }
    return made;
  }

  /// Trees that share a lane wait for each other. So where one part a block makes few enough for a lane each, and for
  /// one more between hosts, it may be a little slower.
  Synthesis with_lanes(Synthesis made) const {
    if (made.parts == 1 || made.trees.size() <= kOwnLanes) return made;
    Synthesis fewer = made_in_attempts(fit(1), 1);
    return fewer.trees.size() < made.trees.size() && fewer.reached >= kWorthLanes * made.reached ? fewer : made;
  }

  /// The root's whole buffer passes each rank on its way down. With more parts than the bound needs there may be trees
  /// that are as good and flatter: of a switch with n ports a chain, or n − 1 trees of two levels.
  Synthesis flatter(Synthesis made) const {
    for (int64_t parts = made.parts + 1; parts <= most_ && made.depth() > kFlat; ++parts) {
      const Fit other = fit(parts);
      if (other.reached() < std::min(options_.near_enough, made.reached)) continue;
      Synthesis more = made_with(other, 0);
      if (share(more) > share(made)) made = std::move(more);
    }
    return made;
  }

  void tell(const std::string& what) const {
    if (options_.progress) options_.progress(what);
  }

  Demand demand(int64_t parts) const {
    Demand demand = weights_;
    for (int64_t& trees : demand) trees *= parts;
    return demand;
  }

  /// How many parts pass each link in the time of `fit`; no more than there are.
  Network capacities(const Fit& fit) const {
    int64_t all = 0;
    for (const int64_t trees : demand(fit.parts)) all += trees;
    Network scaled = network_;
    const auto num = static_cast<Wide>(fit.parts) * bound_.blocks * fit.steps;
    const auto den = static_cast<Wide>(bound_.capacity) * kSteps;
    for (Arc& arc : scaled.arcs) {
      arc.capacity = static_cast<Capacity>(std::min<Wide>(all, arc.capacity * num / den));
    }
    std::erase_if(scaled.arcs, [](const Arc& arc) { return arc.capacity == 0; });
    return scaled;
  }

  /// The shortest time for this number of parts.
  Fit fit(int64_t parts) const {
    const auto fits = [&](int64_t steps) { return supports(capacities({parts, steps}), demand(parts)); };
    if (fits(kSteps)) return {parts, kSteps};
    int64_t none = kSteps, some = kSteps + 1;
    for (int64_t more = 1; !fits(some); more *= 2) {
      none = some;
      some = kSteps + 2 * more;
      if (some > kLongest) throw_error(Code::InternalError, "no time is long enough for {} parts", parts);
    }
    while (some - none > 1) {
      const int64_t middle = none + (some - none) / 2;
      (fits(middle) ? some : none) = middle;
    }
    return {parts, some};
  }

  Synthesis made_with(const Fit& fit, unsigned attempt) const {
    Synthesis made{.collective = collective_,
                   .parts = fit.parts,
                   .trees = {},
                   .fitted = fit.reached(),
                   .hosts = network_.hosts,
                   .root = options_.root};
    tell(attempt == 0 ? "removing switches" : fmt::format("removing switches, attempt {}", attempt));
    const Network direct = without_switches(capacities(fit), demand(fit.parts), attempt, &made.pattern);
    made.trees = pack(direct, demand(fit.parts),
                      [&](uint64_t done, uint64_t all) { tell(fmt::format("packing trees: {} %", 100 * done / all)); });
    made.reached = network_.has_ways() ? reached_by(made.trees, fit.parts, network_, bound_) : made.fitted;
    return made;
  }

  const Network network_;
  Collective collective_;
  const SynthesisOptions& options_;
  std::vector<int64_t> weights_;
  Ratio bound_;
  int64_t most_;
};

/// All-reduce: trees that carry parts in both directions at once, if they are better than reduce-scatter and then
/// all-gather.
class Bidirectional {
 public:
  Bidirectional(const Network& network, const SynthesisOptions& options) : network_(network), options_(options) {
    const Ratio must = bound_of(network, Collective::AllReduce, 0, &fractions_).cut.must;
    most_ = static_cast<double>(must.capacity) / static_cast<double>(must.blocks);
  }

  Synthesis or_better(Synthesis made) const {
    made.fitted = made.reached = part_of_bound(rate_in_both_directions(network_, made.trees));
    if (made.reached >= options_.near_enough || fractions_.trees.empty()) return made;
    Synthesis best = std::move(made);
    const int64_t most = network_.ranks * (options_.max_parts > 0 ? options_.max_parts : default_parts(network_.ranks));
    for (int64_t parts = 1; parts <= most && best.reached < options_.near_enough; parts += 1 + parts / kAllCounts) {
      const WholeParts whole = in_parts(network_, fractions_, parts);
      if (part_of_bound(whole.rate) <= best.reached) continue;
      Synthesis other{.collective = best.collective, .parts = parts, .of_buffer = true, .hosts = network_.hosts};
      other.trees = trees_of(fractions_, whole);
      other.reached = part_of_bound(whole.rate);
      other.fitted = std::max(other.reached, part_of_bound(fractions_.rate));
      if (worth(other) > worth(best)) best = std::move(other);
    }
    return best;
  }

 private:
  double part_of_bound(double rate) const { return std::min(1.0, rate / most_); }

  /// Trees that share a lane wait for each other; between hosts a tree takes three lanes.
  double worth(const Synthesis& made) const {
    const bool several = *std::max_element(network_.hosts.begin(), network_.hosts.end()) > 0;
    return share(made) * (made.trees.size() > (several ? kOwnLanes * 2 / 3 : kOwnLanes) ? kWorthLanes : 1);
  }

  const Network& network_;
  const SynthesisOptions& options_;
  Fractions fractions_;
  double most_;  // buffers a second, in units of capacity: the bound
};

bool is_possible(Collective collective) {
  switch (collective) {
    case Collective::AllGather:
    case Collective::ReduceScatter:
    case Collective::AllReduce:
    case Collective::Broadcast:
    case Collective::Reduce:
      return true;
    default:
      return false;
  }
}

}  // namespace

Rank Synthesis::depth() const {
  Rank most = 0;
  for (const Tree& tree : trees) most = std::max(most, tree.depth());
  return most;
}

Synthesis synthesize(const Network& network, Collective collective, const SynthesisOptions& options) {
  if (!is_possible(collective)) {
    throw_error(Code::Unsupported,
                "{} cannot be synthesised; all_gather, reduce_scatter, all_reduce, broadcast and reduce can",
                name_of(collective));
  }
  if (options.root != 0 && (!has_root(collective) || options.root < 0 || options.root >= network.ranks)) {
    throw_error(Code::InvalidArgument, "{} of {} ranks has no root {}", name_of(collective), network.ranks,
                options.root);
  }
  if (network.ranks == 1) return {.collective = collective, .trees = {}};
  // Folds go up trees whose arcs are turned round: those of the reversed network, from the root.
  const bool folds = collective == Collective::ReduceScatter || collective == Collective::Reduce;
  Synthesis made = Search(folds ? reversed(network) : network, collective, options).run();
  if (collective != Collective::AllReduce || !network.has_ways()) return made;
  return Bidirectional(network, options).or_better(std::move(made));
}

}  // namespace tutti::synth
