#include "compat/torch/convert.hpp"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "compat/torch/checks.hpp"
#include "tutti/check.hpp"
#include "tutti/types.hpp"

namespace tutti_torch {
namespace {

using c10::ScalarType;

tuttiDataType_t unsigned_of(size_t bytes) {
  return bytes == 8 ? tuttiUint64 : bytes == 4 ? tuttiUint32 : bytes == 2 ? tuttiUint16 : tuttiUint8;
}

/// False where Tutti has no arithmetic for the type.
bool arithmetic(ScalarType type, Elements& elements) {
  const auto is = [&](tuttiDataType_t same, size_t units = 1) {
    elements = {same, units};
    return true;
  };
  if (type == ScalarType::Undefined) return false;  // in the table: a type that PyTorch does not have
#define TUTTI_TYPE(name, text, bytes, kind, c, arithmetic, nccl, torch, ...) \
  if (type == ScalarType::torch) return is(tutti##c);
  TUTTI_TYPES(TUTTI_TYPE)
#undef TUTTI_TYPE
  switch (type) {
    case ScalarType::Bool:
      return is(tuttiUint8);
    case ScalarType::ComplexHalf:
      return is(tuttiFloat16, 2);
    case ScalarType::ComplexFloat:
      return is(tuttiFloat32, 2);
    case ScalarType::ComplexDouble:
      return is(tuttiFloat64, 2);
    default:
      return false;
  }
}

constexpr tuttiRedOp_t kNone = -1;

/// One of PyTorch's operators: Tutti's for numbers, and which numbers it is defined for; Tutti's for truth values.
struct OperatorRow {
  enum class Numbers { All, Real, Whole };
  const char* name;
  tuttiRedOp_t of_numbers;
  Numbers numbers;
  tuttiRedOp_t of_bools;

  bool is_defined_for(ScalarType type) const {
    if (type == ScalarType::Bool) return of_bools != kNone;
    if (numbers == Numbers::Whole) return c10::isIntegralType(type, false);
    return numbers == Numbers::All || !c10::isComplexType(type);
  }
};

/// By c10d::ReduceOp::RedOpType. Of truth values, a sum is true where any is, a product where all are.
constexpr OperatorRow kOperators[] = {{"SUM", tuttiSum, OperatorRow::Numbers::All, tuttiMax},
                                      {"AVG", tuttiAvg, OperatorRow::Numbers::All, kNone},
                                      {"PRODUCT", tuttiProd, OperatorRow::Numbers::Real, tuttiMin},
                                      {"MIN", tuttiMin, OperatorRow::Numbers::Real, tuttiMin},
                                      {"MAX", tuttiMax, OperatorRow::Numbers::Real, tuttiMax},
                                      {"BAND", tuttiBitAnd, OperatorRow::Numbers::Whole, tuttiMin},
                                      {"BOR", tuttiBitOr, OperatorRow::Numbers::Whole, tuttiMax},
                                      {"BXOR", tuttiBitXor, OperatorRow::Numbers::Whole, tuttiBitXor},
                                      {"PREMUL_SUM", tuttiSum, OperatorRow::Numbers::All, kNone}};

bool in_order(const at::Tensor& tensor) { return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg(); }

/// The real element of a complex type.
ScalarType real_of(ScalarType type) { return c10::isComplexType(type) ? c10::toRealValueType(type) : type; }

at::Tensor scalar_of(const char* call, const c10d::ReduceOp& op, const at::Tensor& tensor) {
  const auto* supplement = dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  if (supplement == nullptr) refuse(call, "PREMUL_SUM needs its factor: torch.distributed._make_nccl_premul_sum(f)");
  const auto real = at::TensorOptions().dtype(real_of(tensor.scalar_type()));
  if (!supplement->tensor_factor.defined()) return at::scalar_tensor(supplement->double_factor, at::kDouble).to(real);
  if (supplement->tensor_factor.is_complex()) refuse(call, "PREMUL_SUM's factor must be a real number");
  // One on the GPU of the call stays there.
  const bool on_gpu = tensor.is_cuda() && supplement->tensor_factor.device() == tensor.device();
  return supplement->tensor_factor.reshape({}).to(real.device(on_gpu ? tensor.device() : at::Device(at::kCPU)));
}

}  // namespace

Elements moved(ScalarType type) {
  Elements elements{};
  if (arithmetic(type, elements)) return elements;
  const size_t bytes = c10::elementSize(type);
  const size_t unit = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 ? bytes : 1;
  return {unsigned_of(unit), bytes / unit};
}

Fold::Fold(const char* call, const c10d::ReduceOp& op, const at::Tensor& tensor) {
  const ScalarType type = tensor.scalar_type();
  const auto kind = static_cast<c10d::ReduceOp::RedOpType>(op);
  const OperatorRow* const known = kind < std::size(kOperators) ? &kOperators[kind] : nullptr;
  if (!arithmetic(type, elements_)) {
    refuse(call, std::string("there is no arithmetic for ") + c10::toString(type) + "; it can be moved, not reduced");
  }
  if (known == nullptr || !known->is_defined_for(type)) {
    const std::string name = known != nullptr ? known->name : "an unknown operator";
    refuse(call, "unsupported reduction operation: " + name + " is not defined for " + c10::toString(type));
  }
  op_ = type == ScalarType::Bool ? known->of_bools : known->of_numbers;
  if (kind == c10d::ReduceOp::PREMUL_SUM) scalar_ = scalar_of(call, op, tensor);
}

Operator::Operator(tuttiRedOp_t op, const at::Tensor& scalar, tuttiDataType_t type, tuttiComm_t comm) : op_(op) {
  if (!scalar.defined()) return;
  tutti::check(tuttiRedOpCreatePreMulSum(&op_, scalar.data_ptr(), type, comm));
  made_on_ = comm;
}

Operator::~Operator() {
  if (made_on_ != nullptr) tuttiRedOpDestroy(op_, made_on_);
}

void copy_into(const at::Tensor& to, const at::Tensor& from) {
  std::optional<c10::InferenceMode> mode;
  if (to.is_inference()) mode.emplace();
  to.copy_(from);
}

/// At once, or when the calls of a group have been enqueued.
void copy_result(Postponed* postponed, const at::Tensor& to, const at::Tensor& from) {
  if (postponed != nullptr) {
    postponed->copies.emplace_back(to, from);
  } else {
    copy_into(to, from);
  }
}

Packed::Packed(const Target& target, const at::Tensor& tensor, Use use, bool apart)
    : postponed_(target.postponed), tensor_(tensor), copied_(apart || !in_order(tensor)) {
  if (!copied_) {
    packed_ = tensor;
  } else if (use == Use::Out) {
    packed_ = at::empty(tensor.sizes(), tensor.options());
  } else {
    packed_ = apart ? tensor.clone(at::MemoryFormat::Contiguous).resolve_conj().resolve_neg()
                    : tensor.resolve_conj().resolve_neg().contiguous();
  }
  if (copied_ && postponed_ != nullptr) postponed_->kept.push_back(packed_);
}

void Packed::unpack() {
  if (copied_) copy_result(postponed_, tensor_, packed_);
}

bool overlap(const std::vector<at::Tensor>& tensors) {
  std::vector<std::pair<const char*, const char*>> ranges;
  for (const auto& tensor : tensors) {
    if (tensor.numel() == 0) continue;
    int64_t last = 0;
    for (int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
    const char* const begin = static_cast<const char*>(tensor.const_data_ptr());
    ranges.emplace_back(begin, begin + (last + 1) * tensor.element_size());
  }
  std::sort(ranges.begin(), ranges.end());
  const auto meet = [](const auto& a, const auto& b) { return b.first < a.second; };
  return std::adjacent_find(ranges.begin(), ranges.end(), meet) != ranges.end();
}

PackedList::PackedList(const Target& target, const std::vector<at::Tensor>& tensors, Use use, bool apart)
    : postponed_(target.postponed), tensors_(tensors) {
  bool adjacent = !apart;
  int64_t elements = 0;
  const char* next = nullptr;
  for (const auto& tensor : tensors) {
    elements += tensor.numel();
    if (tensor.numel() == 0) continue;
    const char* const at = static_cast<const char*>(tensor.const_data_ptr());
    if (next == nullptr) data_ = const_cast<char*>(at);
    adjacent &= in_order(tensor) && (next == nullptr || next == at);
    next = at + tensor.nbytes();
  }
  if (adjacent || tensors.empty()) return;
  buffer_ = at::empty({elements}, tensors.front().options().memory_format(at::MemoryFormat::Contiguous));
  data_ = buffer_.data_ptr();
  if (postponed_ != nullptr) postponed_->kept.push_back(buffer_);
  if (use == Use::Out) return;
  int64_t offset = 0;
  for (const auto& tensor : tensors_) {
    buffer_.narrow(0, offset, tensor.numel()).view(tensor.sizes()).copy_(tensor);
    offset += tensor.numel();
  }
}

std::vector<size_t> PackedList::counts(const Elements& elements) const {
  std::vector<size_t> counts;
  for (const auto& tensor : tensors_) counts.push_back(static_cast<size_t>(tensor.numel()) * elements.units);
  return counts;
}

bool PackedList::even() const {
  return std::all_of(tensors_.begin(), tensors_.end(),
                     [&](const auto& tensor) { return tensor.numel() == tensors_.front().numel(); });
}

void PackedList::unpack() {
  if (!buffer_.defined()) return;
  int64_t offset = 0;
  for (const auto& tensor : tensors_) {
    copy_result(postponed_, tensor, buffer_.narrow(0, offset, tensor.numel()).view(tensor.sizes()));
    offset += tensor.numel();
  }
}

}  // namespace tutti_torch
