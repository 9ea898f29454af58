#include "train/planner/search.hpp"

#include <algorithm>
#include <array>

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

class Search {
 public:
  Search(const Scenario& scenario, const Fixed& fixed, size_t keep, bool prune)
      : scenario_(scenario), fixed_(fixed), keep_(keep), prune_(prune), base_(values_of(scenario)) {}

  Outcome run() {
    const Model& model = scenario_.model;
    for (const int64_t tp : sizes(fixed_.tp, scenario_.cluster.gpus)) {
      if (model.heads % tp != 0) continue;
      const int64_t beside_tp = scenario_.cluster.gpus / tp;
      for (const int64_t cp : sizes(fixed_.cp, beside_tp)) {
        if (cp > 1 && model.sequence % (2 * cp) != 0) continue;  // zig-zag: two pieces a rank
        for (const int64_t ep : sizes(fixed_.ep, beside_tp / cp)) {
          if (model.experts % ep != 0) continue;
          for (const int64_t pp : sizes(fixed_.pp, beside_tp / cp / ep)) pipeline({0, pp, cp, ep, tp});
        }
      }
    }
    return std::move(outcome_);
  }

 private:
  /// The divisors of `gpus` that may be a size.
  static std::vector<int64_t> sizes(const std::optional<int64_t>& fixed, int64_t gpus) {
    if (!fixed) return divisors(gpus);
    return gpus % *fixed == 0 ? std::vector<int64_t>{*fixed} : std::vector<int64_t>{};
  }

  void pipeline(Layout layout) {
    const bool interleaved = scenario_.job.schedule == Schedule::Interleaved && layout.pp > 1;
    if (scenario_.model.layers % (layout.pp * (interleaved ? scenario_.job.chunks : 1)) != 0) return;
    layout.dp = scenario_.cluster.gpus / (layout.tp * layout.cp * layout.ep * layout.pp);
    if (!wanted(fixed_.dp, layout.dp) || scenario_.job.batch % (layout.dp * layout.ep) != 0) return;
    const int64_t sequences = scenario_.job.batch / (layout.dp * layout.ep);
    std::vector<int64_t> micro_batches;
    for (const int64_t b : divisors(sequences)) {
      if (!wanted(fixed_.micro_batch, b) || (interleaved && sequences / b % layout.pp != 0)) continue;
      micro_batches.push_back(b);
    }
    if (micro_batches.empty()) return;
    const int64_t copies = layout.dp * layout.cp * layout.ep;
    for (layout.zero = 0; layout.zero <= (copies > 1 ? 3 : 0); ++layout.zero) {
      if (!wanted(fixed_.zero, layout.zero)) continue;
      ++outcome_.layouts;
      if (!recomputations(layout, micro_batches)) ++outcome_.skipped_memory;
    }
  }

  /// False: the model states alone are too large, and larger than what is known to be too large.
  bool recomputations(Layout layout, const std::vector<int64_t>& micro_batches) {
    for (layout.recompute = 0; layout.recompute <= 2; ++layout.recompute) {
      if (!wanted(fixed_.recompute, layout.recompute)) continue;
      for (const int64_t b : micro_batches) {
        layout.micro_batch = b;
        values_ = base_;
        set_layout(values_, layout);
        sheet_.evaluate(values_, Part::Layout, Part::Memory);
        const double states = values_[states_], total = values_[total_], budget = values_[budget_];
        if (prune_ && states > budget && outcome_.smallest && states >= outcome_.smallest->values[total_]) return false;
        if (total > budget) {
          ++outcome_.too_large;
          if (!outcome_.smallest || total < outcome_.smallest->values[total_]) outcome_.smallest = {layout, values_};
          if (prune_) break;  // a larger micro-batch takes no less
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
    double& arithmetic = arithmetic_.at(static_cast<size_t>(layout.recompute));
    if (prune_ && best.size() == keep_ && arithmetic / (1 - values_[bubble_]) >= best.back().values[step_]) {
      ++outcome_.skipped_time;
      return;
    }
    sheet_.evaluate(values_, Part::Links, Part::Time);
    ++outcome_.timed;
    arithmetic = values_[arithmetic_slot_];  // equal for all layouts that recompute the same
    const auto faster = [this](double step, const Candidate& other) { return step < other.values[step_]; };
    const auto place = std::upper_bound(best.begin(), best.end(), values_[step_], faster);
    if (place == best.end() && best.size() == keep_) return;
    best.insert(place, {layout, values_});
    if (best.size() > keep_) best.pop_back();
  }

  const Sheet& sheet_ = step_sheet();
  const size_t states_ = sheet_.slot("states"), total_ = sheet_.slot("total"), budget_ = sheet_.slot("budget");
  const size_t bubble_ = sheet_.slot("bubble"), step_ = sheet_.slot("T_step"), arithmetic_slot_ = sheet_.slot("T_comp");
  const Scenario& scenario_;
  const Fixed& fixed_;
  size_t keep_;
  bool prune_;
  std::vector<double> base_, values_;
  std::array<double, 3> arithmetic_{};  // seconds by recomputation; 0 until known
  Outcome outcome_;
};

/// Says which fixed size cannot be.
void check_fixed(const Scenario& scenario, const Fixed& fixed) {
  const auto must_divide = [](const char* what, const std::optional<int64_t>& size, int64_t whole,
                              const char* of_what) {
    if (size && (*size < 1 || whole % *size != 0))
      refuse("{} = {} does not divide the {} {}", what, *size, whole, of_what);
  };
  const Model& model = scenario.model;
  must_divide("tp", fixed.tp, model.heads, "attention heads");
  must_divide("pp", fixed.pp, model.layers, "layers");
  must_divide("cp", fixed.cp, model.sequence, "tokens of a sequence");
  must_divide("ep", fixed.ep, model.experts, model.experts == 1 ? "expert: the model is dense" : "experts");
  must_divide("dp", fixed.dp, scenario.job.batch, "sequences of a step");
  must_divide("the micro-batch", fixed.micro_batch, scenario.job.batch, "sequences of a step");
  int64_t product = 1;
  for (const auto* size : {&fixed.tp, &fixed.cp, &fixed.ep, &fixed.pp, &fixed.dp}) product *= size->value_or(1);
  must_divide("the product of the given sizes", product, scenario.cluster.gpus, "GPUs");
  if (fixed.zero && (*fixed.zero < 0 || *fixed.zero > 3)) refuse("the ZeRO stage is 0, 1, 2 or 3, not {}", *fixed.zero);
}

}  // namespace

size_t Candidate::step_value(const char* name) { return step_sheet().slot(name); }

Outcome search(const Scenario& scenario, const Fixed& fixed, size_t keep, bool prune) {
  check(scenario);
  check_fixed(scenario, fixed);
  Outcome outcome = Search(scenario, fixed, keep, prune).run();
  if (outcome.layouts == 0) {
    refuse(
        "no layout uses all {} GPUs: tp must divide {} heads, pp {} layers, ep {} experts, 2·cp {} tokens, and dp·ep·"
        "micro-batch {} sequences{}; give other sizes, or another batch or number of GPUs",
        scenario.cluster.gpus, scenario.model.heads, scenario.model.layers, scenario.model.experts,
        scenario.model.sequence, scenario.job.batch,
        fixed.zero.value_or(0) > 0 ? "; ZeRO needs more than one copy of the parameters" : "");
  }
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
