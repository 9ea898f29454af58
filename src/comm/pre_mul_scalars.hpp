// The scalars of pre-multiplied sums, by the handle that the user holds.
#pragma once

#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "base/format.hpp"
#include "comm/call.hpp"

namespace tutti::comm {

/// The first value of tuttiRedOp_t that tuttiRedOpCreatePreMulSum returns. Built-in operators have smaller ones.
inline constexpr int kFirstPreMulSum = 16;

class PreMulScalars {
 public:
  /// A new handle, ≥ 0 and never used before on this communicator. A scalar of the host's is read now, one in memory of
  /// another backend (`by_address`) by each call.
  int add(DType type, const void* scalar, bool by_address) {
    const std::lock_guard lock(mutex_);
    Scalar scale{.type = type, .by_address = by_address};
    if (by_address) {
      std::memcpy(scale.value, &scalar, sizeof scalar);
    } else {
      std::memcpy(scale.value, scalar, size_of(type));
    }
    pre_mul_scalars_[next_] = scale;
    return next_++;
  }
  bool remove(int handle) {
    const std::lock_guard lock(mutex_);
    return pre_mul_scalars_.erase(handle) == 1;
  }
  /// Makes `call` a pre-multiplied sum. Returns "", or after "operator 16" why it cannot: the handle is unknown, or has
  /// another type.
  std::string apply(int handle, Call& call) const {
    const std::lock_guard lock(mutex_);
    const auto found = pre_mul_scalars_.find(handle);
    if (found == pre_mul_scalars_.end() && handle < next_) return "was destroyed before this call";
    if (found == pre_mul_scalars_.end()) {
      return "was never made on this communicator (tuttiRedOpCreatePreMulSum makes one for it)";
    }
    if (found->second.type != call.spec.type) {
      return fmt::format("has a scalar of {} where the buffers are {}", name_of(found->second.type),
                         name_of(call.spec.type));
    }
    call.spec.op = Op::PreMulSum;
    std::memcpy(call.scale, found->second.value, sizeof call.scale);
    call.scale_by_address = found->second.by_address;
    return "";
  }

 private:
  struct Scalar {
    DType type = DType::F32;
    bool by_address = false;
    unsigned char value[8] = {};
  };
  mutable std::mutex mutex_;
  std::map<int, Scalar> pre_mul_scalars_;
  int next_ = 0;
};

}  // namespace tutti::comm
