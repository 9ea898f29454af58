// What the collectives of a step cost where something knows better than the formulas' rings: the selector, on the
// topology of the job. For each call and group of ranks there is a curve of times by size.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace tutti::train::planner {

/// Message: from each rank to another one.
enum class Call { AllReduce, AllGather, ReduceScatter, AllToAll, Message };
constexpr const char* name_of(Call call) {
  constexpr const char* kNames[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "message"};
  return kNames[static_cast<int>(call)];
}

/// Ranks, of which so many share a host.
struct Group {
  int64_t ranks = 1, in_host = 1;
  friend auto operator<=>(const Group&, const Group&) = default;
};

/// One call of a step: `count` of them make up the row `row`.
struct StepCall {
  const char* row;
  Call call;
  Group group;
  double bytes = 0;  ///< of the whole buffer
  double count = 1;
};

/// The calls whose times are rows of step_sheet() (t_tp, t_cp, t_ep, t_rs, t_ag, t_pp), of a layout whose volumes are
/// known. A row's time is the sum of its calls'.
std::vector<StepCall> calls_of(std::span<const double> values);

class CallTimes {
 public:
  /// Sizes of a curve: powers of two, from the first to the last.
  static constexpr int kFirst = 10, kLast = 38;
  /// Seconds for each of these sizes, of the whole buffer.
  using Curve = std::vector<double>;
  using Ask = std::function<Curve(Call, Group)>;

  /// `ask` is asked once for each curve that is needed.
  explicit CallTimes(Ask ask) : ask_(std::move(ask)) {}

  /// Between sizes, and beyond the last ones, on a straight line; below the first one, that one's.
  double seconds(Call call, Group group, double bytes);
  /// Gives the rows of calls_of() their times.
  void set(std::vector<double>& values);

  /// Those that were needed so far.
  const std::map<std::pair<Call, Group>, Curve>& curves() const { return curves_; }

 private:
  Ask ask_;
  std::map<std::pair<Call, Group>, Curve> curves_;
};

}  // namespace tutti::train::planner
