#include "train/planner/expression.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string>

#include "tutti/error.hpp"

namespace tutti::train::planner {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
/// Greek letters are two bytes in UTF-8, and these are their first ones.
bool starts_greek(char c) { return c == '\xCE' || c == '\xCF'; }

struct Unary {
  std::string_view name;
  double (*of)(double);
};
struct Binary {
  std::string_view name;
  double (*of)(double left, double right);
};
constexpr Binary kConjunctions[] = {{"and ", [](double a, double b) { return a != 0 && b != 0 ? 1.0 : 0.0; }}};
constexpr Binary kComparisons[] = {{"<", [](double a, double b) { return a < b ? 1.0 : 0.0; }},
                                   {"≤", [](double a, double b) { return a <= b ? 1.0 : 0.0; }},
                                   {">", [](double a, double b) { return a > b ? 1.0 : 0.0; }},
                                   {"≥", [](double a, double b) { return a >= b ? 1.0 : 0.0; }},
                                   {"=", [](double a, double b) { return a == b ? 1.0 : 0.0; }}};
constexpr Binary kSums[] = {{"+", [](double a, double b) { return a + b; }},
                            {"−", [](double a, double b) { return a - b; }}};
constexpr Binary kProducts[] = {{"·", [](double a, double b) { return a * b; }},
                                {"/", [](double a, double b) { return a / b; }}};
constexpr Binary kFunctionsOfTwo[] = {{"min", [](double a, double b) { return std::min(a, b); }},
                                      {"max", [](double a, double b) { return std::max(a, b); }}};
constexpr Unary kFunctions[] = {{"floor", [](double a) { return std::floor(a); }},
                                {"ceil", [](double a) { return std::ceil(a); }},
                                {"cbrt", [](double a) { return std::cbrt(a); }},
                                {"sqrt", [](double a) { return std::sqrt(a); }}};

}  // namespace

/// Recursive descent; each level appends its part in postfix.
class ExpressionReader {
 public:
  using Kind = Expression::Kind;

  ExpressionReader(std::string_view text, const Expression::SlotOf& slot_of, Expression& into)
      : text_(text), slot_of_(slot_of), into_(into) {}

  void read() {
    condition();
    skip_blanks();
    if (at_ != text_.size()) fail("the end");
  }

 private:
  /// Operands with the operators of one level between them, from left to right.
  void chain(std::span<const Binary> operators, void (ExpressionReader::*operand)()) {
    (this->*operand)();
    while (const Binary* const found = take_one(operators)) {
      (this->*operand)();
      add(*found);
    }
  }

  void condition() { chain(kConjunctions, &ExpressionReader::comparison); }
  void sum() { chain(kSums, &ExpressionReader::product); }
  void product() { chain(kProducts, &ExpressionReader::factor); }

  void comparison() {
    sum();
    if (const Binary* const found = take_one(kComparisons)) {
      sum();
      add(*found);
    }
  }

  void factor() {
    skip_blanks();
    if (at_ < text_.size() && is_digit(text_[at_])) return number();
    if (take("(")) {
      condition();
      return expect(")");
    }
    const std::string_view name = take_name();
    if (name.empty()) fail("a number, a name or '('");
    if (!take("(")) return push({.kind = Kind::Value, .slot = slot_of_(name)});
    function(name);
    expect(")");
  }

  void number() {
    char* end = nullptr;
    const std::string rest(text_.substr(at_));
    const double value = std::strtod(rest.c_str(), &end);
    at_ += static_cast<size_t>(end - rest.c_str());
    push({.kind = Kind::Number, .number = value});
  }

  void function(std::string_view name) {
    for (const Unary& known : kFunctions) {
      if (name != known.name) continue;
      sum();
      return push({.kind = Kind::Unary, .unary = known.of});
    }
    for (const Binary& known : kFunctionsOfTwo) {
      if (name != known.name) continue;
      sum();
      expect(",");
      sum();
      return add(known);
    }
    fail("min, max, floor, ceil, cbrt or sqrt before '('");
  }

  std::string_view take_name() {
    const size_t start = at_;
    while (at_ < text_.size()) {
      if (is_letter(text_[at_]) || (at_ > start && is_digit(text_[at_]))) {
        ++at_;
      } else if (starts_greek(text_[at_]) && at_ + 1 < text_.size()) {
        at_ += 2;
      } else {
        break;
      }
    }
    return text_.substr(start, at_ - start);
  }

  void skip_blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  bool take(std::string_view word) {
    skip_blanks();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  /// The operator that comes next, if it is one of these.
  const Binary* take_one(std::span<const Binary> operators) {
    for (const Binary& known : operators) {
      if (take(known.name)) return &known;
    }
    return nullptr;
  }

  void expect(std::string_view word) {
    if (!take(word)) fail(fmt::format("'{}'", word));
  }

  [[noreturn]] void fail(const std::string& expected) const {
    throw Error(Code::InvalidArgument,
                fmt::format("formula '{}': {} was expected at byte {}", text_, expected, at_ + 1));
  }

  void push(const Expression::Item& item) {
    into_.items_.push_back(item);
    const bool operand = item.kind == Kind::Number || item.kind == Kind::Value;
    if (operand && ++depth_ > Expression::kDeepest) fail("fewer nested operands");
  }

  void add(const Binary& found) {
    push({.kind = Kind::Binary, .binary = found.of});
    --depth_;
  }

  std::string_view text_;
  const Expression::SlotOf& slot_of_;
  Expression& into_;
  size_t at_ = 0, depth_ = 0;
};

Expression::Expression(std::string_view text, const SlotOf& slot_of) { ExpressionReader(text, slot_of, *this).read(); }

double Expression::operator()(std::span<const double> values) const {
  std::array<double, kDeepest> stack{};
  size_t top = 0;  // operands on the stack
  for (const Item& item : items_) {
    switch (item.kind) {
      case Kind::Number:
        stack[top++] = item.number;
        break;
      case Kind::Value:
        stack[top++] = values[item.slot];
        break;
      case Kind::Unary:
        stack[top - 1] = item.unary(stack[top - 1]);
        break;
      case Kind::Binary:
        --top;
        stack[top - 1] = item.binary(stack[top - 1], stack[top]);
        break;
    }
  }
  return stack[0];
}

}  // namespace tutti::train::planner
