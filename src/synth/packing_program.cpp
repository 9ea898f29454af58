#include "synth/packing_program.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/cancel.hpp"

namespace tutti::synth {
namespace {

constexpr double kZero = 1e-10;      // of prices and pivots
constexpr double kUneven = 1e-8;     // of capacities, at most
constexpr double kMostWork = 1e10;   // multiplications: some ten seconds
constexpr double kGolden = 0.61803;  // whose multiples spread evenly

}  // namespace

PackingProgram::PackingProgram(const std::vector<double>& capacities)
    : rows_(capacities.size()), inverse_(rows_ * rows_), prices_(rows_) {
  for (size_t row = 0; row < rows_; ++row) {
    inverse(row, row) = 1;
    basis_.emplace_back(kSlack, row);
    const double part = kGolden * static_cast<double>(row + 1);
    values_.push_back(capacities[row] * (1 - kUneven * (part - std::floor(part))));
  }
}

void PackingProgram::find_prices() {
  std::fill(prices_.begin(), prices_.end(), 0);
  for (size_t row = 0; row < rows_; ++row) {
    if (basis_[row].first == kSlack) continue;
    for (size_t i = 0; i < rows_; ++i) prices_[i] += inverse(row, i);
  }
}

/// Of those that would add to the value, the one that adds the most for each unit: how much, and which.
std::pair<double, uint32_t> PackingProgram::best_column() const {
  std::pair<double, uint32_t> best = {kZero, kSlack};
  for (uint32_t j = 1; j <= columns_.size(); ++j) {
    double adds = 1;
    for (const auto& [row, load] : columns_[j - 1]) adds -= prices_[row] * static_cast<double>(load);
    if (adds > best.first) best = {adds, j};
  }
  return best;
}

/// A column, or the slack of a row, comes into the basis, for the first variable that becomes 0. False: none does.
bool PackingProgram::enter(uint32_t column, size_t slack) {
  std::vector<double> change(rows_);
  for (size_t row = 0; row < rows_; ++row) {
    if (column == kSlack) {
      change[row] = inverse(row, slack);
    } else {
      for (const auto& [i, load] : columns_[column - 1]) change[row] += inverse(row, i) * static_cast<double>(load);
    }
  }
  size_t leaves = rows_;
  double least = std::numeric_limits<double>::infinity();
  for (size_t row = 0; row < rows_; ++row) {
    if (change[row] <= kZero) continue;
    const double until = std::max(0.0, values_[row]) / change[row];
    if (until < least) least = until, leaves = row;
  }
  if (leaves == rows_) return false;
  const double pivot = change[leaves];
  for (size_t i = 0; i < rows_; ++i) inverse(leaves, i) /= pivot;
  for (size_t row = 0; row < rows_; ++row) {
    if (row == leaves || change[row] == 0) continue;
    for (size_t i = 0; i < rows_; ++i) inverse(row, i) -= change[row] * inverse(leaves, i);
    values_[row] -= change[row] * least;
  }
  values_[leaves] = least;
  basis_[leaves] = {column, slack};
  return true;
}

bool PackingProgram::solve() {
  for (; work_ < kMostWork; work_ += static_cast<double>(rows_) * static_cast<double>(rows_)) {
    check_cancelled();
    find_prices();
    const auto cheapest = std::min_element(prices_.begin(), prices_.end());
    const auto [adds, column] = best_column();
    const bool by_slack = -*cheapest > adds;
    if (!by_slack && column == kSlack) {
      for (double& price : prices_) price = std::max(price, 0.0);
      return true;
    }
    if (!enter(by_slack ? kSlack : column, static_cast<size_t>(cheapest - prices_.begin()))) return false;
  }
  return false;
}

std::vector<double> PackingProgram::taken() const {
  std::vector<double> taken(columns_.size());
  for (size_t row = 0; row < rows_; ++row) {
    if (basis_[row].first != kSlack) taken[basis_[row].first - 1] = std::max(0.0, values_[row]);
  }
  return taken;
}

double PackingProgram::value() const {
  double value = 0;
  for (const double taken : taken()) value += taken;
  return value;
}

}  // namespace tutti::synth
