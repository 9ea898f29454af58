// Where a call runs, as the body of an operation sees it: memory of the host, or of the rank's GPU.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <utility>
#include <vector>

#include "tutti/check.hpp"
#include "tutti/tutti.h"

namespace tutti_torch {

/// What has to wait until a group of calls has been enqueued: copies of results, and temporary tensors.
struct Postponed {
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;  ///< to, from
  std::vector<at::Tensor> kept;
};

struct Target {
  tuttiComm_t comm = nullptr;
  /// Null: a blocking call, of the host. Else the GPU's; the call is enqueued.
  tuttiStream_t stream = nullptr;
  /// Not null where the calls are one group with those of other operations.
  Postponed* postponed = nullptr;
};

/// What an operation does: its calls. It throws.
using Body = std::function<void(const Target&)>;

/// Calls that run together.
template <class Calls>
void grouped(const Calls& calls) {
  tutti::check(tuttiGroupStart());
  try {
    calls();
  } catch (...) {
    tuttiGroupDiscard();
    throw;
  }
  tutti::check(tuttiGroupEnd());
}

}  // namespace tutti_torch
