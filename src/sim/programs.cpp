#include "sim/programs.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

#include "base/format.hpp"
#include "plan/verify.hpp"

namespace tutti::sim {
namespace {

/// The channels of all ranks, numbered.
class Channels {
 public:
  explicit Channels(std::vector<Channel>& all) : all_(all) {}

  uint32_t number(Rank from, Rank to, uint32_t lane) {
    const auto [at, is_new] = numbers_.emplace(std::tuple(from, to, lane), static_cast<uint32_t>(all_.size()));
    if (is_new) all_.push_back({from, to});
    return at->second;
  }

 private:
  std::vector<Channel>& all_;
  std::map<std::tuple<Rank, Rank, uint32_t>, uint32_t> numbers_;
};

/// The parts of the call's buffers that a window's instructions have used so far: a cache holds them.
class Used {
 public:
  /// How many of these bytes were not used before. Bytes elsewhere (scratch, messages): none.
  double add(const exec::Ref& at, uint64_t bytes) {
    if (at.base != exec::Base::Input && at.base != exec::Base::Output) return 0;
    std::map<uint64_t, uint64_t>& parts = parts_[at.base == exec::Base::Input ? 0 : 1];
    uint64_t begin = at.offset, end = at.offset + bytes, known = 0;
    auto next = parts.upper_bound(begin);
    if (next != parts.begin() && std::prev(next)->second >= begin) --next;
    while (next != parts.end() && next->first <= end) {
      const uint64_t from = std::max(next->first, at.offset), to = std::min(next->second, at.offset + bytes);
      known += to > from ? to - from : 0;
      begin = std::min(begin, next->first);
      end = std::max(end, next->second);
      next = parts.erase(next);
    }
    parts.emplace(begin, end);
    return static_cast<double>(bytes - known);
  }

 private:
  std::map<uint64_t, uint64_t> parts_[2];  // of the input, of the output: begin, end
};

/// What an instruction reads from the call's buffers for the first time, and what it writes there.
void count_buffers(const exec::WindowProgram& program, const exec::Instruction& op, Used& used, Work& work) {
  for (uint32_t i = op.segments.begin; i < op.segments.end; ++i) {
    const exec::Segment& segment = program.segments[i];
    for (uint32_t source = 0; source < op.sources; ++source) {
      work.buffer_loads += used.add(program.sources[segment.sources + source], segment.bytes);
    }
    work.buffer_stores += used.add(segment.to, segment.bytes);
  }
  if (op.publishes_first) work.lends_buffer = used.add(op.message, op.bytes) > 0;
}

Work work_of(const exec::WindowProgram& program, const exec::Instruction& op, Used& used) {
  Work work{.bytes = op.bytes, .step = op.step};
  work.after_lane = op.after_lane;
  work.after_op = op.after_op;
  const uint32_t messages = op.arrivals.end - op.arrivals.begin;
  work.local = static_cast<uint16_t>(op.sources - messages);
  work.folds = op.sources > 1;
  work.publishes_first = op.publishes_first;
  work.has_pieces = op.has_pieces;
  work.cooperative = (op.remote & exec::kCooperativeCopy) != 0;
  const bool stores =
      op.segments.begin != op.segments.end && program.segments[op.segments.begin].to.base != exec::Base::None;
  const bool stages = op.outs.begin != op.outs.end && op.slot != exec::Slot::None;
  work.stores = stores;
  count_buffers(program, op, used, work);
  work.writes = static_cast<uint16_t>((stores ? 1 : 0) + (stages ? 1 : 0));
  return work;
}

WindowWork window_of(const exec::WindowProgram& program, const std::vector<uint32_t>& in,
                     const std::vector<uint32_t>& out) {
  WindowWork window{.lanes = program.lanes, .ops = {}, .arrivals = {}, .outs = {}};
  window.ops.reserve(program.ops.size());
  Used used;
  for (const exec::Instruction& op : program.ops) {
    Work work = work_of(program, op, used);
    work.arrivals.begin = static_cast<uint32_t>(window.arrivals.size());
    for (uint32_t i = op.arrivals.begin; i < op.arrivals.end; ++i) window.arrivals.push_back(in[program.arrivals[i]]);
    work.arrivals.end = static_cast<uint32_t>(window.arrivals.size());
    work.outs.begin = static_cast<uint32_t>(window.outs.size());
    for (uint32_t i = op.outs.begin; i < op.outs.end; ++i) {
      window.outs.push_back({out[program.outs[i].link], program.outs[i].delivery});
    }
    work.outs.end = static_cast<uint32_t>(window.outs.size());
    window.ops.push_back(work);
  }
  return window;
}

bool can_be_verified(uint64_t entries, Rank ranks) {
  return entries <= kMaxVerified && entries * static_cast<uint64_t>(ranks) <= kMaxVerifiedClocks;
}

uint64_t entries_of(const plan::RankPlan& plan) {
  return plan.steps.size() + plan.pieces.size() + plan.peers.size() + plan.operands.size();
}

/// Proves them where that takes no more than about a second.
bool verified(const std::vector<plan::RankPlan>& plans) {
  uint64_t entries = 0;
  for (const plan::RankPlan& plan : plans) entries += entries_of(plan);
  if (!can_be_verified(entries, static_cast<Rank>(plans.size()))) return false;
  const plan::Verdict verdict = plan::verify(plans);
  if (verdict.too_large) return false;
  if (!verdict.ok) throw_error(Code::InvalidArgument, "the plan is not valid: {}", verdict.reason);
  return true;
}

exec::PeerTraits traits_of(const Call& call, Rank rank) {
  exec::PeerTraits traits(call.hosts.size());
  for (size_t peer = 0; peer < traits.size(); ++peer) {
    const bool near = call.hosts[peer] == call.hosts[static_cast<size_t>(rank)];
    traits[peer] = {.out = near ? call.near : call.far, .in = near ? call.near : call.far};
  }
  return traits;
}

}  // namespace

Programs compile(const Call& call) {
  Programs all;
  const Rank ranks = call.shape.ranks;
  const auto first = plan::generate(*call.algorithm, call.shape, 0);
  const uint64_t expected = std::max(first.steps.size(), first.peers.size()) * static_cast<uint64_t>(ranks);
  if (expected > kMaxInstructions) {
    throw_error(Code::Unsupported, "{} on {} ranks has some {} steps or messages; at most {} can be simulated",
                call.algorithm->name, ranks, expected, kMaxInstructions);
  }
  if (can_be_verified(entries_of(first) * static_cast<uint64_t>(ranks), ranks))
    all.verified = verified(plan::generate_all(*call.algorithm, call.shape));
  Channels channels(all.channels);
  for (Rank rank = 0; rank < ranks; ++rank) {
    const Rank planned = call.geometry.order.planned(rank, call.geometry.root, ranks);
    const plan::RankPlan plan = planned == 0 ? first : plan::generate(*call.algorithm, call.shape, planned);
    const exec::Program program = exec::lower(plan, call.geometry, traits_of(call, rank));
    std::vector<uint32_t> in, out;
    for (const exec::LinkId& link : program.in_links) in.push_back(channels.number(link.peer, rank, link.link_lane));
    for (const exec::LinkId& link : program.out_links) out.push_back(channels.number(rank, link.peer, link.link_lane));
    all.ranks.push_back({window_of(program.full, in, out), window_of(program.last, in, out), program.fenced});
    all.rounds = program.rounds;
    all.full_ops += program.last.ops.size();
    if (all.full_ops > kMaxInstructions) {
      throw_error(Code::Unsupported, "{} on {} ranks has too many steps; at most {} can be simulated",
                  call.algorithm->name, ranks, kMaxInstructions);
    }
  }
  return all;
}

}  // namespace tutti::sim
