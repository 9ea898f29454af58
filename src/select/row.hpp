// A row: everything that is decided about a call before it runs. One function decides it (select/select.hpp), and rank
// 0 sends it to all ranks. Nothing changes it later: a planner only caches programs.
#pragma once

#include <cstdint>
#include <string>

#include "exec/compile/delivery.hpp"
#include "exec/execution.hpp"
#include "exec/method.hpp"
#include "plan/algorithm.hpp"

namespace tutti::select {

struct Row {
  const plan::Algorithm* algorithm = nullptr;  ///< null: "direct", each block straight to its receiver
  const exec::Method* method = &exec::methods::lanes;
  uint64_t window = 0;             ///< bytes of a block (direct: of a message) that one round moves, at most
  uint32_t width = 1;              ///< replicas of the plan's lanes, over disjoint windows
  exec::DeliveryRules deliveries;  ///< from how many bytes on a message is delivered in which way
  std::string refused = "";        ///< not empty: a call of this kind cannot run as the user demands, and this says why
  bool operator==(const Row&) const = default;
};

/// What a row depends on beside collective and size; equal on all ranks.
struct CallKind {
  DType type = DType::F32;
  Op op = Op::Sum;
};

/// The name of the row's algorithm.
inline const char* name_of_algorithm(const Row& row) {
  return row.algorithm == nullptr ? "direct" : row.algorithm->name;
}

/// Bytes of a block that each round moves: all rounds move about as much, since a short last round would be staged
/// while the others are zero-copy; and each replica as much as another.
uint64_t window_for(const Row& row, uint64_t block);

/// "4 MiB windows, width 2": what of a row is no name. `block`: bytes.
std::string sizes_text(const Row& row, uint64_t block);
/// "zcopy and mapped from 8K, cma from 8K, shorter ones staged".
std::string deliveries_text(const exec::DeliveryRules& rules);

}  // namespace tutti::select
