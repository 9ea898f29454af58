// The interface of algorithms, and the catalogue of those that exist.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "plan/builder.hpp"

namespace tutti::plan {

/// An exact non-negative fraction, kept in lowest terms.
class Ratio {
 public:
  constexpr Ratio(int64_t num = 0, int64_t den = 1) : num_(num), den_(den) { reduce(); }  // NOLINT: 3 is a ratio
  constexpr int64_t num() const { return num_; }
  constexpr int64_t den() const { return den_; }
  constexpr double value() const { return static_cast<double>(num_) / static_cast<double>(den_); }
  friend constexpr Ratio operator+(Ratio a, Ratio b) { return {a.num_ * b.den_ + b.num_ * a.den_, a.den_ * b.den_}; }
  friend constexpr Ratio operator*(Ratio a, Ratio b) { return {a.num_ * b.num_, a.den_ * b.den_}; }
  friend constexpr bool operator==(Ratio a, Ratio b) { return a.num_ == b.num_ && a.den_ == b.den_; }
  friend constexpr bool operator<(Ratio a, Ratio b) { return a.num_ * b.den_ < b.num_ * a.den_; }

 private:
  constexpr void reduce() {
    int64_t a = num_, b = den_;
    while (b != 0) {
      const int64_t rest = a % b;
      a = b;
      b = rest;
    }
    if (a > 1) num_ /= a, den_ /= a;
  }
  int64_t num_;
  int64_t den_;
};

/// The closed-form cost of an algorithm. Amounts are in units of the call's `count` (one block, or the whole buffer
/// where there are no blocks), each for the rank with the largest.
struct Cost {
  int64_t rounds = 0;  ///< messages on the longest chain of dependent messages
  Ratio sent;          ///< sent by a rank, each peer counted
  Ratio received;      ///< received by a rank
  Ratio folded;        ///< elements combined by a rank: (operands − 1) × length, summed over its folds
  int64_t stages = 0;  ///< sets of peers that a rank's lanes publish to: they share its staging memory
  Ratio message;       ///< the largest message
  Ratio link;          ///< the most that goes over one link; 0: at most one message
  Ratio chain;         ///< the largest sum of a chain of dependent messages; 0: rounds · message
  /// What one rank copies into staging memory (a message to several peers once) and out of it, together. 0: unknown. It
  /// is needed of reduces, whose calls overlap (select/model.hpp).
  Ratio handled;

  /// The part of the above that goes between groups.
  struct Between {
    int64_t rounds = 0;
    Ratio moved;         ///< the larger of sent and received
    Ratio chain;         ///< the largest sum of a chain of dependent messages
    int64_t stages = 0;  ///< with peers of other groups
  };
  Ratio busiest_link() const { return link == Ratio(0) ? message : link; }
  std::optional<Between> between;  ///< an upper bound, for a shape with groups; without it, all may go between groups

  /// Does an algorithm that claims this do that?
  bool claims(const Cost& counted) const {
    return *this == counted && (handled == Ratio(0) || handled == counted.handled);
  }
  /// Compares what all algorithms claim and count() counts: not `chain`, `between` and `handled`.
  friend bool operator==(const Cost& a, const Cost& b) {
    return std::tie(a.rounds, a.sent, a.received, a.folded, a.stages, a.message) ==
               std::tie(b.rounds, b.sent, b.received, b.folded, b.stages, b.message) &&
           a.busiest_link() == b.busiest_link();
  }
};

/// A function of the shape or, for algorithms that ignore groups, of the number of ranks.
template <class Answer>
class OfShape {
 public:
  OfShape() = default;
  template <class Function>
  OfShape(Function function) {  // NOLINT: .cost = cost
    if constexpr (std::is_invocable_v<Function, const Shape&>) {
      of_shape_ = std::move(function);
    } else {
      of_shape_ = [function = std::move(function)](const Shape& shape) { return function(shape.ranks); };
    }
  }
  Answer operator()(const Shape& shape) const { return of_shape_(shape); }

 private:
  std::function<Answer(const Shape&)> of_shape_;
};

struct Algorithm {
  Collective collective = Collective::AllReduce;
  const char* name = "";
  const char* summary = "";
  OfShape<bool> allows;
  std::function<void(const Shape& shape, Rank me, PlanBuilder& plan)> generate;
  OfShape<Cost> cost;          ///< depends on the sizes of groups and their order only
  bool direct_stores = false;  ///< a reader copies a fold unchanged, so the rank that folds may store it there
  bool lends = false;          ///< lends all its messages, in place or not, and gains nothing from short windows:
                               ///< where messages are read at their address, staging does not limit the window
  bool canonical = false;  ///< folds in the canonical order (see is_canonical), whatever n and root; of reductions only
};

inline bool any_number(Rank) { return true; }
inline bool power_of_two(Rank n) { return n > 0 && (n & (n - 1)) == 0; }
/// For algorithms that work along groups.
inline bool grouped(const Shape& shape) { return shape.groups != nullptr; }

/// Works for this number of ranks along groups only.
bool needs_groups(const Algorithm& algorithm, Rank ranks);

/// Registers an algorithm; a file of algorithms/ has one for each of its collectives.
class Registration {
 public:
  explicit Registration(const Algorithm& algorithm);
};

/// All algorithms of a collective, sorted by name, without adopted plans.
std::vector<const Algorithm*> algorithms_of(Collective collective);
/// The algorithm of that name, adopted plans included; null if there is none.
const Algorithm* find_algorithm(Collective collective, std::string_view name);

/// Adopts plans from outside as an algorithm for their number of ranks. Its name is `name` and the plans' hash,
/// "mine@1f3a…". Verifies the plans, unless the same ones have been adopted before. Lives as long as the process.
/// Throws Error(InvalidArgument) with the fault of the plans. Thread-safe.
const Algorithm& adopt(std::string_view name, std::vector<RankPlan> plans);

/// Rank `me`'s plan, in time and memory of its own steps. Throws Error(Unsupported) if the algorithm does not allow the
/// shape, Error(InvalidArgument) if its groups are of another number of ranks.
RankPlan generate(const Algorithm& algorithm, const Shape& shape, Rank me);
/// All ranks' plans, for the verifier, the simulator and drawings.
std::vector<RankPlan> generate_all(const Algorithm& algorithm, const Shape& shape);
inline std::vector<RankPlan> generate_all(const Algorithm& algorithm, Rank ranks) {
  return generate_all(algorithm, Shape{algorithm.collective, ranks});
}

}  // namespace tutti::plan
