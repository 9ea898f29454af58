// PyTorch's tensors, element types and operators as Tutti's.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <cstddef>
#include <vector>

#include "compat/torch/target.hpp"
#include "tutti/tutti.h"

namespace tutti_torch {

/// Elements of a type as Tutti sees them: `units` of Tutti's for one of PyTorch's.
struct Elements {
  tuttiDataType_t type;
  size_t units;
};

/// For data that is only moved: any type. Those that Tutti does not know are bytes.
Elements moved(c10::ScalarType type);

/// An operator on a communicator, for the expression that makes a call with it.
class Operator {
 public:
  /// `scalar`: of a pre-multiplied sum, else undefined.
  Operator(tuttiRedOp_t op, const at::Tensor& scalar, tuttiDataType_t type, tuttiComm_t comm);
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;
  ~Operator();
  operator tuttiRedOp_t() const { return op_; }  // NOLINT: it stands for it

 private:
  tuttiRedOp_t op_;
  tuttiComm_t made_on_ = nullptr;
};

/// A fold, for one call.
class Fold {
 public:
  /// Throws ValueError where the operator is not defined for the tensor's type; `call` names it.
  Fold(const char* call, const c10d::ReduceOp& op, const at::Tensor& tensor);
  const Elements& elements() const { return elements_; }
  Operator on(tuttiComm_t comm) const { return {op_, scalar_, elements_.type, comm}; }

 private:
  Elements elements_;
  tuttiRedOp_t op_ = tuttiSum;
  /// One element of the type; defined for a pre-multiplied sum. In memory of the GPU it is read when the call runs.
  at::Tensor scalar_;
};

/// to.copy_(from), also for a tensor that inference mode has made, while this thread is not in it.
void copy_into(const at::Tensor& to, const at::Tensor& from);

enum class Use { In, Out, InOut };

/// A tensor's elements in order and without gaps: its own memory, or a copy.
class Packed {
 public:
  /// `apart`: a copy in any case, since another argument has the same memory.
  Packed(const Target& target, const at::Tensor& tensor, Use use, bool apart = false);
  void* data() const { return packed_.data_ptr(); }
  size_t count(const Elements& elements) const { return static_cast<size_t>(packed_.numel()) * elements.units; }
  /// After the call: an output's copy goes back to the tensor.
  void unpack();

 private:
  Postponed* postponed_;
  at::Tensor tensor_, packed_;
  bool copied_;
};

/// Two of the tensors have memory in common.
bool overlap(const std::vector<at::Tensor>& tensors);

/// A list of tensors as one buffer, in order: where they lie, if they follow each other in memory, or a copy.
class PackedList {
 public:
  PackedList(const Target& target, const std::vector<at::Tensor>& tensors, Use use, bool apart = false);
  void* data() const { return data_; }
  /// In elements of each tensor.
  std::vector<size_t> counts(const Elements& elements) const;
  bool even() const;
  void unpack();

 private:
  Postponed* postponed_;
  std::vector<at::Tensor> tensors_;
  at::Tensor buffer_;  // of a copy
  void* data_ = nullptr;
};

}  // namespace tutti_torch
