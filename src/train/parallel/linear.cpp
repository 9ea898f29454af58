#include "tutti/train/linear.hpp"

#include <fmt/format.h>

namespace tutti::train {

void check_divides(const char* part, size_t by, const std::string& whole, size_t of) {
  if (by != 0 && of % by == 0) return;
  std::string divisors;
  for (size_t d = 1; d <= of; ++d) {
    if (of % d == 0) divisors += fmt::format("{}{}", divisors.empty() ? "" : ", ", d);
  }
  throw Error(Code::InvalidArgument,
              fmt::format("{} ({}) does not divide {} ({}); what does: {}", part, by, whole, of, divisors));
}

void Linear::multiply(const Call& call, size_t rows, const float* x, float* y) const {
  const ConstMatrix w{call.weights + weight, in};
  call.device().gemm({.transpose_b = true, .m = rows, .n = out, .k = in, .a = {x, in}, .b = w, .c = {y, out}});
}

void Linear::forward(const Call& call, size_t rows, const float* x, float* y) const {
  multiply(call, rows, x, y);
  if (biased) call.device().add_bias({rows, out}, y, call.weights + bias);
}

void Linear::backward_input(const Call& call, size_t rows, const float* dy, float* dx) const {
  call.device().gemm({.m = rows, .n = in, .k = out, .a = {dy, out}, .b = {call.weights + weight, in}, .c = {dx, in}});
}

void Linear::backward_only_weight(const Call& call, size_t rows, const float* x, const float* dy,
                                  float* gradients) const {
  const Matrix dw{gradients + weight, in};
  call.device().gemm(
      {.transpose_a = true, .m = out, .n = in, .k = rows, .a = {dy, out}, .b = {x, in}, .c = dw, .beta = 1});
}

void Linear::backward_weight(const Call& call, size_t rows, const float* x, const float* dy, float* gradients) const {
  backward_only_weight(call, rows, x, dy, gradients);
  if (biased) call.device().add_rows({rows, out}, dy, gradients + bias);
}

Linear column_linear(Layout& layout, const std::string& name, size_t in, size_t out, size_t groups, float deviation,
                     const ParallelContext& parallel) {
  const size_t each = out / groups;
  check_divides("tp", parallel.tp_size(), "the outputs of " + name, each);
  const size_t piece = each / parallel.tp_size(), first = piece * parallel.tp_rank();
  Linear made{.in = in, .out = groups * piece};
  made.weight = layout.add_piece({.name = name + ".weight",
                                  .shape = {groups, piece, in},
                                  .full = {groups, each, in},
                                  .start = {0, first, 0},
                                  .initial = Initial::normal(deviation)});
  made.bias = layout.add_piece({.name = name + ".bias",
                                .shape = {groups, piece},
                                .full = {groups, each},
                                .start = {0, first},
                                .initial = Initial::zero()});
  return made;
}

Linear row_linear(Layout& layout, const std::string& name, size_t in, size_t out, float deviation,
                  const ParallelContext& parallel) {
  check_divides("tp", parallel.tp_size(), "the inputs of " + name, in);
  const size_t piece = in / parallel.tp_size();
  Linear made{.in = piece, .out = out};
  made.weight = layout.add_piece({.name = name + ".weight",
                                  .shape = {out, piece},
                                  .full = {out, in},
                                  .start = {0, piece * parallel.tp_rank()},
                                  .initial = Initial::normal(deviation)});
  made.bias = layout.add(name + ".bias", {out}, Initial::zero(), parallel.sequence_parallel());
  return made;
}

}  // namespace tutti::train
