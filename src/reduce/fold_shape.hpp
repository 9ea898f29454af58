#pragma once

#include <cstdint>

namespace tutti {

/// How the operands of a fold are bracketed. Left: ((a0+a1)+a2)+a3 …  Tree: the canonical order of the operands:
/// with e = k − 2^⌊log2 k⌋, leaves (0+1), (2+3), … (2e−2 + 2e−1), 2e, … k−1, and the perfect binary tree over those.
enum class FoldShape : uint8_t { Left, Tree };

}  // namespace tutti
