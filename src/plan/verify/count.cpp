// Counts what plans really send and fold, and their chains of dependent messages.
#include <algorithm>
#include <map>
#include <numeric>

#include "base/format.hpp"
#include "plan/verify.hpp"
#include "plan/verify/checks.hpp"
#include "plan/verify/structure.hpp"

namespace tutti::plan {
namespace verifier {
namespace {

/// A sum of widths of atoms, kept as the count of each atom. Exact; only reading the sum is expensive.
class Amount {
 public:
  explicit Amount(const Model& model) : model_(model), change_(model.atoms() + 1) {}
  void add(uint32_t rank, std::span<const Piece> pieces, int64_t times) {
    for (const Piece& piece : pieces) {
      const Run run = model_.run_of(rank, piece, false);
      change(run.atom, times);
      change(run.atom + run.count, -times);
    }
  }
  /// Returns the sum, and resets it to 0.
  Ratio take() {
    // Σ width × times = Σ over boundaries b of b × (times before b − times after b), those over one denominator
    // together
    const auto den = [this](uint32_t b) { return model_.bound(b).den; };
    std::sort(changed_.begin(), changed_.end(), [&](uint32_t a, uint32_t b) { return den(a) < den(b); });
    Ratio total;
    for (size_t i = 0; i < changed_.size();) {
      const uint32_t common = den(changed_[i]);
      int64_t sum = 0, term = 0;
      for (; i < changed_.size() && den(changed_[i]) == common; ++i) {
        int64_t& times = change_[changed_[i]];
        if (__builtin_mul_overflow(-times, int64_t{model_.bound(changed_[i]).num}, &term) ||
            __builtin_add_overflow(sum, term, &sum)) {
          too_fine();
        }
        times = 0;  // a boundary that is listed twice counts once
      }
      total = sum_of(total, Ratio(sum, common));
    }
    changed_.clear();
    return total;
  }

 private:
  void change(uint32_t b, int64_t times) {
    if (change_[b] == 0) changed_.push_back(b);
    change_[b] += times;
  }
  [[noreturn]] static void too_fine() {
    throw_error(Code::Unsupported, "the plans' fractions are too fine to add up in 64 bits; use smaller denominators");
  }
  static Ratio sum_of(Ratio a, Ratio b) {
    const int64_t common = std::gcd(a.den(), b.den());
    int64_t left = 0, right = 0, num = 0, den = 0;
    if (__builtin_mul_overflow(a.num(), b.den() / common, &left) ||
        __builtin_mul_overflow(b.num(), a.den() / common, &right) || __builtin_add_overflow(left, right, &num) ||
        __builtin_mul_overflow(a.den(), b.den() / common, &den)) {
      too_fine();
    }
    return {num, den};
  }

  const Model& model_;
  std::vector<int64_t> change_;    // by boundary
  std::vector<uint32_t> changed_;  // all boundaries with a non-zero change, perhaps more than once
};

bool less(Ratio a, Ratio b) {
  __extension__ using Wide = __int128;
  return static_cast<Wide>(a.num()) * b.den() < static_cast<Wide>(b.num()) * a.den();
}

void raise(Ratio& most, Ratio candidate) {
  if (less(most, candidate)) most = candidate;
}

/// The figures that are sums over one rank's steps.
class RankCount {
 public:
  RankCount(const Model& model, Counted& counted)
      : model_(model), counted_(counted), sent_(model), received_(model), folded_(model), handled_(model) {}

  void run(uint32_t rank) {
    std::map<std::pair<uint32_t, std::vector<Rank>>, uint32_t> stages;
    const RankPlan& plan = model_.plans()[rank];
    for (uint32_t lane = 0; lane < model_.lanes(); ++lane) {
      const Range steps = plan.lanes[lane].steps;
      for (uint32_t i = steps.begin; i < steps.end; ++i) {
        const Step& step = plan.steps[i];
        const auto pieces = model_.pieces(rank, step.pieces);
        const auto messages = static_cast<int64_t>(model_.received(model_.first_step(rank) + i).size());
        received_.add(rank, pieces, messages);
        handled_.add(rank, pieces, messages);
        if (step.kind == StepKind::Reduce) folded_.add(rank, pieces, int64_t{step.operands.size()} - 1);
        if (step.kind != StepKind::Send) continue;
        sent_.add(rank, pieces, step.peers.size());
        handled_.add(rank, pieces, 1);
        std::vector<Rank> peers(plan.peers.begin() + step.peers.begin, plan.peers.begin() + step.peers.end);
        std::sort(peers.begin(), peers.end());
        ++stages[{lane, std::move(peers)}];
        if (step.lend != Lend::Never) ++counted_.lends;
      }
    }
    raise(counted_.cost.sent, sent_.take());
    raise(counted_.cost.received, received_.take());
    raise(counted_.cost.folded, folded_.take());
    raise(counted_.cost.handled, handled_.take());
    counted_.cost.stages = std::max(counted_.cost.stages, static_cast<int64_t>(stages.size()));
  }

 private:
  const Model& model_;
  Counted& counted_;
  Amount sent_, received_, folded_, handled_;
};

/// Messages on the longest chain that leads to each step.
class Chains {
 public:
  explicit Chains(const Model& model) : model_(model), lanes_(model.all_lanes()), steps_(model.steps()) {}
  void run(const Moment& moment) {
    int64_t& depth = lanes_[moment.lane];
    const uint32_t after = model_.step(moment.rank, moment.step).after;
    if (after != kNone) depth = std::max(depth, steps_[model_.first_step(moment.rank) + after]);
    for (const uint32_t m : model_.received(moment.step)) depth = std::max(depth, steps_[model_.message(m).send] + 1);
    steps_[moment.step] = depth;
    longest_ = std::max(longest_, depth);
  }
  int64_t longest() const { return longest_; }

 private:
  const Model& model_;
  std::vector<int64_t> lanes_, steps_;
  int64_t longest_ = 0;
};

void count_links(const Model& model, Counted& counted) {
  Amount message(model), sent(model);
  for (uint32_t m = 0; m < model.messages();) {
    const Message& first = model.message(m);
    const uint32_t lane = first.sender, from = lane / model.lanes();
    LinkCount link{.from = static_cast<Rank>(from),
                   .to = static_cast<Rank>(model.rank_of(first.receive)),
                   .lane = lane % model.lanes()};
    for (; m < model.messages() && model.message(m).link == first.link; ++m, ++link.messages) {
      const auto pieces = model.pieces(from, model.step(from, model.message(m).send).pieces);
      message.add(from, pieces, 1);
      raise(counted.cost.message, message.take());
      sent.add(from, pieces, 1);
    }
    link.sent = sent.take();
    raise(counted.cost.link, link.sent);
    counted.links.push_back(link);
  }
}

/// If all ranks are alike, what rank 0 could lend, all could.
void find_missed_lends(const Model& model, const Races& races, uint32_t ranks_checked, Counted& counted) {
  for (uint32_t lane = 0; lane < model.all_lanes(); ++lane) {
    const Range steps = model.steps_of(lane);
    const uint32_t rank = lane / model.lanes();
    for (uint32_t step = steps.begin; step < steps.end; ++step) {
      const Step& sends = model.step(rank, step);
      if (sends.kind != StepKind::Send || model.atoms_in(rank, sends.pieces) == 0) continue;
      const Lend provable = races.provable(rank < ranks_checked ? step : step - model.first_step(rank));
      if (provable <= sends.lend) continue;
      counted.lends_missed.push_back({static_cast<Rank>(rank), lane % model.lanes(), step - steps.begin, provable});
    }
  }
}

}  // namespace
}  // namespace verifier

Counted count(std::span<const RankPlan> plans, const VerifyOptions& options) {
  using namespace verifier;
  Counted counted;
  const Verdict verdict = verdict_of([&] {
    check_structure(plans);
    const Model model(plans);
    check_contents(model, options);
    const uint32_t ranks = ranks_to_check(model, options);
    Races races(model, ranks, options.versions, Races::Lends::Supposed);
    Chains chains(model);
    check_order(model, options, races, [&](const Moment& moment) {
      if (moment.round == 0) chains.run(moment);
    });
    counted.cost.rounds = chains.longest();
    find_missed_lends(model, races, ranks, counted);
    RankCount rank_count(model, counted);
    for (uint32_t rank = 0; rank < model.ranks(); ++rank) rank_count.run(rank);
    count_links(model, counted);
  });
  if (!verdict) throw_error(verdict.too_large ? Code::Unsupported : Code::InvalidArgument, "{}", verdict.reason);
  return counted;
}

}  // namespace tutti::plan
