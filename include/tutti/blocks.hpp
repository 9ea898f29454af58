// The blocks of a vector call, which may differ in length.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <string>

namespace tutti {

/// Block r of a buffer has counts[r] elements, from element displacements[r] on; without displacements the blocks are
/// contiguous. One entry per rank. Written as `counts` or `{counts, displacements}`: arrays, vectors or spans of
/// size_t. Does not own them; calls read them before they return, also in groups and on streams.
class Blocks {
 public:
  /// For ranks that do not use the buffer: `{}`.
  Blocks() = default;
  template <std::convertible_to<std::span<const size_t>> Counts>
  Blocks(Counts&& counts, std::span<const size_t> displacements = {})  // NOLINT: converts
      : counts_(counts), displacements_(displacements) {}

  const size_t* counts() const { return counts_.data(); }
  /// Null if there are none.
  const size_t* displacements() const { return displacements_.empty() ? nullptr : displacements_.data(); }
  /// Why `ranks` such blocks do not fit in a buffer of `elements`; "" if they do.
  std::string objection(size_t ranks, size_t elements) const {
    if (counts_.size() != ranks || (!displacements_.empty() && displacements_.size() != ranks)) {
      return "there are " + std::to_string(counts_.size()) + " counts and " + std::to_string(displacements_.size()) +
             " displacements for " + std::to_string(ranks) + " ranks";
    }
    size_t packed = 0;
    for (size_t r = 0; r < ranks; ++r) {
      const size_t begin = displacements_.empty() ? packed : displacements_[r];
      if (counts_[r] > elements || begin > elements - counts_[r]) {
        return "block " + std::to_string(r) + " (" + std::to_string(counts_[r]) + " elements from " +
               std::to_string(begin) + " on) goes beyond the buffer, which has " + std::to_string(elements);
      }
      packed += counts_[r];
    }
    return "";
  }

 private:
  std::span<const size_t> counts_, displacements_;
};

}  // namespace tutti
