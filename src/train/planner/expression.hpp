// Arithmetic as the table of formulas writes it: "2·Ψ/(tp·pp)", "max(0, T − 2/3·C/m)", "zero<3 and E=1".
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace tutti::train::planner {

/// An expression over named values. Operators: + − · / < ≤ > ≥ = and; functions: min, max, floor, ceil, cbrt, sqrt.
/// Names are ASCII letters, Greek letters, digits and '_'. A comparison is 1 or 0.
class Expression {
 public:
  /// Where the value of a name is; called for each name while the text is read, and may throw.
  using SlotOf = std::function<size_t(std::string_view name)>;

  /// Throws Error(InvalidArgument) that shows the text and the place if it is no expression.
  Expression(std::string_view text, const SlotOf& slot_of);

  double operator()(std::span<const double> values) const;

 private:
  friend class ExpressionReader;

  enum class Kind { Number, Value, Unary, Binary };
  using Unary = double (*)(double);
  using Binary = double (*)(double left, double right);
  /// Postfix: operands before their operator. Of the members, the one that the kind names.
  struct Item {
    Kind kind;
    double number = 0;
    size_t slot = 0;
    Unary unary = nullptr;
    Binary binary = nullptr;
  };
  static constexpr size_t kDeepest = 16;  // operands that wait for their operator

  std::vector<Item> items_;
};

}  // namespace tutti::train::planner
