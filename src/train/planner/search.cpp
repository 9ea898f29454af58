#include "train/planner/search.hpp"

#include <algorithm>

#include "train/planner/formulas.hpp"

namespace tutti::train::planner {
namespace {

std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> found;
  for (int64_t d = 1; d <= n / d; ++d) {
    if (n % d != 0) continue;
    found.push_back(d);
    if (d != n / d) found.push_back(n / d);
  }
  std::sort(found.begin(), found.end());
  return found;
}

bool wanted(const std::optional<int64_t>& fixed, int64_t value) { return !fixed || *fixed == value; }

/// A depth of interleaving with a micro-batch.
struct Piece {
  int64_t depth;
  int64_t sequences;
};

class Search {
 public:
  Search(const Scenario& scenario, const Fixed& fixed, size_t keep, bool prune)
      : scenario_(scenario), fixed_(fixed), keep_(keep), prune_(prune), base_(values_of(scenario)) {}

  Outcome run() {
    for (level_ = 0; level_ <= kLastLevel && outcome_.best.empty(); ++level_) meshes();
    return std::move(outcome_);
  }

 private:
  static constexpr int kLastLevel = 2;
  static constexpr int64_t kMaxDepth = 1024;
  static constexpr int64_t kLongSequence = 32768;  // tokens from which context parallelism is an ordinary choice

  void meshes() {
    const Model& model = scenario_.model;
    for (const int64_t tp : sizes(fixed_.tp, scenario_.cluster.gpus)) {
      if (model.heads % tp != 0) continue;
      const int64_t beside_tp = scenario_.cluster.gpus / tp;
      for (const int64_t cp : sizes(fixed_.cp, beside_tp)) {
        if (cp > 1 && model.sequence % (2 * cp) != 0) continue;  // zig-zag: two pieces a rank
        if (level_of(tp, cp) != level_) continue;
        for (const int64_t ep : sizes(fixed_.ep, beside_tp / cp)) {
          if (model.experts % ep != 0) continue;
          for (const int64_t pp : sizes(fixed_.pp, beside_tp / cp / ep)) pipeline({0, pp, cp, ep, tp});
        }
      }
    }
  }

  /// 0: ordinary; higher ones only where nothing lower fits.
  int level_of(int64_t tp, int64_t cp) const {
    if (tp > scenario_.cluster.gpus_per_host && !fixed_.tp) return 2;
    return cp > 1 && !fixed_.cp && scenario_.model.sequence < kLongSequence ? 1 : 0;
  }

  /// The divisors of `gpus` that may be a size.
  static std::vector<int64_t> sizes(const std::optional<int64_t>& fixed, int64_t gpus) {
    if (!fixed) return divisors(gpus);
    return gpus % *fixed == 0 ? std::vector<int64_t>{*fixed} : std::vector<int64_t>{};
  }

  /// How many chunks of layers a stage may have: as many as leave the fullest stage no fuller than one chunk would.
  /// Embedding and head may be chunks without a layer.
  std::vector<int64_t> depths(int64_t pp) const {
    const Job& job = scenario_.job;
    const int64_t layers = scenario_.model.layers;
    if (job.schedule != Schedule::Interleaved || pp == 1) return {1};
    const auto possible = [&](int64_t v) { return v == 1 ? pp <= layers : pp * v <= layers + 2; };
    if (job.chunks > 0) return possible(job.chunks) ? std::vector<int64_t>{job.chunks} : std::vector<int64_t>{};
    std::vector<int64_t> found;
    const auto fullest = [&](int64_t v) { return v * ((layers + pp * v - 1) / (pp * v)); };
    for (int64_t v = 1; v <= kMaxDepth && possible(v); ++v) {
      if (fullest(v) == fullest(1)) found.push_back(v);
    }
    return found;
  }

  /// Whether `micro_batches` of a rank can go through the stages.
  bool goes_through(int64_t micro_batches, int64_t pp, int64_t depth) const {
    if (scenario_.job.schedule == Schedule::DualPipe && pp > 1) return micro_batches % 2 == 0;
    return depth == 1 || micro_batches % pp == 0;
  }

  void pipeline(Layout layout) {
    if (layout.pp > scenario_.model.layers) return;
    if (scenario_.job.schedule == Schedule::DualPipe && layout.pp % 2 != 0 && layout.pp > 1) return;
    layout.dp = scenario_.cluster.gpus / (layout.tp * layout.cp * layout.ep * layout.pp);
    if (!wanted(fixed_.dp, layout.dp) || scenario_.job.batch % (layout.dp * layout.ep) != 0) return;
    const int64_t sequences = scenario_.job.batch / (layout.dp * layout.ep);
    std::vector<Piece> pieces;
    for (const int64_t depth : depths(layout.pp)) {
      for (const int64_t b : divisors(sequences)) {
        if (wanted(fixed_.micro_batch, b) && goes_through(sequences / b, layout.pp, depth))
          pieces.push_back({depth, b});
      }
    }
    if (pieces.empty()) return;
    const int64_t copies = layout.dp * layout.cp * layout.ep;
    for (layout.zero = 0; layout.zero <= (copies > 1 ? 3 : 0); ++layout.zero) {
      if (!wanted(fixed_.zero, layout.zero)) continue;
      ++outcome_.layouts;
      if (!recomputations(layout, pieces)) ++outcome_.skipped_memory;
    }
  }

  /// False: the model states alone are too large, and larger than what is known to be too large.
  bool recomputations(Layout layout, const std::vector<Piece>& pieces) {
    for (layout.recompute = 0; layout.recompute <= 2; ++layout.recompute) {
      if (!wanted(fixed_.recompute, layout.recompute)) continue;
      int64_t too_large = 0;  // the depth at which a smaller micro-batch did not fit
      for (const Piece& piece : pieces) {
        if (prune_ && piece.depth == too_large) continue;  // a larger micro-batch takes no less
        layout.micro_batch = piece.sequences;
        layout.chunks = piece.depth;
        values_ = base_;
        set_layout(values_, layout);
        sheet_.evaluate(values_, Part::Layout, Part::Memory);
        const double states = values_[states_], total = values_[total_], budget = values_[budget_];
        if (prune_ && states > budget && outcome_.smallest && states >= outcome_.smallest->values[total_]) return false;
        if (total > budget) {
          ++outcome_.too_large;
          too_large = piece.depth;
          if (!outcome_.smallest || total < outcome_.smallest->values[total_]) outcome_.smallest = {layout, values_};
          continue;
        }
        consider(layout);
      }
    }
    return true;
  }

  /// Times a layout that fits.
  void consider(const Layout& layout) {
    std::vector<Candidate>& best = outcome_.best;
    if (prune_ && best.size() == keep_ && values_[floor_] >= best.back().values[step_]) {
      ++outcome_.skipped_time;
      return;
    }
    sheet_.evaluate(values_, Part::Links, Part::Volume);
    if (scenario_.times != nullptr) scenario_.times->set(values_);
    sheet_.evaluate(values_, Part::Time, Part::Time);
    ++outcome_.timed;
    const auto faster = [this](double step, const Candidate& other) { return step < other.values[step_]; };
    const auto place = std::upper_bound(best.begin(), best.end(), values_[step_], faster);
    if (place == best.end() && best.size() == keep_) return;
    best.insert(place, {layout, values_});
    if (best.size() > keep_) best.pop_back();
  }

  const Sheet& sheet_ = step_sheet();
  const size_t states_ = sheet_.slot("states"), total_ = sheet_.slot("total"), budget_ = sheet_.slot("budget");
  const size_t floor_ = sheet_.slot("T_floor"), step_ = sheet_.slot("T_step");
  const Scenario& scenario_;
  const Fixed& fixed_;
  size_t keep_;
  bool prune_;
  std::vector<double> base_, values_;
  int level_ = 0;
  Outcome outcome_;
};

/// "; 4 or 8 would": the sizes nearest to `size` that divide `whole`.
std::string what_would(int64_t size, int64_t whole) {
  int64_t below = 0, above = 0;
  for (const int64_t d : divisors(whole)) {
    if (d < size) below = d;
    if (d > size && above == 0) above = d;
  }
  if (below == 0 || above == 0) return fmt::format("; {} would", std::max(below, above));
  return fmt::format("; {} or {} would", below, above);
}

void must_divide(const char* what, const std::optional<int64_t>& size, int64_t whole, const char* of_what) {
  if (size && (*size < 1 || whole % *size != 0))
    refuse("{} = {} does not divide the {} {}{}", what, *size, whole, of_what, what_would(*size, whole));
}

/// Says which fixed size cannot be, and what could.
void check_fixed(const Scenario& scenario, const Fixed& fixed) {
  const Model& model = scenario.model;
  must_divide("tp", fixed.tp, model.heads, "attention heads");
  must_divide("cp", fixed.cp, model.sequence, "tokens of a sequence");
  must_divide("ep", fixed.ep, model.experts, model.experts == 1 ? "expert: the model is dense" : "experts");
  must_divide("dp", fixed.dp, scenario.job.batch, "sequences of a step");
  must_divide("the micro-batch", fixed.micro_batch, scenario.job.batch, "sequences of a step");
  must_divide("pp", fixed.pp, scenario.cluster.gpus, "GPUs");
  if (fixed.pp && *fixed.pp > model.layers) {
    refuse("pp = {} is more than the {} layers, and each stage needs one; at most {} would do", *fixed.pp, model.layers,
           model.layers);
  }
  int64_t product = 1;
  for (const auto* size : {&fixed.tp, &fixed.cp, &fixed.ep, &fixed.pp, &fixed.dp}) product *= size->value_or(1);
  must_divide("the product of the given sizes", product, scenario.cluster.gpus, "GPUs");
  if (fixed.zero && (*fixed.zero < 0 || *fixed.zero > 3)) refuse("the ZeRO stage is 0, 1, 2 or 3, not {}", *fixed.zero);
  const Job& job = scenario.job;
  if (fixed.pp && *fixed.pp > 1 && job.chunks > 1 && *fixed.pp * job.chunks > model.layers + 2) {
    refuse("{} chunks of {} stages are more than the {} layers, embedding and head; at most {} chunks would do",
           job.chunks, *fixed.pp, model.layers, (model.layers + 2) / *fixed.pp);
  }
}

/// What stands in the way of every layout.
[[noreturn]] void refuse_all(const Scenario& scenario, const Fixed& fixed) {
  const Job& job = scenario.job;
  std::string text = fmt::format(
      "no layout uses all {} GPUs: tp must divide {} heads, ep {} experts, 2·cp {} tokens, and dp·ep·micro-batch {} "
      "sequences; pp is at most {} layers",
      scenario.cluster.gpus, scenario.model.heads, scenario.model.experts, scenario.model.sequence, job.batch,
      scenario.model.layers);
  if (job.chunks > 1) text += fmt::format(", and with {} chunks must divide the micro-batches", job.chunks);
  if (fixed.zero.value_or(0) > 0) text += "; ZeRO needs more than one copy of the parameters";
  const int64_t taken = fixed.tp.value_or(1) * fixed.cp.value_or(1) * fixed.pp.value_or(1);
  const int64_t copies = std::max<int64_t>(1, scenario.cluster.gpus / taken);
  refuse("{}; a batch of {} sequences would do, or another number of GPUs", text,
         (job.batch + copies - 1) / copies * copies * std::max<int64_t>(1, job.chunks > 1 ? fixed.pp.value_or(1) : 1));
}

}  // namespace

size_t Candidate::step_value(const char* name) { return step_sheet().slot(name); }

Outcome search(const Scenario& scenario, const Fixed& fixed, size_t keep, bool prune) {
  check(scenario);
  check_fixed(scenario, fixed);
  Outcome outcome = Search(scenario, fixed, keep, prune).run();
  if (outcome.layouts == 0) refuse_all(scenario, fixed);
  return outcome;
}

int64_t gpus_that_fit(Scenario scenario, const Fixed& fixed) {
  for (int doublings = 0; doublings < 10 && scenario.cluster.gpus < 1 << 19; ++doublings) {
    scenario.cluster.gpus *= 2;
    if (!Search(scenario, fixed, 1, true).run().best.empty()) return scenario.cluster.gpus;
  }
  return 0;
}

}  // namespace tutti::train::planner
