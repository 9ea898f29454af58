#include "train/planner/sheet.hpp"

#include <cmath>
#include <limits>

namespace tutti::train::planner {

Sheet::Sheet(std::span<const Input> inputs, std::span<const Row> rows) : inputs_(inputs), rows_(rows) {
  for (const Input& input : inputs) slots_.try_emplace(input.name, slots_.size());
  const auto known = [this](std::string_view name) { return slot(name); };
  for (const Row& row : rows) {
    std::optional<Expression> when;
    if (*row.when != '\0') when.emplace(row.when, known);
    Expression formula(row.formula, known);
    const size_t slot = slots_.try_emplace(row.name, slots_.size()).first->second;
    compiled_.push_back({row.part, slot, std::move(when), std::move(formula)});
  }
}

size_t Sheet::slot(std::string_view name) const {
  const auto found = slots_.find(std::string(name));
  if (found == slots_.end()) refuse("no formula gives '{}'", name);
  return found->second;
}

std::vector<double> Sheet::blank() const {
  return std::vector<double>(slots_.size(), std::numeric_limits<double>::quiet_NaN());
}

void Sheet::evaluate(std::vector<double>& values, Part first, Part last) const {
  for (const Compiled& row : compiled_) {
    if (row.part < first || row.part > last || !std::isnan(values[row.slot])) continue;
    if (!row.when || (*row.when)(values) != 0) values[row.slot] = row.formula(values);
  }
}

std::vector<Figure> Sheet::figures(std::span<const double> values) const {
  std::vector<Figure> figures;
  const char* previous = "";
  for (size_t i = 0; i < rows_.size(); ++i) {
    const Compiled& row = compiled_[i];
    if (std::string_view(previous) == rows_[i].name || std::isnan(values[row.slot])) continue;
    if (row.when && (*row.when)(values) == 0) continue;
    const double value = values[row.slot];
    figures.push_back({&rows_[i], value, row.formula(values) == value ? rows_[i].formula : "given"});
    previous = rows_[i].name;
  }
  return figures;
}

}  // namespace tutti::train::planner
