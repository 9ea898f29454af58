#include <algorithm>
#include <array>
#include <set>

#include "exec/execution.hpp"
#include "exec/method.hpp"
#include "topo/constants.hpp"

namespace tutti::exec {
namespace {

using plan::Buffer;
using plan::RankPlan;
using plan::Step;
using plan::StepKind;

constexpr const char* kCuda = "cuda";
constexpr double kLl = 2, kLl128 = 16.0 / 15;  // bytes that travel for a byte of a message

/// Blocks take so long for a byte of a message, from its writer's memory to its reader's, and no less than the link.
void bound_by_blocks(Prices& prices, double of_one, uint32_t width) {
  const double beta = of_one / width;
  prices.inside.beta = std::max(prices.inside.beta, beta);
  prices.between.beta = std::max(prices.between.beta, beta);
}

/// A call is a kernel, of which messages are a part.
void price_kernel(Prices& prices) { prices.call = machine_constants().cuda_call; }

/// A byte is loaded twice: by its writer, which stores it in a slot, and there by its reader. Each round ends with a
/// descriptor and a fence.
void price_slots(plan::Cost&, Prices& prices, Rank, uint32_t width) {
  price_kernel(prices);
  bound_by_blocks(prices, 2 * machine_constants().cuda_block_local, width);
  prices.inside.alpha += machine_constants().cuda_fence;
  prices.between.alpha += machine_constants().cuda_fence;
}

/// A byte is loaded by its writer, which stages it (unless it can be read in place), and by its reader from there. The
/// first bytes of a message travel when its descriptor has come and they are asked for.
void price_get(plan::Cost&, Prices& prices, Rank, uint32_t width) {
  price_kernel(prices);
  bound_by_blocks(prices, machine_constants().cuda_block_local + machine_constants().cuda_block_peer, width);
  prices.inside.alpha += prices.inside.alpha + machine_constants().cuda_fence;
}

/// One block writes and reads lines of 16 bytes, of which a thread has one in flight where it sends or copies; other
/// loops, and folds of lines, have four.
void price_lines(Prices& prices, double bytes) {
  price_kernel(prices);
  bound_by_blocks(prices, 4 * machine_constants().cuda_block_local, 1);
  prices.inside.beta *= bytes;
  prices.between.beta *= bytes;
}

/// A stream waits, copies and writes words: of a round, two items for each peer to send and two to receive.
void price_copies(plan::Cost& cost, Prices& prices, Rank ranks, uint32_t) {
  const double items = 4.0 * ranks;
  prices.inside.alpha = items * machine_constants().cuda_copy_item;
  prices.inside.message = 0;  // among the items
  cost.stages = cost.rounds;
}

/// Of a buffer of S bytes, a GPU's links carry (1 + 1/n) · S in each direction: out, S that the switch reads to fold
/// and S/n that this GPU stores; in, S/n that the switch has folded and S that it multicasts. The switch folds.
void price_nvls(plan::Cost& cost, Prices& prices, Rank ranks, uint32_t width) {
  price_kernel(prices);
  bound_by_blocks(prices, machine_constants().cuda_block_peer, width);
  prices.gamma = 0;
  prices.inside.alpha += machine_constants().cuda_fence;
  cost.sent = cost.received = plan::Ratio(ranks + 1, ranks);
  cost.stages = cost.rounds;
}

/// The peers of a step, each as often as the step names it.
std::multiset<Rank> peers_of(const RankPlan& plan, plan::Range range) {
  return {plan.peers.begin() + range.begin, plan.peers.begin() + range.end};
}

bool only_from(const RankPlan& plan, plan::Range pieces, Buffer buffer) {
  return std::all_of(plan.pieces.begin() + pieces.begin, plan.pieces.begin() + pieces.end,
                     [buffer](const plan::Piece& piece) { return piece.buffer == buffer; });
}

/// True if each rank but this one is among `peers` once.
bool each_other_once(const RankPlan& plan, const std::multiset<Rank>& peers) {
  const std::set<Rank> different(peers.begin(), peers.end());
  return peers.size() == different.size() && different.size() + 1 == static_cast<size_t>(plan.shape.ranks) &&
         !different.contains(plan.rank);
}

/// One message from each rank to each other, all of them sent before any is received, and none folded. A reader must
/// know where in the writer's staging memory its message is: all read the same, or each has a part of its own. That
/// follows from what all ranks know: whether the input has blocks for them.
std::string why_not_copies(const RankPlan& plan) {
  if (plan.shape.ranks < 2) return "there is nobody to copy from";
  const auto folds = [](const Step& step) { return step.kind == StepKind::Reduce; };
  if (std::any_of(plan.steps.begin(), plan.steps.end(), folds)) return "it folds, which copy engines cannot";
  if (plan.lanes.size() != 1 || plan.scratch_blocks > 0) return "it has several lanes or needs scratch memory";
  const auto others = static_cast<size_t>(plan.shape.ranks - 1);
  const bool has_blocks = others > 1 && plan::blocks(plan.shape, Buffer::Input, plan.rank) > 1;
  bool divided = false;  // in another way than readers think
  std::multiset<Rank> readers, writers;
  for (const Step& step : plan.steps) {
    const std::multiset<Rank> peers = peers_of(plan, step.peers);
    if (step.kind == StepKind::Recv) writers.insert(peers.begin(), peers.end());
    if (step.kind != StepKind::Send) continue;
    if (!writers.empty()) return "it sends on what it has received";
    if (peers.size() != 1 && peers.size() != others) return "a message goes to some of the ranks";
    divided = divided || (has_blocks ? peers.size() > 1 : peers.size() < others);
    readers.insert(peers.begin(), peers.end());
  }
  if (!each_other_once(plan, readers) || !each_other_once(plan, writers)) {
    return "not every rank sends one message to every other";
  }
  return !divided     ? ""
         : has_blocks ? "a message goes to all readers, though each has a block of its own"
                      : "each reader is sent a message of its own, though all are sent the same";
}

/// In two rounds, every rank folds a chunk of the inputs of all, and sends it to all.
std::string why_not_nvls(const RankPlan& plan) {
  if (plan.shape.ranks < 2) return "there is nobody to fold with";
  if (plan.lanes.size() != 1 || plan.scratch_blocks > 0) return "it has several lanes or needs scratch memory";
  std::multiset<Rank> owners, folded, readers, senders;
  for (const Step& step : plan.steps) {
    const std::multiset<Rank> peers = peers_of(plan, step.peers);
    switch (step.kind) {
      case StepKind::Copy:
        return "it copies, where a switch folds";
      case StepKind::Send:
        if (folded.empty() && !only_from(plan, step.pieces, Buffer::Input)) return "it sends what is not input";
        (folded.empty() ? owners : readers).insert(peers.begin(), peers.end());
        break;
      case StepKind::Recv:
        senders.insert(peers.begin(), peers.end());
        break;
      case StepKind::Reduce:
        if (!folded.empty() || !step.completes) return "it folds in several steps";
        for (uint32_t o = step.operands.begin; o < step.operands.end; ++o) {
          if (plan.operands[o].peer != kNoRank) folded.insert(plan.operands[o].peer);
        }
        break;
    }
  }
  for (const auto* peers : {&owners, &folded, &readers, &senders}) {
    if (!each_other_once(plan, *peers)) return "not everyone folds a part and sends it to everyone";
  }
  return "";
}

/// Bits of any type; integers of 4 and 8 bytes; sums of floats of at least 2 bytes, which are rounded once. (Minimum
/// and maximum of floats: switches do not keep a NaN, as all else here does.)
bool folds_in_switch(const Reduction& how) {
  const size_t bytes = size_of(how.type);
  switch (how.op) {
    case Op::BitAnd:
    case Op::BitOr:
    case Op::BitXor:
      return true;
    case Op::Sum:
      return is_float(how.type) ? bytes >= 2 && !how.round_each : bytes >= 4;
    case Op::Min:
    case Op::Max:
      return !is_float(how.type) && bytes >= 4;
    default:
      return false;
  }
}

}  // namespace

namespace methods {

const Method lanes{.name = "lanes", .backend = kHost};
const Method slots{.name = "slots", .backend = kCuda, .price = price_slots};
const Method get{.name = "get", .backend = kCuda, .price = price_get, .reads_in_place = true};
const Method ll{.name = "ll",
                .backend = kCuda,
                .price = [](plan::Cost&, Prices& prices, Rank, uint32_t) { price_lines(prices, kLl); },
                .wide = false};
const Method ll128{.name = "ll128",
                   .backend = kCuda,
                   .price =
                       [](plan::Cost&, Prices& prices, Rank, uint32_t) {
                         price_lines(prices, kLl128);
                         prices.inside.alpha += machine_constants().cuda_ll128_round;
                         prices.between.alpha += machine_constants().cuda_ll128_round;
                       },
                   .wide = false};
const Method copy_engine{
    .name = "copy_engine",
    .backend = kCuda,
    .accepts = why_not_copies,
    .price = price_copies,
    .wide = false,
    .only_modelled = true,
    .counted_apart = true,
    .delivery = "the copy engines of the GPUs move such blocks, so that no multiprocessor is used"};
const Method nvls{.name = "nvls",
                  .backend = kCuda,
                  .accepts = why_not_nvls,
                  .supports = folds_in_switch,
                  .price = price_nvls,
                  .only_modelled = true,
                  .delivery = "the switch between the GPUs folds and multicasts"};

}  // namespace methods

namespace {

std::vector<const Method*>& registry() {
  static std::vector<const Method*> all = {&methods::lanes, &methods::slots,       &methods::get, &methods::ll,
                                           &methods::ll128, &methods::copy_engine, &methods::nvls};
  return all;
}

}  // namespace

const std::vector<const Method*>& all_methods() { return registry(); }

std::vector<const Method*> methods_of(std::string_view backend) {
  std::vector<const Method*> some;
  for (const Method* method : all_methods()) {
    if (backend == method->backend) some.push_back(method);
  }
  return some;
}

const Method* find_method(std::string_view name) {
  for (const Method* method : all_methods()) {
    if (name == method->name) return method;
  }
  return nullptr;
}

void register_methods(std::span<const Method* const> methods) {
  for (const Method* method : methods) {
    const auto same = [method](const Method* known) { return *known == *method; };
    if (std::none_of(registry().begin(), registry().end(), same)) registry().push_back(method);
  }
}

}  // namespace tutti::exec
