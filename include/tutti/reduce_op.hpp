// Reduction operators as calls take them.
#pragma once

#include <utility>

#include "tutti/check.hpp"
#include "tutti/element.hpp"
#include "tutti/error.hpp"
#include "tutti/tutti.h"
#include "tutti/types.hpp"

namespace tutti {

/// A sum in which this rank's input is first multiplied by a scalar of its own. Accepted wherever an Op is, in calls of
/// the communicator that made it (Communicator::pre_mul_sum). It may be destroyed as soon as the call has returned,
/// also in groups and on streams. Movable.
class PreMulSum {
 public:
  template <Element T>
  PreMulSum(tuttiComm_t comm, T scalar) : comm_(comm) {
    check(tuttiRedOpCreatePreMulSum(&op_, &scalar, static_cast<tuttiDataType_t>(ElementType<T>::kType), comm));
  }
  PreMulSum(PreMulSum&& other) noexcept : comm_(std::exchange(other.comm_, nullptr)), op_(other.op_) {}
  PreMulSum& operator=(PreMulSum&& other) noexcept {
    std::swap(comm_, other.comm_);
    std::swap(op_, other.op_);
    return *this;
  }
  ~PreMulSum() {
    if (comm_ != nullptr) tuttiRedOpDestroy(op_, comm_);
  }

 private:
  friend class ReduceOp;
  tuttiComm_t comm_ = nullptr;
  tuttiRedOp_t op_ = tuttiSum;
};

/// A call's reduction operator: an Op or a PreMulSum, both of which convert to it.
class ReduceOp {
 public:
  ReduceOp(Op op) : op_(static_cast<tuttiRedOp_t>(op)) {}                       // NOLINT: converts
  ReduceOp(const PreMulSum& op) : made_(true), comm_(op.comm_), op_(op.op_) {}  // NOLINT: converts
  /// For the C interface. Throws Error(InvalidArgument) if it cannot be used on `comm`.
  tuttiRedOp_t on(tuttiComm_t comm) const {
    if (made_ ? comm_ == comm : op_ != static_cast<tuttiRedOp_t>(Op::PreMulSum)) return op_;
    throw Error(Code::InvalidArgument,
                made_ ? "the pre-multiplied sum was made on another communicator, or has been moved from"
                      : "Op::PreMulSum has no scalar: use what Communicator::pre_mul_sum returns");
  }

 private:
  bool made_ = false;
  tuttiComm_t comm_ = nullptr;
  tuttiRedOp_t op_;
};

}  // namespace tutti
