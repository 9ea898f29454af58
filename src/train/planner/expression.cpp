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
  void condition() {
    comparison();
    while (take("and ")) {
      comparison();
      add(Kind::And);
    }
  }

  void comparison() {
    sum();
    for (const auto& [word, kind] :
         {std::pair{"<", Kind::Less}, std::pair{"≤", Kind::AtMost}, std::pair{">", Kind::Greater},
          std::pair{"≥", Kind::AtLeast}, std::pair{"=", Kind::Equal}}) {
      if (!take(word)) continue;
      sum();
      return add(kind);
    }
  }

  void sum() {
    product();
    for (;;) {
      const bool plus = take("+");
      if (!plus && !take("−")) return;
      product();
      add(plus ? Kind::Add : Kind::Subtract);
    }
  }

  void product() {
    factor();
    for (;;) {
      const bool times = take("·");
      if (!times && !take("/")) return;
      factor();
      add(times ? Kind::Multiply : Kind::Divide);
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
    if (!take("(")) return push({Kind::Value, 0, slot_of_(name)});
    function(name);
    expect(")");
  }

  void number() {
    char* end = nullptr;
    const std::string rest(text_.substr(at_));
    const double value = std::strtod(rest.c_str(), &end);
    at_ += static_cast<size_t>(end - rest.c_str());
    push({Kind::Number, value, 0});
  }

  void function(std::string_view name) {
    for (const auto& [known, kind] :
         {std::pair{"floor", Kind::Floor}, std::pair{"ceil", Kind::Ceil}, std::pair{"cbrt", Kind::Cbrt}}) {
      if (name != known) continue;
      sum();
      return push({kind});
    }
    if (name != "min" && name != "max") fail("min, max, floor, ceil or cbrt before '('");
    sum();
    expect(",");
    sum();
    add(name == "min" ? Kind::Min : Kind::Max);
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

  /// An operator of two operands.
  void add(Kind kind) {
    push({kind});
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
    if (item.kind == Kind::Number || item.kind == Kind::Value) {
      stack[top++] = item.kind == Kind::Number ? item.number : values[item.slot];
      continue;
    }
    double& last = stack[top - 1];
    switch (item.kind) {
      case Kind::Floor:
        last = std::floor(last);
        continue;
      case Kind::Ceil:
        last = std::ceil(last);
        continue;
      case Kind::Cbrt:
        last = std::cbrt(last);
        continue;
      default:
        break;
    }
    const double right = stack[--top];
    double& left = stack[top - 1];
    switch (item.kind) {
      case Kind::Add:
        left += right;
        break;
      case Kind::Subtract:
        left -= right;
        break;
      case Kind::Multiply:
        left *= right;
        break;
      case Kind::Divide:
        left /= right;
        break;
      case Kind::Less:
        left = left < right ? 1 : 0;
        break;
      case Kind::AtMost:
        left = left <= right ? 1 : 0;
        break;
      case Kind::Greater:
        left = left > right ? 1 : 0;
        break;
      case Kind::AtLeast:
        left = left >= right ? 1 : 0;
        break;
      case Kind::Equal:
        left = left == right ? 1 : 0;
        break;
      case Kind::And:
        left = left != 0 && right != 0 ? 1 : 0;
        break;
      case Kind::Min:
        left = std::min(left, right);
        break;
      case Kind::Max:
        left = std::max(left, right);
        break;
      default:
        break;
    }
  }
  return stack[0];
}

}  // namespace tutti::train::planner
