// What plans really send, fold and depend on.
#include <algorithm>
#include <map>
#include <numeric>

#include "base/format.hpp"
#include "plan/verify.hpp"
#include "plan/verify/races.hpp"
#include "plan/verify/structure.hpp"

namespace tutti::plan {
namespace verifier {
namespace {

/// A sum of widths of atoms: how often each is counted. Exact, and cheap until it is asked for.
class Amount {
 public:
  explicit Amount(const Model& model) : model_(model), change_(model.atoms() + 1) {}
  void add(uint32_t rank, std::span<const Piece> pieces, int64_t times) {
    for (const Piece& piece : pieces) {
      const Run run = model_.run_of(rank, piece, false);
      change_[run.atom] += times;
      change_[run.atom + run.count] -= times;
    }
  }
  /// Σ width × times = Σ over boundaries b of b × (times before b − times after b).
  Ratio total() const {
    std::map<uint32_t, int64_t> by_denominator;
    for (uint32_t b = 0; b < change_.size(); ++b) {
      if (change_[b] == 0) continue;
      int64_t term = 0;
      int64_t& sum = by_denominator[model_.bound(b).den];
      if (__builtin_mul_overflow(-change_[b], int64_t{model_.bound(b).num}, &term) ||
          __builtin_add_overflow(sum, term, &sum)) {
        too_fine();
      }
    }
    Ratio total;
    for (const auto& [den, num] : by_denominator) total = sum_of(total, Ratio(num, den));
    return total;
  }

 private:
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
  std::vector<int64_t> change_;
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
  RankCount(const Model& model, Counted& counted) : model_(model), counted_(counted) {}

  void run(uint32_t rank) {
    Amount sent(model_), received(model_), folded(model_);
    std::map<std::pair<uint32_t, std::vector<Rank>>, uint32_t> stages;
    const RankPlan& plan = model_.plans()[rank];
    for (uint32_t lane = 0; lane < model_.lanes(); ++lane) {
      const Range steps = plan.lanes[lane].steps;
      for (uint32_t i = steps.begin; i < steps.end; ++i) {
        const Step& step = plan.steps[i];
        const auto pieces = model_.pieces(rank, step.pieces);
        const auto messages = static_cast<int64_t>(model_.received(model_.first_step(rank) + i).size());
        received.add(rank, pieces, messages);
        if (step.kind == StepKind::Reduce) folded.add(rank, pieces, int64_t{step.operands.size()} - 1);
        if (step.kind != StepKind::Send) continue;
        sent.add(rank, pieces, step.peers.size());
        std::vector<Rank> peers(plan.peers.begin() + step.peers.begin, plan.peers.begin() + step.peers.end);
        std::sort(peers.begin(), peers.end());
        ++stages[{lane, std::move(peers)}];
        if (step.lend != Lend::Never) ++counted_.lends;
      }
    }
    raise(counted_.cost.sent, sent.total());
    raise(counted_.cost.received, received.total());
    raise(counted_.cost.folded, folded.total());
    counted_.cost.stages = std::max(counted_.cost.stages, static_cast<int64_t>(stages.size()));
  }

 private:
  const Model& model_;
  Counted& counted_;
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
  for (uint32_t m = 0; m < model.messages();) {
    const Message& first = model.message(m);
    const uint32_t lane = model.lane_of(first.send), from = lane / model.lanes();
    LinkCount link{.from = static_cast<Rank>(from),
                   .to = static_cast<Rank>(model.rank_of(first.receive)),
                   .lane = lane % model.lanes()};
    Amount sent(model);
    for (; m < model.messages() && model.message(m).link == first.link; ++m, ++link.messages) {
      const auto pieces = model.pieces(from, model.step(from, model.message(m).send).pieces);
      Amount message(model);
      message.add(from, pieces, 1);
      raise(counted.cost.message, message.total());
      sent.add(from, pieces, 1);
    }
    link.sent = sent.total();
    counted.links.push_back(link);
  }
}

void find_missed_lends(const Model& model, const Races& races, Counted& counted) {
  for (uint32_t lane = 0; lane < model.all_lanes(); ++lane) {
    const Range steps = model.steps_of(lane);
    const uint32_t rank = lane / model.lanes();
    for (uint32_t step = steps.begin; step < steps.end; ++step) {
      const Step& sends = model.step(rank, step);
      if (sends.kind != StepKind::Send || model.atoms_in(rank, sends.pieces) == 0) continue;
      const Lend provable = races.provable(step);
      if (provable <= sends.lend) continue;
      counted.lends_missed.push_back({static_cast<Rank>(rank), lane % model.lanes(), step - steps.begin, provable});
    }
  }
}

}  // namespace
}  // namespace verifier

Counted count(std::span<const RankPlan> plans, const VerifyOptions& options) {
  using namespace verifier;
  if (const Verdict verdict = verify(plans, options); !verdict) {
    throw_error(Code::InvalidArgument, "{}", verdict.reason);
  }
  const Model model(plans);
  Counted counted;
  RankCount ranks(model, counted);
  for (uint32_t rank = 0; rank < model.ranks(); ++rank) ranks.run(rank);
  count_links(model, counted);
  const uint32_t versions = std::max(options.versions, 1u), rounds = Races::rounds_needed(model, versions);
  Races races(model, versions, rounds, Races::Lends::Supposed);
  Chains chains(model);
  Replay(model, options.capacity, versions, rounds).run([&](const Moment& moment) {
    races.run(moment);
    if (moment.round == 0) chains.run(moment);
  });
  counted.cost.rounds = chains.longest();
  find_missed_lends(model, races, counted);
  return counted;
}

}  // namespace tutti::plan
