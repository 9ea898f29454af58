// The router of a mixture of experts: which experts each token goes to, and with what weights.
#pragma once

#include "tutti/train/linear.hpp"
#include "tutti/train/moe.hpp"

namespace tutti::train {

/// One micro-batch's.
struct Routing {
  Tensor probabilities;         // tokens × experts
  std::vector<int32_t> expert;  // of each (token, choice) pair; −1: dropped
  Tensor slopes;                // [expert]: the load-balance loss by each probability
  Tensor d_logits;              // of backward_input
};

class Router {
 public:
  Router(Layout& layout, const std::string& prefix, size_t width, float deviation, const MoeConfig& config,
         const ParallelContext& parallel, Collectives& batch, ExpertLoad& load);
  Routing route(const Call& call, const Tensor& x) const;
  /// Adds to dx. d_probabilities: through the experts' outputs; it is overwritten.
  void backward_input(const Call& call, Routing& routing, const Tensor& d_probabilities, const Tensor& dx) const;
  void backward_weight(const Call& call, const Routing& routing, const Tensor& x, float* gradients) const;

 private:
  std::vector<int32_t> choose(const Call& call, size_t tokens, const float* probabilities) const;
  /// Drops pairs beyond the capacity: first choices have precedence over second ones, then earlier tokens over later.
  double drop(size_t tokens, std::vector<int32_t>& expert) const;
  void balance(const Call& call, Routing& routing, const std::vector<int32_t>& chosen, double dropped) const;

  MoeConfig config_;
  ParallelContext parallel_;
  Collectives& batch_;
  ExpertLoad& load_;
  Linear linear_;
};

}  // namespace tutti::train
