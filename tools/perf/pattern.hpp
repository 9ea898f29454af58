// Test data for collectives: inputs whose results are exact, and those results.
//
// A check with tolerance 0 needs folds without rounding, in any order and bracketing:
//
//   copying      any bits at all
//   sum          floats: integers whose absolute values, added over all ranks, stay within the type's exact integers,
//                so every partial sum is one too. Where the type holds fewer integers than there are ranks (f8e5m2: 8),
//                only as many ranks contribute to an element as it holds, which ones changes from element to element,
//                and the others give 0. Integers: any bits; they wrap alike in any order.
//   prod         floats: powers of two, whose exponents stay within range in any order, and one rank with a full
//                mantissa. Integers: any odd numbers, and one rank's any at all
//   min, max     any finite numbers but zeros (-0 = +0, but their bits differ)
//   avg          floats: as sum, with a sum that is n times a number of the type, where the type holds n; else the
//                nearest number to sum/n. Integers: sums that do not wrap; sum/n is rounded towards zero
//   premulsum    scalars ±½, ±1, ±2, ±4; inputs are sum's divided by them. Integers: any odd scalars
//
// Every element depends on its rank and on its index, so that a misplaced chunk, or one folded twice or not at all, is
// detected. Values repeat after kPeriod elements (a prime that divides no chunk's size), each time rotated by a
// different amount; so large buffers are filled and checked at memory speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "tutti/types.hpp"

namespace tutti::tools {

/// The data of one call of a collective.
struct CallShape {
  Collective collective = Collective::AllReduce;
  DType type = DType::F32;
  Op op = Op::Sum;  ///< if it folds
  int ranks = 1;
  int root = 0;      ///< if it has one
  size_t count = 0;  ///< elements, as in the call of the C interface
};

/// The result of a check.
struct Verdict {
  size_t wrong = 0;                ///< elements
  size_t first = 0;                ///< index of the first of them
  uint64_t got = 0, expected = 0;  ///< its bits
};

/// Values that patterns of the same seed and number of ranks share: making them takes most of a check's time. Not
/// thread-safe.
class ValueTables {
 public:
  /// A rank's values, or the fold of all, in calls that fold with `op` or only copy.
  using Key = std::tuple<DType, std::optional<Op>, int>;
  std::vector<std::byte>& operator[](const Key& key) { return tables_[key]; }

 private:
  std::map<Key, std::vector<std::byte>> tables_;
};

/// Not thread-safe; each rank has its own.
class Pattern {
 public:
  static constexpr size_t kPeriod = 8191;

  /// All ranks must pass the same seed; another seed gives other data. `tables`: those of this seed and number of
  /// ranks; null: its own.
  Pattern(const CallShape& shape, uint64_t seed, std::shared_ptr<ValueTables> tables = nullptr);

  /// Makes this rank the root; values do not change.
  void set_root(int root) { shape_.root = root; }

  /// Elements of a rank's input and output; 0 if it has none (reduce: only the root has output).
  size_t input_count(int rank) const;
  size_t output_count(int rank) const;

  /// Writes the rank's whole input.
  void fill_input(int rank, std::byte* input);
  /// Compares the rank's whole output with the expected result, bit by bit.
  Verdict check_output(int rank, const std::byte* output);
  /// Compares the rank's input, which no call may change, with what was filled in.
  Verdict check_input(int rank, const std::byte* input);

  /// The factor of a rank in a pre-multiplied sum: bits of one element.
  uint64_t scalar(int rank) const;
  /// Bits of element `index` of a rank's input.
  uint64_t input_element(int rank, size_t index) const;
  /// Bits of the fold over all ranks of element `index`.
  uint64_t folded_element(size_t index) const;

 private:
  /// A run of elements of one source: a rank's input, or the fold of all.
  struct Run {
    int source;    // rank, or kFold
    size_t first;  // index in the source
    size_t count;
  };
  static constexpr int kFold = -1;

  std::vector<Run> output_runs(int rank) const;
  /// The source's values, one period of them.
  const std::vector<std::byte>& table(int source);
  /// Calls visit(bytes of the source's table, byte offset in the buffer, number of bytes) for each piece of the runs.
  template <class Visit>
  void along(const std::vector<Run>& runs, const Visit& visit);
  Verdict compare(const std::vector<Run>& runs, const std::byte* buffer);
  size_t position(size_t index) const;

  CallShape shape_;
  uint64_t seed_;
  size_t period_;
  std::shared_ptr<ValueTables> tables_;
};

/// An element as text, e.g. "3 (0x40400000)".
std::string element_text(uint64_t bits, DType type);

}  // namespace tutti::tools
