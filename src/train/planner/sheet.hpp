// The planner's formulas are a table, like a spreadsheet: each row is a name, a formula over the rows above and the
// inputs, a unit, a meaning and a source. What is computed is what is shown: there is no second version in code. The
// page of `tutti lab` evaluates the same rows in JavaScript, and so does a test in Python.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "train/planner/expression.hpp"
#include "tutti/error.hpp"

namespace tutti::train::planner {

/// Throws Error(InvalidArgument).
template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(Code::InvalidArgument, fmt::format(text, std::forward<Args>(args)...));
}

/// The parts of the table, in the order of its rows.
enum class Part { Layout, Memory, Links, Volume, Time };
constexpr const char* name_of(Part part) {
  constexpr const char* kNames[] = {"layout", "memory", "links", "volume", "time"};
  return kNames[static_cast<int>(part)];
}

/// A given value.
struct Input {
  const char* name;
  const char* unit;   ///< as Row::unit
  const char* label;  ///< its meaning
};

/// Rows of one name follow each other; the first whose condition holds gives the value.
struct Row {
  Part part;
  const char* name;
  const char* when;  ///< condition; "" always
  const char* formula;
  /// "B", "s", "s/B", "B/s", "FLOP", "FLOP/s", "token", "token/s", "h", "d", "$", "share" (0 to 1) or "" (a number)
  const char* unit;
  const char* label;
  const char* source;  ///< paper and section, or "" where it is plain arithmetic
};

/// A value of one row, with the formula that gave it.
struct Figure {
  const Row* row;
  double value;
  const char* formula;  ///< the row's, or "given" for a value that was an input instead
};

class Sheet {
 public:
  /// Throws Error(InvalidArgument) if a row uses a name that neither an input nor a row above it has.
  Sheet(std::span<const Input> inputs, std::span<const Row> rows);

  std::span<const Input> inputs() const { return inputs_; }
  std::span<const Row> rows() const { return rows_; }

  /// Where the value of a name is. Throws Error(InvalidArgument) for an unknown name.
  size_t slot(std::string_view name) const;

  /// One place for each name; nothing is known.
  std::vector<double> blank() const;

  /// Computes the rows of these parts. A row that is already known keeps its value: so a better model (measured costs
  /// of collectives, say) replaces rows by giving them as inputs.
  void evaluate(std::vector<double>& values, Part first, Part last) const;

  /// All rows that apply, with their values.
  std::vector<Figure> figures(std::span<const double> values) const;

 private:
  struct Compiled {
    Part part;
    size_t slot;
    std::optional<Expression> when;
    Expression formula;
  };

  std::span<const Input> inputs_;
  std::span<const Row> rows_;
  std::unordered_map<std::string, size_t> slots_;
  std::vector<Compiled> compiled_;
};

}  // namespace tutti::train::planner
