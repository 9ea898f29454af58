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
  switch (type) {
#define TUTTI_TYPE(name, text, bytes, kind, c, arithmetic, nccl, torch, ...) \
  case ScalarType::torch:                                                    \
    return is(tutti##c);
    TUTTI_TYPES(TUTTI_TYPE)
#undef TUTTI_TYPE
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

constexpr const char* kOperators[] = {"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM"};

/// Of truth values: a sum is true where any is, a product where all are.
bool of_bools(c10d::ReduceOp::RedOpType op, tuttiRedOp_t& result) {
  switch (op) {
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::MAX:
    case c10d::ReduceOp::BOR:
      result = tuttiMax;
      return true;
    case c10d::ReduceOp::PRODUCT:
    case c10d::ReduceOp::MIN:
    case c10d::ReduceOp::BAND:
      result = tuttiMin;
      return true;
    case c10d::ReduceOp::BXOR:
      result = tuttiBitXor;
      return true;
    default:
      return false;
  }
}

bool of_numbers(c10d::ReduceOp::RedOpType op, ScalarType type, tuttiRedOp_t& result) {
  const bool complex = c10::isComplexType(type), whole = c10::isIntegralType(type, false);
  switch (op) {
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::PREMUL_SUM:
      result = tuttiSum;
      return true;
    case c10d::ReduceOp::AVG:
      result = tuttiAvg;
      return true;
    case c10d::ReduceOp::PRODUCT:
      result = tuttiProd;
      return !complex;
    case c10d::ReduceOp::MIN:
      result = tuttiMin;
      return !complex;
    case c10d::ReduceOp::MAX:
      result = tuttiMax;
      return !complex;
    case c10d::ReduceOp::BAND:
      result = tuttiBitAnd;
      return whole;
    case c10d::ReduceOp::BOR:
      result = tuttiBitOr;
      return whole;
    case c10d::ReduceOp::BXOR:
      result = tuttiBitXor;
      return whole;
    default:
      return false;
  }
}

bool in_order(const at::Tensor& tensor) { return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg(); }

/// The real element of a complex type.
ScalarType real_of(ScalarType type) { return c10::isComplexType(type) ? c10::toRealValueType(type) : type; }

at::Tensor scalar_of(const char* call, const c10d::ReduceOp& op, ScalarType type) {
  const auto* supplement = dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  if (supplement == nullptr) refuse(call, "PREMUL_SUM needs its factor: torch.distributed._make_nccl_premul_sum(f)");
  const auto real = at::TensorOptions().dtype(real_of(type));
  if (!supplement->tensor_factor.defined()) return at::scalar_tensor(supplement->double_factor, at::kDouble).to(real);
  if (supplement->tensor_factor.is_complex()) refuse(call, "PREMUL_SUM's factor must be a real number");
  return supplement->tensor_factor.reshape({}).to(real.device(at::kCPU));
}

}  // namespace

Elements moved(ScalarType type) {
  Elements elements{};
  if (arithmetic(type, elements)) return elements;
  const size_t bytes = c10::elementSize(type);
  const size_t unit = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 ? bytes : 1;
  return {unsigned_of(unit), bytes / unit};
}

Fold::Fold(const char* call, const c10d::ReduceOp& op, ScalarType type) {
  const auto kind = static_cast<c10d::ReduceOp::RedOpType>(op);
  const std::string name = kind < std::size(kOperators) ? kOperators[kind] : "an unknown operator";
  if (!arithmetic(type, elements_)) {
    refuse(call, std::string("there is no arithmetic for ") + c10::toString(type) + "; it can be moved, not reduced");
  }
  if (!(type == ScalarType::Bool ? of_bools(kind, op_) : of_numbers(kind, type, op_))) {
    refuse(call, "unsupported reduction operation: " + name + " is not defined for " + c10::toString(type));
  }
  if (kind == c10d::ReduceOp::PREMUL_SUM) scalar_ = scalar_of(call, op, type);
}

tuttiRedOp_t Fold::on(tuttiComm_t comm) {
  if (scalar_.defined() && made_on_ == nullptr) {
    tutti::check(tuttiRedOpCreatePreMulSum(&op_, scalar_.data_ptr(), elements_.type, comm));
    made_on_ = comm;
  }
  return op_;
}

Fold::~Fold() {
  if (made_on_ != nullptr) tuttiRedOpDestroy(op_, made_on_);
}

void copy_into(const at::Tensor& to, const at::Tensor& from) {
  std::optional<c10::InferenceMode> mode;
  if (to.is_inference()) mode.emplace();
  to.copy_(from);
}

Packed::Packed(const at::Tensor& tensor, Use use, bool apart) : tensor_(tensor), copied_(apart || !in_order(tensor)) {
  if (!copied_) {
    packed_ = tensor;
  } else if (use == Use::Out) {
    packed_ = at::empty(tensor.sizes(), tensor.options());
  } else {
    packed_ = apart ? tensor.clone(at::MemoryFormat::Contiguous).resolve_conj().resolve_neg()
                    : tensor.resolve_conj().resolve_neg().contiguous();
  }
}

void Packed::unpack() {
  if (copied_) copy_into(tensor_, packed_);
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

PackedList::PackedList(const std::vector<at::Tensor>& tensors, Use use, bool apart) : tensors_(tensors) {
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
  for (const auto& tensor : tensors_) {
    if (tensor.numel() != tensors_.front().numel()) return false;
  }
  return true;
}

void PackedList::unpack() {
  if (!buffer_.defined()) return;
  int64_t offset = 0;
  for (const auto& tensor : tensors_) {
    copy_into(tensor, buffer_.narrow(0, offset, tensor.numel()).view(tensor.sizes()));
    offset += tensor.numel();
  }
}

}  // namespace tutti_torch
