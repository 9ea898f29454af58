#include "comm/planner.hpp"

#include <algorithm>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/hash.hpp"
#include "comm/vector_calls.hpp"
#include "topo/constants.hpp"

namespace tutti::comm {
namespace {

constexpr size_t kCached = 1024;                 // programs
constexpr uint32_t kTransferLinkLane = 1 << 16;  // links of sends and receives; collectives number theirs from 0

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

void Planner::look_up(const Call& call, KnownCall& known) {
  const CallSpec& spec = call.spec;
  known = {.spec = spec, .in = call.in, .out = call.out, .generation = memory_.generation()};
  const auto region = [&](const void* data, plan::Buffer buffer) {
    const Rank as = rank_ == spec.root ? 0 : 1;  // all ranks but the root are alike
    return memory_.find(data, plan::blocks(spec.collective, ranks_, buffer, as) * spec.count * size_of(spec.type));
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
  cache_.push_front(make(key));
  index_[key] = cache_.begin();
  if (on_new_program_) on_new_program_(cache_.front());
  if (cache_.size() <= kCached) return;
  for (KnownCall& call : known_calls_) {
    if (call.program == &cache_.back()) call.program = nullptr;
  }
  index_.erase(cache_.back().key);
  cache_.pop_back();
}

/// Bytes of a block that a round moves. All rounds move about as much, since a short last round would be staged while
/// the others are zero-copy. If every message is certain to be read in its sender's memory, staging memory does not
/// limit the window: messages are then fewer and longer.
uint64_t Planner::window_of(const select::Choice& choice, const CallSpec& spec, const exec::DeliveryRules& rules,
                            uint32_t width) const {
  using transports::ReadAccess;
  constexpr uint64_t kGrain = 128;
  const uint64_t block = spec.count * size_of(spec.type);
  const bool read =
      agreed_.reading == ReadAccess::Direct || (agreed_.reading == ReadAccess::Cma && rules.cma_from != link::kNever);
  const bool lent = choice.algorithm->lends && spec.op != Op::PreMulSum && block >= zcopy_from(agreed_);
  const uint64_t staged = std::max(kGrain, choice.window / (agreed_.shares_staging ? width : 1));
  uint64_t most = read && lent ? std::max(choice.window, machine_constants().zcopy_longest) : staged;
  if (width > 1) most = std::min(most, block / width);
  if (block <= most) return most;
  const uint64_t rounds = (block + most - 1) / most;
  return ((block + rounds - 1) / rounds + kGrain - 1) / kGrain * kGrain;
}

/// Threads of this rank that run the call: a short one is done before another thread has woken.
uint32_t Planner::width_of(const select::Choice& choice, const CallSpec& spec) const {
  const uint64_t bytes = spec.count * size_of(spec.type);
  if (width_) return width_(choice, bytes);
  const uint64_t parts = bytes / machine_constants().block_per_thread;
  return static_cast<uint32_t>(std::clamp<uint64_t>(parts, 1, agreed_.threads));
}

/// The algorithm with which the device's copy engines move this call's blocks; null: they do not. A stream has room for
/// some 1,000 items; who enqueues more waits, and with it all ranks that this thread is to call for. So kernels run
/// calls of more rounds.
const plan::Algorithm* Planner::copied(const CallSpec& spec) const {
  constexpr uint64_t kMostItems = 512;
  for (const plan::Algorithm* algorithm : agreed_.copied) {
    if (algorithm->collective != spec.collective) continue;
    const uint64_t bytes = spec.count * size_of(spec.type), window = copied_choice(*algorithm).window;
    const uint64_t rounds = (bytes + window - 1) / window, items = 4 * (static_cast<uint64_t>(ranks_) + 1);
    return rounds * items <= kMostItems ? algorithm : nullptr;
  }
  return nullptr;
}

select::Choice Planner::copied_choice(const plan::Algorithm& algorithm) const {
  constexpr uint64_t kGrain = 512;
  const auto readers = static_cast<uint64_t>(algorithm.cost({algorithm.collective, ranks_, groups_}).stages);
  return {&algorithm, agreed_.copied_round / std::max<uint64_t>(1, readers) / kGrain * kGrain};
}

/// Does the switch between devices fold this call?
bool Planner::switched(const CallSpec& spec) const {
  if (agreed_.switched == nullptr || agreed_.switched->collective != spec.collective) return false;
  return agreed_.folds_in_switch(reduction_of(spec, ranks_, reproducible_));
}

/// Windows as long as all blocks can have, but not too short.
select::Choice Planner::switched_choice(uint64_t bytes) const {
  constexpr uint64_t kGrain = 128;
  const uint64_t share = (bytes / agreed_.threads + kGrain) / kGrain * kGrain;
  const uint64_t least = machine_constants().cuda_multimem_window;
  return {agreed_.switched, std::clamp(share, std::min(least, agreed_.switched_window), agreed_.switched_window)};
}

Prepared Planner::make(const ProgramKey& key) {
  const CallSpec& spec = key.spec;
  const auto element = static_cast<uint32_t>(size_of(spec.type));
  const plan::Algorithm* const by_copies = copied(spec);
  const bool by_switch = switched(spec);
  const select::Choice choice = by_copies != nullptr ? copied_choice(*by_copies)
                                : by_switch          ? switched_choice(spec.count * element)
                                                     : table_.choose(spec.collective, spec.count * element);
  const Rank near = groups_ == nullptr ? ranks_ : groups_->size(groups_->group_of(rank_));
  Prepared prepared{.key = key, .algorithm = choice.algorithm->name};
  exec::DeliveryRules rules = delivery_rules_for(spec, ranks_, agreed_);
  rules.cooperative_from = cooperative_from();
  if (!choice.algorithm->direct_stores) rules.direct_store_from = link::kNever;
  const uint32_t width = by_copies != nullptr ? 1 : by_switch ? agreed_.threads : width_of(choice, spec);
  const uint64_t window = by_switch ? choice.window : window_of(choice, spec, rules, width);
  const exec::Geometry geometry{.count = spec.count,
                                .window = std::max<uint64_t>(1, window / element),
                                .element_bytes = element,
                                .width = width,
                                .root = spec.root,
                                .in_place = key.in_place,
                                .scaled = spec.op == Op::PreMulSum,
                                .shared = {key.shared_in, key.shared_out},
                                .by = by_copies != nullptr ? exec::RunBy::CopyEngines
                                      : by_switch          ? exec::RunBy::Switch
                                                           : exec::RunBy::Lanes,
                                .nontemporal = is_nontemporal(spec, ranks_, near, key.in_place),
                                .rules = rules};
  prepared.salt =
      hash_of(spec).add(std::string_view(choice.algorithm->name)).add(window).add(by_switch ? 1 : 0).value();
  const exec::Reduction reduction = reduction_of(spec, ranks_, reproducible_);
  prepared.execution = executor_.compile(plan_for(*choice.algorithm, spec.root), geometry,
                                         reduces(spec.collective) ? &reduction : nullptr);
  return prepared;
}

/// Ranks cooperate if every rank has a core of its own, also while it waits.
uint64_t Planner::cooperative_from() const {
  return backoff_.spins > 0 ? comm::cooperative_from(agreed_) : link::kNever;
}

const plan::RankPlan& Planner::plan_for(const plan::Algorithm& algorithm, Rank root) {
  const Rank planned = (rank_ - root + ranks_) % ranks_;  // the plan counts ranks from the root
  const auto known = plans_.find({&algorithm, planned});
  if (known != plans_.end()) return known->second;
  plan::Shape shape = shape_from(root, algorithm.collective, groups_);
  // Otherwise a plan does not know its root, which saves the binomial tree a message.
  if (reproducible_ && algorithm.collective == Collective::Reduce) shape.root = root;
  return plans_[{&algorithm, planned}] = plan::generate(algorithm, shape, planned);
}

Prepared& Planner::transfers(const std::vector<NumberedCall>& group) {
  exec::Direct direct{.link_lane = kTransferLinkLane};
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

/// Both ends must split a transfer alike, so the message length depends only on what both know.
Prepared& Planner::prepare(exec::Direct direct, const CallSpec& spec) {
  const uint64_t share =
      agreed_.staging / machine_constants().transfer_staging / link::kSlots / static_cast<uint64_t>(ranks_);
  const uint64_t most = std::min(agreed_.message, share);
  direct.message = std::max<uint64_t>(link::kStride, most / link::kStride * link::kStride);
  direct.rules = delivery_rules_for_transfers(agreed_);
  direct.rules.cooperative_from = cooperative_from();
  const exec::Reduction reduction = reduction_of(spec, ranks_, reproducible_);
  direct_ = {.key = {.spec = spec}, .algorithm = "direct", .salt = hash_of(spec).value()};
  direct_.execution = executor_.compile(direct, reduces(spec.collective) ? &reduction : nullptr);
  if (on_new_program_) on_new_program_(direct_);
  return direct_;
}

}  // namespace tutti::comm
