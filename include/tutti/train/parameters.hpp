// Parameters: a unit's tensors in one flat buffer. What shards, buckets and checkpoints speak of are spans of it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tutti/train/device.hpp"

namespace tutti::train {

/// What a parameter is at the start of training.
struct Initial {
  enum class Form : uint8_t { Zero, One, Normal } form = Form::Zero;
  float deviation = 0;  ///< of Normal; the mean is 0
  static Initial zero() { return {}; }
  static Initial one() { return {Form::One, 0}; }
  static Initial normal(float deviation) { return {Form::Normal, deviation}; }
};

/// Standard deviations of initial weights: of matrices, and of those whose products are added to the residual stream.
struct Deviations {
  float inner = 0.02f, last = 0.02f;
};

/// One tensor, or this rank's piece of it: the box that begins at `start` of the tensor of shape `full`.
struct Parameter {
  std::string name;           ///< global, e.g. "block.3.qkv.weight": the same whatever the sharding
  std::vector<size_t> shape;  ///< of this rank's piece
  std::vector<size_t> full;   ///< of the whole tensor
  std::vector<size_t> start;  ///< where the piece begins in it
  Initial initial;
  bool expert = false;   ///< one of the axis-0 pieces of expert parallelism: averaged over Mesh::expert_replicas
  bool partial = false;  ///< tensor-parallel ranks each compute a part of its gradient: see PartialGradients
  size_t offset = 0;     ///< in the flat buffer, in elements
  size_t count = 0;
  /// True if tensor-parallel ranks hold different pieces; false: the same tensor, counted once in norms.
  bool sharded() const {
    for (size_t axis = expert ? 1 : 0; axis < shape.size(); ++axis) {
      if (shape[axis] != full[axis]) return true;
    }
    return false;
  }
};

/// The tensors of a flat buffer, in order, without gaps.
class Layout {
 public:
  /// A whole tensor. Returns its offset.
  size_t add(const std::string& name, const std::vector<size_t>& shape, Initial initial, bool partial = false);
  /// A piece of one.
  size_t add_piece(Parameter parameter);
  std::span<const Parameter> parameters() const { return parameters_; }
  size_t count() const { return count_; }

 private:
  std::vector<Parameter> parameters_;
  size_t count_ = 0;
};

/// The initial values of a layout, on the host. An element is a function of (seed, name, place in the full tensor), so
/// every sharding begins with the same model.
std::vector<float> initial_values(const Layout& layout, uint64_t seed);

/// A unit's parameters on this rank. The unit lays them out; the data-parallel strategy allocates and owns the memory.
/// `weights` is empty while a sharding strategy does not hold them.
struct UnitState {
  const Layout* layout = nullptr;
  Span weights, gradients;
};

/// Checks that `mine`, one fact a line, is the same on all ranks: collective. Throws Error(Mismatch) on every rank; the
/// text names the first rank that differs from rank 0, and the first difference. `what`: e.g. "options".
void check_same(Communicator& world, const char* what, const std::string& mine);

}  // namespace tutti::train
