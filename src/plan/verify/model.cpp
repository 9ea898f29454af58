#include "plan/verify/model.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "plan/scratch.hpp"
#include "plan/verify/reject.hpp"
#include "plan/verify/structure.hpp"

namespace tutti::plan::verifier {
namespace {

bool less(Fraction a, Fraction b) {
  return static_cast<uint64_t>(a.num) * b.den < static_cast<uint64_t>(b.num) * a.den;
}
bool equal(Fraction a, Fraction b) { return !less(a, b) && !less(b, a); }

Fraction reduced(Fraction f) {
  const uint32_t common = std::gcd(f.num, f.den);
  return {f.num / common, f.den / common};
}

/// The identity of a partition: the number of equal parts, or the fractions.
using PartitionKey = std::pair<uint32_t, std::vector<std::pair<uint32_t, uint32_t>>>;

PartitionKey key_of(const RankPlan& plan, uint32_t index) {
  const Partition& p = plan.partitions[index];
  PartitionKey key{p.parts, {}};
  if (p.bounds == kNone) return key;
  for (uint32_t i = 0; i <= p.parts; ++i) {
    const Fraction f = reduced(boundary(plan, index, i));
    key.second.emplace_back(f.num, f.den);
  }
  return key;
}

Alias alias_of(const Shape& shape, uint32_t rank) {
  switch (shape.collective) {
    case Collective::AllReduce:
      return {0, 0};
    case Collective::Reduce:
    case Collective::Broadcast:
      return rank == 0 ? Alias{0, 0} : Alias{};
    case Collective::AllGather:
      return {rank, 0};
    case Collective::Gather:
      return rank == 0 ? Alias{0, 0} : Alias{};
    case Collective::ReduceScatter:
      return {0, rank};
    case Collective::Scatter:
      return rank == 0 ? Alias{0, 0} : Alias{};
    case Collective::AllToAll:
    case Collective::SendRecv:
    case Collective::Barrier:
      return {};
  }
  return {};
}

}  // namespace

Model::Model(std::span<const RankPlan> plans) : plans_(plans) {
  lanes_ = static_cast<uint32_t>(plans.front().lanes.size());
  for (const RankPlan& plan : plans) fenced_.push_back(shares_scratch(plan));
  number_steps();
  number_atoms();
  number_locations();
  match_messages();
}

void Model::number_steps() {
  first_step_.push_back(0);
  for (const RankPlan& plan : plans_) {
    first_step_.push_back(first_step_.back() + static_cast<uint32_t>(plan.steps.size()));
  }
}

uint32_t Model::rank_of(uint32_t step) const {
  const auto after = std::upper_bound(first_step_.begin(), first_step_.end(), step);
  return static_cast<uint32_t>(after - first_step_.begin() - 1);
}

uint32_t Model::lane_of(uint32_t step) const {
  const uint32_t rank = rank_of(step), index = step - first_step_[rank];
  const auto& lanes = plans_[rank].lanes;
  const auto after =
      std::partition_point(lanes.begin(), lanes.end(), [index](const Lane& lane) { return lane.steps.end <= index; });
  return rank * lanes_ + static_cast<uint32_t>(after - lanes.begin());
}

void Model::number_atoms() {
  std::map<PartitionKey, uint32_t> known;
  std::vector<std::pair<uint32_t, uint32_t>> distinct;  // a rank and its partition
  first_cut_.resize(plans_.size());
  uint32_t cuts = 0;
  for (uint32_t rank = 0; rank < ranks(); ++rank) {
    for (uint32_t i = 0; i < plans_[rank].partitions.size(); ++i) {
      const auto [found, is_new] = known.emplace(key_of(plans_[rank], i), cuts);
      first_cut_[rank].push_back(found->second);
      if (!is_new) continue;
      distinct.emplace_back(rank, i);
      cuts += plans_[rank].partitions[i].parts + 1;
      if (cuts > kMaxCuts) too_large("over {} chunks in the partitions", kMaxCuts);
    }
  }
  bounds_ = {{0, 1}, {1, 1}};
  for (const auto& [rank, i] : distinct) {
    for (uint32_t b = 0; b <= plans_[rank].partitions[i].parts; ++b) bounds_.push_back(boundary(plans_[rank], i, b));
  }
  std::sort(bounds_.begin(), bounds_.end(), less);
  bounds_.erase(std::unique(bounds_.begin(), bounds_.end(), equal), bounds_.end());
  for (Fraction& f : bounds_) f = reduced(f);
  cuts_.reserve(cuts);
  for (const auto& [rank, i] : distinct) {
    for (uint32_t b = 0; b <= plans_[rank].partitions[i].parts; ++b) {
      const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), boundary(plans_[rank], i, b), less);
      cuts_.push_back(static_cast<uint32_t>(at - bounds_.begin()));
    }
  }
}

void Model::number_locations() {
  uint64_t next = 0;
  for (uint32_t rank = 0; rank < ranks(); ++rank) {
    for (const Buffer buffer : {Buffer::Input, Buffer::Output, Buffer::Scratch}) {
      first_location_.push_back(static_cast<uint32_t>(next));
      const uint64_t count =
          buffer == Buffer::Scratch ? plans_[rank].scratch_blocks : blocks(shape(), buffer, static_cast<Rank>(rank));
      next += count * atoms();
      if (next > kMaxLocations) {
        too_large("over {} chunks of memory on all ranks together", kMaxLocations);
      }
    }
    alias_.push_back(alias_of(shape(), rank));
    has_alias_ = has_alias_ || alias_.back().output != kNone;
  }
  first_location_.push_back(static_cast<uint32_t>(next));
  locations_ = static_cast<uint32_t>(next);
}

uint32_t Model::location(uint32_t rank, Buffer buffer, uint32_t block, bool in_place) const {
  if (in_place && buffer == Buffer::Output && block == alias_[rank].output) {
    buffer = Buffer::Input;
    block = alias_[rank].input;
  }
  return first_location_[rank * kBuffers + static_cast<uint32_t>(buffer)] + block * atoms();
}

Run Model::run_of(uint32_t rank, const Piece& piece, bool in_place) const {
  const uint32_t* cuts = &cuts_[first_cut_[rank][piece.partition]];
  const uint32_t first = cuts[piece.first], last = cuts[piece.last];
  return {location(rank, piece.buffer, piece.block, in_place) + first, first, last - first};
}

uint64_t Model::atoms_in(uint32_t rank, Range range) const {
  uint64_t sum = 0;
  for (const Piece& piece : pieces(rank, range)) sum += run_of(rank, piece, false).count;
  return sum;
}

bool Model::copies_to_itself(uint32_t rank, const Step& step, bool in_place) const {
  if (step.kind != StepKind::Copy) return false;
  const auto to = pieces(rank, step.pieces), from = pieces(rank, plans_[rank].operands[step.operands.begin].pieces);
  return std::equal(to.begin(), to.end(), from.begin(), from.end(), [&](const Piece& a, const Piece& b) {
    const Run x = run_of(rank, a, in_place), y = run_of(rank, b, in_place);
    return x.location == y.location && x.count == y.count;
  });
}

std::vector<Model::Entry> Model::ends(bool sending) {
  auto& first = sending ? first_sent_ : first_received_;
  std::vector<Entry> all;
  first.reserve(steps() + 1);
  for (uint32_t rank = 0; rank < ranks(); ++rank) {
    const RankPlan& plan = plans_[rank];
    for (uint32_t lane = 0; lane < lanes_; ++lane) {
      for (uint32_t i = plan.lanes[lane].steps.begin; i < plan.lanes[lane].steps.end; ++i) {
        const Step& step = plan.steps[i];
        const uint32_t number = first_step_[rank] + i;
        first.push_back(static_cast<uint32_t>(all.size()));
        const auto add = [&](Rank peer) {
          const auto other = static_cast<uint32_t>(peer);
          const auto slot = static_cast<uint32_t>(all.size());
          all.push_back({sending ? key(rank, lane, other) : key(other, lane, rank), number, slot});
        };
        if (sending && step.kind == StepKind::Send && atoms_in(rank, step.pieces) == 0) has_empty_messages_ = true;
        if (sending == (step.kind == StepKind::Send)) {
          for (uint32_t p = step.peers.begin; p < step.peers.end; ++p) add(plan.peers[p]);
        }
        for (uint32_t o = step.operands.begin; !sending && o < step.operands.end; ++o) {
          if (plan.operands[o].peer != kNoRank) add(plan.operands[o].peer);
        }
      }
    }
  }
  first.push_back(static_cast<uint32_t>(all.size()));
  std::stable_sort(all.begin(), all.end(), [](const Entry& a, const Entry& b) { return a.key < b.key; });
  return all;
}

void Model::match_messages() {
  const std::vector<Entry> sends = ends(true), receives = ends(false);
  const size_t common = std::min(sends.size(), receives.size());
  sent_.resize(sends.size());
  received_.resize(receives.size());
  messages_.reserve(common);
  for (size_t i = 0; i < std::max(sends.size(), receives.size()); ++i) {
    if (i >= common || sends[i].key != receives[i].key) reject_unmatched(sends, receives, i);
    if (i == 0 || sends[i].key != sends[i - 1].key) ++links_;
    sent_[sends[i].slot] = received_[receives[i].slot] = static_cast<uint32_t>(i);
    messages_.push_back({sends[i].step, receives[i].step, static_cast<uint32_t>(sends[i].key / ranks()), links_ - 1});
  }
}

void Model::reject_unmatched(const std::vector<Entry>& sends, const std::vector<Entry>& receives, size_t at) const {
  // All ends before `at` match, so the smaller key belongs to a link with more ends on this side than on the other.
  const bool too_many_sends = at < sends.size() && (at >= receives.size() || sends[at].key < receives[at].key);
  const Entry& extra = too_many_sends ? sends[at] : receives[at];
  const uint64_t to = extra.key % ranks(), lane = extra.key / ranks() % lanes_, from = extra.key / ranks() / lanes_;
  size_t earlier = 0;
  for (size_t i = at; i > 0 && sends[i - 1].key == extra.key; --i) ++earlier;
  if (too_many_sends) {
    reject("{}: nobody receives this message: rank {} takes only {} from rank {} in lane {}", words(*this, extra.step),
           to, earlier, from, lane);
  }
  reject("{}: the message wanted is never sent: rank {} sends only {} to rank {} in lane {}", words(*this, extra.step),
         from, earlier, to, lane);
}

}  // namespace tutti::plan::verifier
