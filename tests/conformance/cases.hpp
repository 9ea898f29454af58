// The calls of the conformance table, and the sweeps that list them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/perf/pattern.hpp"

namespace tutti::conformance {

/// One call. `grouped`: a group of sends and receives that does what an all_to_all does.
struct Case {
  tools::CallShape shape;
  bool in_place = false;
  bool grouped = false;
};

/// "all_reduce(count=17, f32, sum) of 5 ranks, in place".
std::string describe(const Case& c);

/// The table's row of a case.
inline Collective row_of(const Case& c) { return c.grouped ? Collective::SendRecv : c.shape.collective; }

/// A list of cases: all combinations of these.
struct Sweep {
  std::vector<DType> types;
  std::vector<Op> ops;
  std::vector<size_t> counts;  ///< elements
};

/// Every type and operator on few counts; or few types on many counts, around the edges of descriptors (40 bytes) and
/// of zero-copy (8192 bytes).
Sweep all_kinds(int ranks, bool exhaustive);
Sweep many_sizes(bool exhaustive);
/// For forced algorithms.
Sweep few_kinds(int ranks);

/// All cases of a sweep, in place and out of place as the interface allows; copies and sums with every root.
std::vector<Case> list_cases(const Sweep& sweep, int ranks);

}  // namespace tutti::conformance
