// A linear program that packs: each column takes some of the rows' capacities, and as much as possible of all columns
// together is to be taken:
//   maximise Σ x(j), where Σ load(i, j) · x(j) ≤ capacity(i) for each row i, and x ≥ 0.
//
// The revised simplex method, with the inverse of the basis as a matrix: for some hundred rows. Columns may be added
// after it has been solved; it goes on from there. Capacities are made a little smaller, each by a different fraction,
// to break ties: degenerate pivots could cycle.
//
// Source: Dantzig, Linear programming and extensions, 1963; Charnes, Optimality and degeneracy in linear programming,
// Econometrica 1952.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tutti::synth {

class PackingProgram {
 public:
  using Column = std::vector<std::pair<uint32_t, int64_t>>;  ///< (row, load > 0)

  /// Capacities are greater than 0.
  explicit PackingProgram(const std::vector<double>& capacities);

  void add(Column column) { columns_.push_back(std::move(column)); }
  /// False: all solutions together have taken too much work, and what was found so far stands.
  bool solve();

  double value() const;
  /// Of each column.
  std::vector<double> taken() const;
  /// Of each row, what a little more capacity would add to the value. (Of the last solution: 0 or more.)
  const std::vector<double>& prices() const { return prices_; }

 private:
  static constexpr uint32_t kSlack = 0;  // columns are numbered from 1 in the basis

  double& inverse(size_t row, size_t column) { return inverse_[row * rows_ + column]; }
  void find_prices();
  std::pair<double, uint32_t> best_column() const;
  bool enter(uint32_t column, size_t slack);

  const size_t rows_;
  std::vector<double> inverse_;                     // of the basis
  std::vector<std::pair<uint32_t, size_t>> basis_;  // by row: a column, or the slack of a row
  std::vector<double> values_;                      // by row: of its variable
  std::vector<double> prices_;
  std::vector<Column> columns_;
  double work_ = 0;
};

}  // namespace tutti::synth
