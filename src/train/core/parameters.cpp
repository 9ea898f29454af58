#include "tutti/train/parameters.hpp"

#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>
#include <utility>

#include "train/core/hash.hpp"

namespace tutti::train {
namespace {

/// Element `index` of a sequence of standard normal numbers (Box & Muller, 1958).
float normal(uint64_t key, uint64_t index) {
  const uint64_t bits = mix(key + index);
  const double u = (static_cast<double>(bits >> 32) + 0.5) / 4294967296.0;
  const double v = static_cast<double>(bits & 0xFFFFFFFF) / 4294967296.0;
  return static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v));
}

size_t product(const std::vector<size_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), size_t{1}, std::multiplies<>());
}

/// The place in the full tensor of element `i` of the piece.
size_t place_in_full(const Parameter& p, size_t i) {
  size_t place = 0, stride = 1;
  for (size_t d = p.shape.size(); d-- > 0;) {
    place += (p.start[d] + i % p.shape[d]) * stride;
    i /= p.shape[d];
    stride *= p.full[d];
  }
  return place;
}

}  // namespace

size_t Layout::add(const std::string& name, const std::vector<size_t>& shape, Initial initial, bool partial) {
  Parameter whole{.name = name, .shape = shape, .full = shape, .start = std::vector<size_t>(shape.size(), 0)};
  whole.initial = initial;
  whole.partial = partial;
  return add_piece(std::move(whole));
}

size_t Layout::add_piece(Parameter parameter) {
  parameter.offset = count_;
  parameter.count = product(parameter.shape);
  count_ += parameter.count;
  parameters_.push_back(std::move(parameter));
  return parameters_.back().offset;
}

std::vector<float> initial_values(const Layout& layout, uint64_t seed) {
  std::vector<float> values(layout.count());
  for (const Parameter& p : layout.parameters()) {
    const uint64_t key = mix(seed ^ hash(p.name));
    float* const to = values.data() + p.offset;
    for (size_t i = 0; i < p.count; ++i) {
      const bool drawn = p.initial.form == Initial::Form::Normal;
      to[i] = drawn ? p.initial.deviation * normal(key, place_in_full(p, i))
                    : static_cast<float>(p.initial.form == Initial::Form::One);
    }
  }
  return values;
}

}  // namespace tutti::train
