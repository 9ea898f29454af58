#include "train/moe/router.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tutti::train {

void ExpertLoad::reset() {
  std::fill(chosen.begin(), chosen.end(), 0);
  dropped = balance = 0;
  calls = 0;
}

void ExpertLoad::add(std::span<const double> pairs, double beyond, double loss) {
  for (size_t e = 0; e < pairs.size(); ++e) chosen[e] += pairs[e];
  dropped += beyond;
  balance += loss;
  ++calls;
}

double ExpertLoad::pairs() const { return std::accumulate(chosen.begin(), chosen.end(), 0.0); }

double ExpertLoad::imbalance() const {
  const double all = pairs();
  return all > 0 ? *std::max_element(chosen.begin(), chosen.end()) * static_cast<double>(chosen.size()) / all : 1;
}

void check_config(const MoeConfig& config, size_t hidden, size_t ep, size_t tp) {
  if (config.top_k == 0 || config.top_k > config.experts) {
    throw Error(Code::InvalidArgument, fmt::format("a token goes to {} of {} experts: top-k is from 1 to their number",
                                                   config.top_k, config.experts));
  }
  if (config.capacity < 0 || config.balance < 0 || !std::isfinite(config.capacity + config.balance)) {
    throw Error(Code::InvalidArgument,
                fmt::format("an expert's capacity factor ({}) and the weight of the load-balance "
                            "loss ({}) are 0 or more",
                            config.capacity, config.balance));
  }
  check_divides("ep", ep, "the number of experts", config.experts);
  check_divides("tp", tp, "the hidden width of an expert", hidden);
}

Router::Router(Layout& layout, const std::string& prefix, size_t width, float deviation, const MoeConfig& config,
               const ParallelContext& parallel, Collectives& batch, ExpertLoad& load)
    : config_(config), parallel_(parallel), batch_(batch), load_(load), linear_{.in = width, .out = config.experts} {
  // Tensor-parallel ranks have parts of the experts' outputs, so their gates' gradients are parts too.
  linear_.biased = false;
  linear_.weight = layout.add(prefix + ".router.weight", {config.experts, width}, Initial::normal(deviation),
                              !parallel.tp().absent());
  load.name = prefix;
  load.chosen.assign(config.experts, 0);
}

Routing Router::route(const Call& call, const Tensor& x) const {
  const size_t tokens = x->count() / linear_.in;
  Routing routing{.probabilities = call.make(tokens * config_.experts)};
  float* const p = routing.probabilities->f32();
  linear_.forward(call, tokens, x->f32(), p);
  call.device().softmax({tokens, config_.experts}, 1, false, p, nullptr);
  routing.expert = choose(call, tokens, p);
  const std::vector<int32_t> chosen = routing.expert;
  balance(call, routing, chosen, drop(tokens, routing.expert));
  return routing;
}

std::vector<int32_t> Router::choose(const Call& call, size_t tokens, const float* probabilities) const {
  const Buffer index = call.ledger.allocate(Kind::Activations, tokens * config_.top_k, DType::I32, true);
  call.device().top_k({tokens, config_.experts}, config_.top_k, probabilities,
                      static_cast<int32_t*>(index.span().data));
  // Tensor-parallel ranks must agree, although a rounding may differ.
  parallel_.tp().broadcast(Purpose::TensorAxis, index.span(), 0);
  std::vector<int32_t> chosen(index.count());
  call.device().download(chosen.data(), index.span().data, index.bytes());
  return chosen;
}

double Router::drop(size_t tokens, std::vector<int32_t>& expert) const {
  if (config_.capacity == 0) return 0;
  const size_t k = config_.top_k;
  const double fair = static_cast<double>(tokens * k) / static_cast<double>(config_.experts);
  const auto most = static_cast<size_t>(std::ceil(config_.capacity * fair));
  std::vector<size_t> taken(config_.experts);
  double dropped = 0;
  for (size_t choice = 0; choice < k; ++choice) {
    for (size_t pair = choice; pair < expert.size(); pair += k) {
      if (taken[static_cast<size_t>(expert[pair])]++ < most) continue;
      expert[pair] = -1;
      ++dropped;
    }
  }
  return dropped;
}

void Router::balance(const Call& call, Routing& routing, const std::vector<int32_t>& chosen, double dropped) const {
  const size_t n = config_.experts, tokens = chosen.size() / config_.top_k;
  // The sums of one call over the ranks of the batch: pairs of each expert, its probabilities; dropped pairs, tokens.
  std::vector<double> sums(2 * n + 2);
  for (const int32_t expert : chosen) ++sums[static_cast<size_t>(expert)];
  const Tensor columns = call.make(n);
  call.device().zero(columns->f32(), columns->bytes());
  call.device().add_rows({tokens, n}, routing.probabilities->f32(), columns->f32());
  std::vector<float> here(n);
  call.device().download(here.data(), columns->f32(), columns->bytes());
  std::copy(here.begin(), here.end(), sums.begin() + static_cast<ptrdiff_t>(n));
  sums[2 * n] = dropped;
  sums[2 * n + 1] = static_cast<double>(tokens);
  batch_.all_reduce(Purpose::ExpertAxis, {sums.data(), sums.size(), DType::F64}, Op::Sum);

  const double all = sums[2 * n + 1], experts = static_cast<double>(n);
  double loss = 0;
  std::vector<float> slopes(n);
  for (size_t e = 0; e < n; ++e) {
    const double share = sums[e] / (all * static_cast<double>(config_.top_k));
    loss += experts * share * sums[n + e] / all;
    slopes[e] = static_cast<float>(config_.balance * experts * share / static_cast<double>(tokens));
  }
  if (!call.again) load_.add({sums.data(), n}, sums[2 * n], loss);
  routing.slopes = call.make(n);
  call.device().upload(routing.slopes->f32(), slopes.data(), routing.slopes->bytes());
}

void Router::backward_input(const Call& call, Routing& routing, const Tensor& d_probabilities, const Tensor& dx) const {
  const Extent extent{routing.probabilities->count() / config_.experts, config_.experts};
  float* const d = d_probabilities->f32();
  if (parallel_.tp_rank() == 0) call.device().add_bias(extent, d, routing.slopes->f32());  // once in their sum
  call.device().softmax_backward(extent, 1, routing.probabilities->f32(), nullptr, d);
  routing.d_logits = d_probabilities;
  const Tensor through = call.make(dx->count());
  linear_.backward_input(call, extent.rows, d, through->f32());
  call.device().add(dx->span(), through->span());
}

void Router::backward_weight(const Call& call, const Routing& routing, const Tensor& x, float* gradients) const {
  linear_.backward_weight(call, x->count() / linear_.in, x->f32(), routing.d_logits->f32(), gradients);
}

}  // namespace tutti::train
