// What an algorithm is to the rest of the house, and the list of those that exist.
#pragma once

#include <cstdint>
#include <string_view>
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
/// where there are no blocks) and are those of the busiest rank, whichever rank that is for each figure.
struct Cost {
  int64_t rounds = 0;  ///< messages on the longest chain of dependent messages
  Ratio sent;          ///< sent by a rank, each peer counted
  Ratio received;      ///< received by a rank
  Ratio folded;        ///< elements combined by a rank: (operands − 1) × length, summed over its folds
  int64_t stages = 0;  ///< sets of peers a rank publishes to, lane by lane: what its staging memory is divided by
  Ratio message;       ///< the largest message
};

struct Algorithm {
  Collective collective = Collective::AllReduce;
  const char* name = "";
  const char* summary = "";
  bool (*allows)(Rank ranks) = nullptr;
  void (*generate)(const Shape& shape, Rank me, PlanBuilder& plan) = nullptr;
  Cost (*cost)(Rank ranks) = nullptr;
  bool canonical = false;  ///< folds in the canonical order (see is_canonical), whatever n; of reductions only
};

inline bool any_number(Rank) { return true; }
inline bool power_of_two(Rank n) { return n > 0 && (n & (n - 1)) == 0; }

/// Makes an algorithm known; a file of algorithms/ has one of these for each collective it serves.
class Registration {
 public:
  explicit Registration(const Algorithm& algorithm);
};

/// All algorithms of a collective, by name.
std::vector<const Algorithm*> algorithms_of(Collective collective);
/// Null where there is none of that name.
const Algorithm* find_algorithm(Collective collective, std::string_view name);

/// Rank `me`'s plan: time and memory of its own steps. Throws Error(Unsupported) where the algorithm does not allow n.
RankPlan generate(const Algorithm& algorithm, const Shape& shape, Rank me);
/// Every rank's plan: for the verifier, the simulator and drawings.
std::vector<RankPlan> generate_all(const Algorithm& algorithm, Rank ranks);

}  // namespace tutti::plan
