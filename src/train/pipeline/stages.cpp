// Where to cut a model into stages.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "tutti/train/pipeline.hpp"

namespace tutti::train {

std::vector<Chunk> balanced_stages(std::span<const double> costs, int stages) {
  const size_t units = costs.size(), parts = static_cast<size_t>(std::max(stages, 1));
  if (stages < 1 || units < parts) {
    throw Error(Code::InvalidArgument,
                fmt::format("{} units cannot be cut into {} stages: each stage (pp x chunks) has at least one; take "
                            "more layers, or fewer stages",
                            units, stages));
  }
  std::vector<double> before(units + 1, 0);  // the sum of all costs before a unit
  for (size_t i = 0; i < units; ++i) before[i + 1] = before[i] + costs[i];
  // least[k][i]: the smallest possible maximum when the first i units are k stages; cut[k][i]: where the k-th begins.
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> least(parts + 1, std::vector<double>(units + 1, kNever));
  std::vector<std::vector<size_t>> cut(parts + 1, std::vector<size_t>(units + 1, 0));
  least[0][0] = 0;
  for (size_t k = 1; k <= parts; ++k) {
    for (size_t i = k; i <= units; ++i) {
      for (size_t first = k - 1; first < i; ++first) {
        const double most = std::max(least[k - 1][first], before[i] - before[first]);
        if (most < least[k][i]) {
          least[k][i] = most;
          cut[k][i] = first;
        }
      }
    }
  }
  std::vector<Chunk> chunks(parts);
  for (size_t k = parts, last = units; k > 0; --k) {
    chunks[k - 1] = {cut[k][last], last};
    last = cut[k][last];
  }
  return chunks;
}

}  // namespace tutti::train
