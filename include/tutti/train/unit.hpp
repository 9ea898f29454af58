// A unit: the part of a model that is computed, sharded, gathered and scheduled as a whole. A model is a list of units
// (the embedding; each transformer block; final norm and head), and a layer is a part of a unit (attention, MLP).
//
// The backward pass has two parts that are called separately: zero-bubble pipelines run them at different times:
// backward_input makes the gradient by the input, backward_weight the gradients by the parameters. What they need lies
// in the record that forward made, one for each micro-batch in flight.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tutti/train/ledger.hpp"
#include "tutti/train/parameters.hpp"

namespace tutti::train {

/// The data of one micro-batch on this rank: `sequences` × `length` tokens, row-major, in device memory.
struct MicroBatch {
  size_t sequences = 0, length = 0;    ///< length: of this rank's part, under context parallelism
  const int32_t* tokens = nullptr;     ///< inputs
  const int32_t* positions = nullptr;  ///< of each token in its whole sequence
  const int32_t* targets = nullptr;    ///< the next token of each
  double* loss = nullptr;              ///< host; the head stores the mean over this rank's tokens here
  size_t tokens_count() const { return sequences * length; }
};

/// What a call of a unit works with.
struct Call {
  Ledger& ledger;
  const MicroBatch& batch;
  const float* weights;  ///< the unit's flat buffer in f32
  bool again = false;    ///< forward runs a second time, for backward (activation checkpointing)
  Device& device() const { return ledger.device(); }
  /// An uninitialised activation.
  Tensor make(size_t count) const {
    return std::make_shared<Buffer>(ledger.allocate(Kind::Activations, count, DType::F32, true));
  }
};

/// What a layer keeps from forward for backward: its own struct derives from this.
struct Record {
  virtual ~Record() = default;
};

/// Math on flat parameters; holds no state of its own, so any number of micro-batches may be in flight.
class Layer {
 public:
  virtual ~Layer() = default;
  /// y of x. Stores what backward needs in `record`. x is null for a model's first unit; y for its last.
  virtual Tensor forward(const Call& call, const Tensor& x, std::unique_ptr<Record>& record) = 0;
  /// dx of dy. May free parts of the record that backward_weight does not need. dy is not changed; it is null for the
  /// last unit, dx for the first.
  virtual Tensor backward_input(const Call& call, Record& record, const Tensor& dy) = 0;
  /// Adds to `gradients`, the unit's flat buffer in f32. After backward_input of the same record.
  virtual void backward_weight(const Call& call, Record& record, float* gradients) = 0;
};

class Unit : public Layer {
 public:
  explicit Unit(std::string name) : name_(std::move(name)) {}
  const std::string& name() const { return name_; }
  const Layout& layout() const { return layout_; }
  /// Elements of x and of y for a micro-batch of so many tokens on this rank, as a pipeline sends them. 0: none.
  virtual size_t input_count(size_t tokens) const = 0;
  virtual size_t output_count(size_t tokens) const = 0;

 protected:
  Layout layout_;

 private:
  std::string name_;
};

using Model = std::vector<std::unique_ptr<Unit>>;

/// The unit, but each of its three passes lasts `seconds` at least: what is missing is slept. So stages are balanced,
/// and ranks that share a core run side by side as if each had its own: for looking at schedules.
std::unique_ptr<Unit> make_paced(std::unique_ptr<Unit> unit, double seconds);

}  // namespace tutti::train
