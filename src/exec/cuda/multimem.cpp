#include "exec/cuda/multimem.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/env.hpp"
#include "base/format.hpp"
#include "exec/compile/accepts.hpp"
#include "exec/compile/lower.hpp"
#include "exec/cuda/kernels.hpp"
#include "topo/constants.hpp"
#include "transports/cuda/retired.hpp"

namespace tutti::exec::cuda {
namespace {

using tutti::cuda::Multicast;
using tutti::cuda::Retired;

/// The kernel's name without its beginning; null: switches do not fold so.
const char* operation_of(const Reduction& how) {
  const bool adds = how.op == Op::Sum, least = how.op == Op::Min;
  if (how.op == Op::BitAnd) return "and_bits";
  if (how.op == Op::BitOr) return "or_bits";
  if (how.op == Op::BitXor) return "xor_bits";
  if (!adds && !least && how.op != Op::Max) return nullptr;
  switch (how.type) {
    case DType::I32:
      return adds ? "add_32" : least ? "min_i32" : "max_i32";
    case DType::U32:
      return adds ? "add_32" : least ? "min_u32" : "max_u32";
    case DType::I64:
      return adds ? "add_64" : least ? "min_i64" : "max_i64";
    case DType::U64:
      return adds ? "add_64" : least ? "min_u64" : "max_u64";
    default:
      break;
  }
  if (!adds || how.round_each) return nullptr;
  switch (how.type) {
    case DType::F16:
      return "add_f16";
    case DType::BF16:
      return "add_bf16";
    case DType::F32:
      return "add_f32";
    case DType::F64:
      return "add_f64";
    default:
      return nullptr;
  }
}

/// Other ranks' kernels may be in a call when this rank leaves, after a failure or by mistake. Until they have heard of
/// it and ended, the memory of this rank must be there.
constexpr double kKeptFor = 2;  // seconds
/// Seconds in which a few numbers are folded, on a GPU that others may use too.
constexpr double kTryFor = 10;

std::shared_ptr<Multicast> make_memory(const BackendContext& context, const tutti::cuda::Device& device) {
  const uint64_t bytes =
      kSignalBytes + kMultimemSlots * Multimem::slot_bytes() * static_cast<uint64_t>(env().max_blocks);
  return {new Multicast(*context.wireup, device, bytes),
          [](Multicast* gone) { Retired::instance().hand_over(std::shared_ptr<Multicast>(gone), kKeptFor); }};
}

/// The step of the first instruction of which this is true.
template <class IsIt>
uint32_t step_of(const WindowProgram& round, const char* what, IsIt is_it) {
  const auto found = std::find_if(round.ops.begin(), round.ops.end(), is_it);
  if (found == round.ops.end()) throw_error(Code::Unsupported, "switches cannot run a plan of this form: {}", what);
  return found->step;
}

/// In which steps of the plan a rank waits for others: before it folds, and before it has what the others have folded.
struct Steps {
  uint32_t fold = 0, gather = 0;
};
Steps steps_of(const WindowProgram& round, MultimemForm form, uint32_t ranks) {
  const auto folds_all = [&](const Instruction& op) { return op.sources == ranks; };
  const auto gathers = [](const Instruction& op) { return op.sources == 1 && op.arrivals.begin != op.arrivals.end; };
  Steps steps;
  if (form != MultimemForm::ToAll) steps.fold = step_of(round, "no fold of all ranks' parts", folds_all);
  steps.gather = steps.fold;
  if (form != MultimemForm::Fold) steps.gather = step_of(round, "it receives nothing", gathers);
  if (form == MultimemForm::ToAll) steps.fold = steps.gather;
  return steps;
}

/// The kernel where nothing is folded: any would do.
constexpr const char* kNoFold = "or_bits";

}  // namespace

Multimem::Multimem(const BackendContext& context, const tutti::cuda::Device& device, std::shared_ptr<Pool> pool)
    : context_(context), device_(device), pool_(std::move(pool)), memory_(make_memory(context, device)) {}

void Multimem::join(Deadline deadline) {
  if (context_.wireup->ranks() > static_cast<Rank>(kMaxMultimemRanks)) {
    throw_error(Code::Unsupported, "more than {} ranks", kMaxMultimemRanks);
  }
  memory_->join(deadline);
}

void Multimem::bind(const gpu::Gpu& gpu) {
  memory_->bind();
  load_multimem_kernels(device_);
  const std::vector<uint64_t> none(gpu::kMaxBlocks);
  sent_ = reinterpret_cast<uint64_t*>(pool_->take(gpu::kMaxBlocks * sizeof none[0]).at);
  device_.stream().upload(reinterpret_cast<CUdeviceptr>(sent_), none.data(), none.size() * sizeof none[0]);
  trial_ = std::make_unique<MultimemTrial>(gpu, device_, pool_, call());
}

void Multimem::try_out() {
  trial_->run(Deadline::in(std::min(context_.init_timeout, kTryFor)));
  trial_.reset();
}

/// The memory and the ranks.
MultimemCall Multimem::call() const {
  return {.head = {},
          .layout = {.slot = slot_bytes(),
                     .rank = static_cast<uint32_t>(context_.wireup->rank()),
                     .ranks = static_cast<uint32_t>(context_.wireup->ranks())},
          .own = memory_->own(),
          .all = memory_->all(),
          .sent = sent_};
}

uint64_t Multimem::slot_bytes() {
  constexpr uint64_t kGrain = 4096;
  const uint64_t slots = uint64_t{kMultimemSlots} * static_cast<uint64_t>(env().max_blocks);
  const uint64_t fits = (machine_constants().cuda_multimem_memory - kSignalBytes) / slots / kGrain * kGrain;
  return std::min(fits, machine_constants().cuda_multimem_slot);
}

std::unique_ptr<MultimemExecution> Multimem::compile(const plan::RankPlan& plan, const Geometry& geometry,
                                                     const Reduction* reduction) {
  const auto ranks = static_cast<uint32_t>(context_.wireup->ranks());
  auto made = std::make_unique<MultimemExecution>(lower(plan, geometry, PeerTraits(ranks)));
  const Program& program = made->program();
  if (program.scratch_bytes > 0) throw_error(Code::Unsupported, "switches cannot run a plan with scratch memory");
  MultimemForm form{};
  if (const std::string why = read_multimem_form(plan, form); !why.empty()) throw_error(Code::Unsupported, "{}", why);
  const Steps steps = steps_of(program.last, form, ranks);
  made->call = call();
  made->call.unit = geometry.element_bytes;
  made->call.fold_step = steps.fold;
  made->call.gather_step = steps.gather;
  MultimemLayout& layout = made->call.layout;
  layout.form = form;
  layout.bytes = geometry.count * geometry.element_bytes;
  layout.window = program.window_bytes;
  layout.windows = static_cast<uint32_t>(program.rounds);
  layout.items = program.width;
  if (layout.blocks() * layout.place() > layout.slot)
    throw_error(Code::InternalError, "a window is longer than its slot");
  if (program.rounds > ~uint32_t{0}) throw_error(Code::Unsupported, "more than {} rounds", ~uint32_t{0});
  made->kernel = multimem_kernel(device_, form == MultimemForm::ToAll ? kNoFold : operation_of(*reduction));
  return made;
}

std::shared_ptr<void> Multimem::keep() const { return pool_; }

}  // namespace tutti::exec::cuda
