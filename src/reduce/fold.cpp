#include "reduce/fold.hpp"

#include <hwy/targets.h>

#include "base/format.hpp"
#include "reduce/fold_kernels.hpp"

namespace tutti {
namespace {

void demand_processor() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("sse4.2")) {
    throw_error(Code::Unsupported, "this processor has no SSE4.2, which Tutti's reductions need (any x86 since 2008)");
  }
#endif
}

#define TUTTI_OPERATOR(name, text, others) kernel_for<Op::name>,
constexpr FoldFn (*kKernels[kOps])(DType) = {TUTTI_OPERATORS(TUTTI_OPERATOR) kernel_for<Op::PreMulSum>};
#undef TUTTI_OPERATOR

FoldFn find_kernel(DType type, Op op) {
  if (static_cast<int>(type) >= kDTypes || static_cast<int>(op) >= kOps) return nullptr;
  return kKernels[static_cast<int>(op)](type);
}

}  // namespace

template <>
FoldFn kernel_for<Op::Avg>(DType type) {
  return kernel_for<Op::Sum>(type);
}

template <>
FoldFn kernel_for<Op::PreMulSum>(DType type) {
  return kernel_for<Op::Sum>(type);
}

int64_t supported_targets() {
  static const int64_t kSupported = hwy::SupportedTargets();
  return kSupported;
}

FoldFn fold_function(DType type, Op op) {
  demand_processor();
  const FoldFn kernel = find_kernel(type, op);
  if (kernel == nullptr) {
    throw_error(Code::Unsupported, "no reduction for element type {} ({}) and operator {} ({})", name_of(type),
                static_cast<int>(type), name_of(op), static_cast<int>(op));
  }
  return kernel;
}

}  // namespace tutti
