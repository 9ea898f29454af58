#include <algorithm>
#include <array>

#include "exec/compile/accepts.hpp"
#include "exec/execution.hpp"
#include "exec/method.hpp"
#include "topo/constants.hpp"

namespace tutti::exec {
namespace {

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

/// What a round costs beyond its messages where the interpreter runs it: instructions, a descriptor and a fence.
double of_round() { return machine_constants().cuda_round + machine_constants().cuda_fence; }

/// A byte is loaded twice: by its writer, which stores it in a slot, and there by its reader.
void price_slots(plan::Cost&, Prices& prices, Rank, uint32_t width) {
  price_kernel(prices);
  bound_by_blocks(prices, 2 * machine_constants().cuda_block_local, width);
  prices.inside.alpha += of_round();
  prices.between.alpha += of_round();
}

/// A byte is loaded by its writer, which stages it (unless it can be read in place), and by its reader from there. The
/// first bytes of a message travel when its descriptor has come and they are asked for.
void price_get(plan::Cost&, Prices& prices, Rank, uint32_t width) {
  price_kernel(prices);
  bound_by_blocks(prices, machine_constants().cuda_block_local + machine_constants().cuda_block_peer, width);
  prices.inside.alpha += prices.inside.alpha + of_round();
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

/// With n ranks, and blocks of S bytes. If everyone folds a part of one block and sends it to all, a GPU's links carry
/// (1 + 1/n) · S bytes each way: out, S that the switch reads to fold and S/n that this GPU stores; in, S/n that the
/// switch has folded and S that it multicasts. If everyone folds a block of its own, n · S go out; if everyone sends
/// one to all, n · S come in. What goes out blocks copy to slots, and what comes in from there; the rest they load and
/// store over the links. There are two signals: the windows are there (or their slots are free), and so are the folds.
void price_nvls(plan::Cost& cost, Prices& prices, Rank ranks, uint32_t width) {
  const MachineConstants& known = machine_constants();
  const bool both = cost.rounds == 2;  // it folds, and sends
  const double n = ranks;
  cost.sent = cost.received = both ? plan::Ratio(ranks + 1, ranks) : plan::Ratio(ranks);
  const double copied = both ? 2 : n, folded = both ? 1 / n : 1;
  price_kernel(prices);
  prices.inside.beta /= machine_constants().cuda_multimem_share;
  bound_by_blocks(prices, (copied * known.cuda_block_local + folded * known.cuda_block_peer) / cost.sent.value(),
                  width);
  prices.gamma = 0;
  prices.inside.alpha += known.cuda_fence;
  cost.rounds = cost.stages = 2;
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
constexpr const char* kOrderNothing = "a barrier orders what ranks write before and after it, and lines order nothing";
const Method ll{.name = "ll",
                .backend = kCuda,
                .price = [](plan::Cost&, Prices& prices, Rank, uint32_t) { price_lines(prices, kLl); },
                .why_no_barrier = kOrderNothing,
                .wide = false};
const Method ll128{.name = "ll128",
                   .backend = kCuda,
                   .price =
                       [](plan::Cost&, Prices& prices, Rank, uint32_t) {
                         price_lines(prices, kLl128);
                         prices.inside.alpha += machine_constants().cuda_ll128_round;
                         prices.between.alpha += machine_constants().cuda_ll128_round;
                       },
                   .why_no_barrier = kOrderNothing,
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
