#include "tutti/train/attention.hpp"
#include "tutti/train/parallel.hpp"

namespace tutti::train {

std::vector<int32_t> context_positions(ContextMode mode, size_t length, int rank, int ranks) {
  const auto r = static_cast<size_t>(rank), n = static_cast<size_t>(ranks);
  const bool zigzag = mode == ContextMode::Ring && n > 1;
  check_divides(zigzag ? "2 x cp" : "cp", zigzag ? 2 * n : n, "the length of a sequence", length);
  const size_t chunk = zigzag ? length / (2 * n) : length / n;
  std::vector<int32_t> positions;
  for (size_t i = 0; i < chunk; ++i) positions.push_back(static_cast<int32_t>(r * chunk + i));
  if (!zigzag) return positions;
  for (size_t i = 0; i < chunk; ++i) positions.push_back(static_cast<int32_t>((2 * n - 1 - r) * chunk + i));
  return positions;
}

}  // namespace tutti::train
