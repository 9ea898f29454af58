// PyTorch's tensors, element types and operators as Tutti's.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <cstddef>
#include <vector>

#include "tutti/tutti.h"

namespace tutti_torch {

/// Elements of a type as Tutti sees them: `units` of Tutti's for one of PyTorch's.
struct Elements {
  tuttiDataType_t type;
  size_t units;
};

/// For data that is only moved: any type. Those that Tutti does not know are bytes.
Elements moved(c10::ScalarType type);

/// A fold, for one call. It holds a pre-multiplied sum's operator.
class Fold {
 public:
  /// Throws ValueError where the operator is not defined for the type; `call` names it.
  Fold(const char* call, const c10d::ReduceOp& op, c10::ScalarType type);
  Fold(Fold&&) = delete;
  ~Fold();
  const Elements& elements() const { return elements_; }
  /// The operator on this communicator.
  tuttiRedOp_t on(tuttiComm_t comm);

 private:
  Elements elements_;
  tuttiRedOp_t op_ = tuttiSum;
  at::Tensor scalar_;  // one element of the type; defined for a pre-multiplied sum
  tuttiComm_t made_on_ = nullptr;
};

/// Throws unless the tensor is a dense one in host memory.
void check_tensor(const char* call, const at::Tensor& tensor);
/// Throws ValueError with the call's name unless `holds`.
void demand(bool holds, const char* call, const std::string& text);
/// The only tensor (or list) of a list: c10d's interface has lists for several devices of one process.
template <class T>
T& only(const char* call, std::vector<T>& list) {
  demand(list.size() == 1, call, "one tensor (or list of tensors) a process, not " + std::to_string(list.size()));
  return list.front();
}

enum class Use { In, Out, InOut };

/// A tensor's elements in order and without gaps: its own memory, or a copy.
class Packed {
 public:
  Packed(const at::Tensor& tensor, Use use);
  void* data() const { return packed_.data_ptr(); }
  size_t count(const Elements& elements) const { return static_cast<size_t>(packed_.numel()) * elements.units; }
  /// After the call: an output's copy goes back to the tensor.
  void unpack();

 private:
  at::Tensor tensor_, packed_;
  bool copied_;
};

/// A list of tensors as one buffer, in order: where they lie, if they follow each other in memory, or a copy.
class PackedList {
 public:
  PackedList(const std::vector<at::Tensor>& tensors, Use use);
  void* data() const { return data_; }
  /// In elements of each tensor.
  std::vector<size_t> counts(const Elements& elements) const;
  bool even() const;
  void unpack();

 private:
  std::vector<at::Tensor> tensors_;
  at::Tensor buffer_;  // of a copy
  void* data_ = nullptr;
};

}  // namespace tutti_torch
