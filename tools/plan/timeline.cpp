#include "tools/plan/timeline.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "base/format.hpp"
#include "plan/words.hpp"

namespace tutti::tools {
namespace {

using plan::kNone;
using plan::Piece;
using plan::RankPlan;
using plan::Step;
using plan::StepKind;

/// The ranks that contributed to a piece of memory.
using Ranks = std::set<Rank>;

struct Parcel {
  int arrive = 0;
  std::vector<Ranks> cells;
};

/// "0+1+3", "0..3" for runs of more than two.
std::string in_words(const Ranks& ranks) {
  std::string text;
  for (auto at = ranks.begin(); at != ranks.end();) {
    auto end = at;
    Rank last = *at;
    while (++end != ranks.end() && *end == last + 1) ++last;
    const bool run = last > *at + 1;
    text += text.empty() ? "" : "+";
    text += run ? fmt::format("{}..{}", *at, last) : fmt::format("{}", *at);
    at = run ? end : std::next(at);
  }
  return text;
}

/// Runs every rank's lanes as early as possible.
class Clockwork {
 public:
  Clockwork(std::span<const RankPlan> plans, Rank root) : plans_(plans), root_(root), ranks_(plans.size()) {
    uint64_t cells = 1;
    for (const RankPlan& plan : plans) {
      for (const plan::Partition& p : plan.partitions) {
        even_ = even_ && p.bounds == kNone;
        cells = std::min<uint64_t>(std::lcm(cells, uint64_t{p.parts}), kMaxCells + 1);
      }
    }
    even_ = even_ && cells <= kMaxCells && reduces(plans.front().shape.collective);
    cells_ = static_cast<uint32_t>(cells);
    for (size_t r = 0; r < plans.size(); ++r) {
      ranks_[r].done.assign(plans[r].steps.size(), -1);
      ranks_[r].lanes.resize(plans[r].lanes.size());
      for (size_t l = 0; l < plans[r].lanes.size(); ++l) ranks_[r].lanes[l] = {plans[r].lanes[l].steps.begin, 0};
    }
  }

  std::vector<Flight> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t r = 0; r < plans_.size(); ++r) {
        for (size_t lane = 0; lane < ranks_[r].lanes.size(); ++lane) {
          while (step(r, lane)) moved = true;
        }
      }
    }
    std::stable_sort(flights_.begin(), flights_.end(),
                     [](const Flight& a, const Flight& b) { return a.depart < b.depart; });
    return std::move(flights_);
  }

 private:
  static constexpr uint32_t kMaxCells = 4096;
  struct LaneState {
    uint32_t next = 0;
    int time = 0;
  };
  struct RankState {
    std::vector<int> done;  // by step: its time
    std::vector<LaneState> lanes;
    std::map<std::tuple<int, uint32_t, uint32_t>, Ranks> memory;  // by buffer, block and cell
  };

  /// Runs the lane's next step if possible; false if not.
  bool step(size_t r, size_t lane_number) {
    const RankPlan& plan = plans_[r];
    LaneState& lane = ranks_[r].lanes[lane_number];
    if (lane.next == plan.lanes[lane_number].steps.end) return false;
    const Step& step = plan.steps[lane.next];
    int time = lane.time;
    if (step.after != kNone) {
      if (ranks_[r].done[step.after] < 0) return false;
      time = std::max(time, ranks_[r].done[step.after]);
    }
    std::vector<std::deque<Parcel>*> queues;
    const auto await = [&](Rank peer) { queues.push_back(&parcels_[{peer, plan.rank, lane_number}]); };
    if (step.kind == StepKind::Recv) await(plan.peers[step.peers.begin]);
    for (uint32_t o = step.operands.begin; o < step.operands.end; ++o) {
      if (plan.operands[o].peer != kNoRank) await(plan.operands[o].peer);
    }
    for (const auto* queue : queues) {
      if (queue->empty()) return false;
      time = std::max(time, queue->front().arrive);
    }
    perform(r, lane_number, step, time, queues);
    lane.time = ranks_[r].done[lane.next] = time;
    ++lane.next;
    return true;
  }

  void perform(size_t r, size_t lane, const Step& step, int time, const std::vector<std::deque<Parcel>*>& queues) {
    const RankPlan& plan = plans_[r];
    if (step.kind == StepKind::Send) return send(r, lane, step, time);
    std::vector<Ranks> result;
    const auto join = [&](const std::vector<Ranks>& cells) {
      result.resize(std::max(result.size(), cells.size()));
      for (size_t i = 0; i < cells.size(); ++i) result[i].insert(cells[i].begin(), cells[i].end());
    };
    for (uint32_t o = step.operands.begin; o < step.operands.end; ++o) {
      if (plan.operands[o].peer == kNoRank) join(read(r, plan.operands[o].pieces));
    }
    for (std::deque<Parcel>* queue : queues) {
      join(queue->front().cells);
      queue->pop_front();
    }
    if (!even_) return;
    size_t at = 0;
    each_cell(r, step.pieces, [&](const auto& place) { ranks_[r].memory[place] = result[at++]; });
  }

  void send(size_t r, size_t lane, const Step& step, int time) {
    const RankPlan& plan = plans_[r];
    const std::vector<Ranks> cells = even_ ? read(r, step.pieces) : std::vector<Ranks>{};
    std::string what = in_words(as_named(r), step.pieces);
    const bool alike = std::adjacent_find(cells.begin(), cells.end(), std::not_equal_to<>()) == cells.end();
    if (!cells.empty() && alike) what = in_words(as_named(cells.front())) + ": " + what;
    for (uint32_t p = step.peers.begin; p < step.peers.end; ++p) {
      const Rank to = plan.peers[p];
      parcels_[{plan.rank, to, lane}].push_back({time + 1, cells});
      flights_.push_back({actual(plan.rank), actual(to), static_cast<uint32_t>(lane), time, time + 1, what});
    }
  }

  /// The actual rank of one counted from the root.
  Rank actual(Rank planned) const {
    return static_cast<Rank>((int64_t{planned} + root_) % static_cast<int64_t>(plans_.size()));
  }

  Ranks as_named(const Ranks& planned) const {
    Ranks ranks;
    for (const Rank rank : planned) ranks.insert(actual(rank));
    return ranks;
  }

  /// A rank's plan with its blocks numbered by the actual ranks.
  const RankPlan& as_named(size_t r) {
    if (root_ == 0) return plans_[r];
    if (named_.empty()) named_.assign(plans_.begin(), plans_.end());
    RankPlan& plan = named_[r];
    if (plan.pieces != plans_[r].pieces) return plan;  // done before
    for (Piece& piece : plan.pieces) {
      const bool by_rank = piece.buffer != plan::Buffer::Scratch && blocks(plan.shape, piece.buffer, plan.rank) > 1;
      if (by_rank) piece.block = static_cast<uint32_t>(actual(static_cast<Rank>(piece.block)));
    }
    return plan;
  }

  template <class Visit>
  void each_cell(size_t r, plan::Range pieces, Visit&& visit) const {
    for (uint32_t p = pieces.begin; p < pieces.end; ++p) {
      const Piece& piece = plans_[r].pieces[p];
      const uint32_t each = cells_ / plans_[r].partitions[piece.partition].parts;
      for (uint32_t cell = piece.first * each; cell < piece.last * each; ++cell) {
        visit(std::tuple(static_cast<int>(piece.buffer), piece.block, cell));
      }
    }
  }

  std::vector<Ranks> read(size_t r, plan::Range pieces) {
    std::vector<Ranks> cells;
    if (!even_) return cells;
    each_cell(r, pieces, [&](const auto& place) {
      const bool input = std::get<0>(place) == static_cast<int>(plan::Buffer::Input);
      cells.push_back(input ? Ranks{plans_[r].rank} : ranks_[r].memory[place]);
    });
    return cells;
  }

  std::span<const RankPlan> plans_;
  const Rank root_;
  std::vector<RankPlan> named_;  // empty until used
  std::vector<RankState> ranks_;
  std::map<std::tuple<Rank, Rank, size_t>, std::deque<Parcel>> parcels_;
  std::vector<Flight> flights_;
  bool even_ = true;  // contributors can be tracked
  uint32_t cells_ = 1;
};

}  // namespace

std::vector<Flight> timeline(std::span<const plan::RankPlan> plans, Rank root) { return Clockwork(plans, root).run(); }

}  // namespace tutti::tools
