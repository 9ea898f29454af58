#include "comm/planner.hpp"

#include <algorithm>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/hash.hpp"
#include "comm/vector_calls.hpp"
#include "select/deliveries.hpp"

namespace tutti::comm {
namespace {

constexpr size_t kCached = 1024;  // programs

Hash hash_of(const CallSpec& spec) {
  Hash hash;
  hash.add(static_cast<uint64_t>(spec.collective)).add(static_cast<uint64_t>(spec.type));
  return hash.add(static_cast<uint64_t>(spec.op))
      .add(spec.count)
      .add(static_cast<uint64_t>(spec.root))
      .add(spec.is_vector ? 1 : 0);
}

/// Equal at both ends for a block of this length, so a block of another length shows in its first message.
uint64_t tag_of_block(uint64_t bytes) { return mix(bytes + 1) & link::kTagMask; }

exec::Reduction reduction_of(const CallSpec& spec, Rank ranks, bool round_each) {
  return {.type = spec.type,
          .op = spec.op,
          .divide_by = spec.op == Op::Avg ? static_cast<uint32_t>(ranks) : 0,
          .round_each = round_each};
}

/// Equal at both ends of a transfer.
uint64_t tag_of(const CallSpec& spec, uint64_t number) {
  Hash hash;
  hash.add(static_cast<uint64_t>(spec.type)).add(spec.count).add(number);
  return hash.value() & link::kTagMask;
}

}  // namespace

bool is_in_place(const Call& call, Rank rank) {
  if (call.in == nullptr || call.out == nullptr) return false;
  const uint64_t block = call.spec.count * size_of(call.spec.type);
  const auto in = reinterpret_cast<uintptr_t>(call.in), out = reinterpret_cast<uintptr_t>(call.out);
  const uint64_t mine = static_cast<uint64_t>(rank) * block;
  switch (call.spec.collective) {
    case Collective::AllGather:
    case Collective::Gather:
      return in == out + mine;
    case Collective::ReduceScatter:
    case Collective::Scatter:
      return out == in + mine;
    default:
      return in == out;
  }
}

const KnownCall& Planner::find(const Call& call) {
  KnownCall& known = known_calls_[slot_of(call)];
  if (!known.is(call) || known.generation != memory_.generation()) look_up(call, known);
  if (known.entry != cache_.begin()) cache_.splice(cache_.begin(), cache_, known.entry);
  last_ = &known;
  return known;
}

uint64_t Planner::buffer_bytes(const CallSpec& spec, plan::Buffer buffer) const {
  const Rank as = rank_ == spec.root ? 0 : 1;  // all ranks but the root are alike
  return plan::blocks(spec.collective, ranks_, buffer, as) * spec.count * size_of(spec.type);
}

void Planner::look_up(const Call& call, KnownCall& known) {
  const CallSpec& spec = call.spec;
  known = {.spec = spec, .in = call.in, .out = call.out, .generation = memory_.generation()};
  const auto region = [&](const void* data, plan::Buffer buffer) {
    return memory_.find(data, buffer_bytes(spec, buffer));
  };
  known.in_region = region(call.in, plan::Buffer::Input);
  known.out_region = region(call.out, plan::Buffer::Output);
  bring_to_front({spec, is_in_place(call, rank_), known.in_region.id != 0, known.out_region.id != 0});
  known.entry = cache_.begin();
  known.program = &cache_.front();
}

size_t Planner::ProgramKeyHash::operator()(const ProgramKey& key) const {
  const uint64_t flags = (key.in_place ? 1U : 0U) | (key.shared_in ? 2U : 0U) | (key.shared_out ? 4U : 0U);
  return hash_of(key.spec).add(flags).value();
}

void Planner::bring_to_front(const ProgramKey& key) {
  const auto known = index_.find(key);
  if (known != index_.end()) return cache_.splice(cache_.begin(), cache_, known->second);
  cache_.push_front(make_with_room(key));
  index_[key] = cache_.begin();
  if (on_new_program_) on_new_program_(cache_.front());
  if (cache_.size() > kCached) forget_oldest();
}

/// A backend's memory for programs is bounded: then those that were used longest ago make room.
Prepared Planner::make_with_room(const ProgramKey& key) {
  for (;;) {
    try {
      return make(key);
    } catch (const Error& error) {
      if (error.code() != Code::OutOfMemory || cache_.empty()) throw;
    }
    for (size_t some = cache_.size() / 2 + 1; some > 0; --some) forget_oldest();
  }
}

void Planner::forget_oldest() {
  for (KnownCall& call : known_calls_) {
    if (call.program == &cache_.back()) call.program = nullptr;
  }
  index_.erase(cache_.back().key);
  cache_.pop_back();
}

Prepared Planner::make(const ProgramKey& key) {
  const CallSpec& spec = key.spec;
  const auto element = static_cast<uint32_t>(size_of(spec.type));
  const uint64_t block = spec.count * element;
  const Rank near = groups_ == nullptr ? ranks_ : groups_->size(groups_->group_of(rank_));
  Prepared prepared{.key = key, .row = table_.row(spec.collective, block, {spec.type, spec.op})};
  const select::Row& row = prepared.row;
  prepared.algorithm = row.algorithm->name;
  const uint64_t window = select::window_for(row, block);
  const exec::Geometry geometry{
      .count = spec.count,
      .window = std::max<uint64_t>(1, window / element),
      .element_bytes = element,
      .width = row.width,
      .root = spec.root,
      .order = table_.order_of(spec.collective),
      .in_place = key.in_place,
      .scaled = spec.op == Op::PreMulSum,
      .shared = {key.shared_in, key.shared_out},
      .method = row.method,
      .nontemporal = select::is_nontemporal(spec.collective, block, ranks_, near, key.in_place),
      .rules = row.deliveries};
  prepared.salt = hash_of(spec)
                      .add(std::string_view(prepared.algorithm))
                      .add(std::string_view(row.method->name))
                      .add(window)
                      .value();
  const exec::Reduction reduction = reduction_of(spec, ranks_, reproducible_);
  prepared.execution =
      backend_.compile(plan_for(*row.algorithm, spec.root), geometry, reduces(spec.collective) ? &reduction : nullptr);
  set_total(prepared);
  return prepared;
}

void Planner::set_total(Prepared& prepared) const {
  const CallSpec& spec = prepared.key.spec;
  if (totals_ != nullptr) prepared.total = &totals_->of(spec);
  prepared.bytes = spec.is_vector ? 0 : spec.count * size_of(spec.type);
}

const plan::RankPlan& Planner::plan_for(const plan::Algorithm& algorithm, Rank root) {
  const plan::RankOrder& order = table_.order_of(algorithm.collective);
  const Rank planned = order.planned(rank_, root, ranks_);
  const auto known = plans_.find({&algorithm, planned});
  if (known != plans_.end()) return known->second;
  plan::Shape shape{algorithm.collective, ranks_, order.seen(table_.groups(), root)};
  // Otherwise a plan does not know its root, which saves the binomial tree a message.
  if (reproducible_ && algorithm.collective == Collective::Reduce) shape.root = root;
  return plans_[{&algorithm, planned}] = plan::generate(algorithm, shape, planned);
}

Prepared& Planner::transfers(const std::vector<NumberedCall>& group) {
  exec::Direct direct{.link_lane = link::kTransferLinkLane};
  for (const auto& [call, number] : group) {
    const CallSpec& spec = call.spec;
    void* data = spec.sends ? const_cast<void*>(call.in) : call.out;
    direct.transfers.push_back({{spec.root},
                                spec.sends,
                                static_cast<unsigned char*>(data),
                                spec.count * size_of(spec.type),
                                tag_of(spec, number)});
  }
  return prepare(std::move(direct), group.front().call.spec);
}

Prepared& Planner::vector(const Call& call) {
  const bool folds = reduces(call.spec.collective);
  const Blocks &in = call.blocks->in, &out = call.blocks->out;
  const uint64_t element = size_of(call.spec.type);
  exec::Direct direct{.scaled = call.spec.op == Op::PreMulSum,
                      .link_lane = 0};  // like the first lane of other collectives
  const auto part = [&](const void* data, const Blocks& blocks, Rank r) {
    const auto i = static_cast<size_t>(r);
    auto* const bytes = static_cast<unsigned char*>(const_cast<void*>(data));
    return std::pair(bytes + blocks.offsets[i] * element, blocks.counts[i] * element);
  };
  std::vector<Rank> same;  // receivers of the same bytes: one publication serves all
  for (Rank i = 1; i < ranks_; ++i) {
    const Rank to = (rank_ + i) % ranks_, from = (rank_ - i + ranks_) % ranks_;
    if (sends_block(call.spec, rank_, to)) {
      const auto [data, bytes] = part(call.in, in, to);
      if (call.spec.collective == Collective::AllGather) {
        same.push_back(to);
      } else {
        direct.transfers.push_back({{to}, true, data, bytes, tag_of_block(bytes)});
      }
    }
    if (folds || !sends_block(call.spec, from, rank_)) continue;
    const auto [data, bytes] = part(call.out, out, from);
    direct.transfers.push_back({{from}, false, data, bytes, tag_of_block(bytes)});
  }
  const auto [mine, mine_bytes] = part(call.in, in, rank_);
  const auto [to, to_bytes] = part(call.out, out, rank_);
  if (!same.empty()) direct.transfers.push_back({std::move(same), true, mine, mine_bytes, tag_of_block(mine_bytes)});
  if (folds) direct.folds.push_back({mine, to, to_bytes, tag_of_block(to_bytes)});
  return prepare(std::move(direct), call.spec);
}

Prepared& Planner::prepare(exec::Direct direct, const CallSpec& spec) {
  direct_ = {.key = {.spec = spec}, .row = table_.direct(), .algorithm = "direct", .salt = hash_of(spec).value()};
  direct.message = direct_.row.window;
  direct.rules = direct_.row.deliveries;
  const exec::Reduction reduction = reduction_of(spec, ranks_, reproducible_);
  direct_.execution = backend_.compile(direct, reduces(spec.collective) ? &reduction : nullptr);
  set_total(direct_);
  if (on_new_program_) on_new_program_(direct_);
  return direct_;
}

}  // namespace tutti::comm
