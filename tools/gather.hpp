// What each rank has to say, on all ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tutti/tutti.hpp"

namespace tutti::tools {

/// The texts of all ranks, in order. All ranks call it.
inline std::vector<std::string> gather(Communicator& comm, const std::string& mine) {
  const auto ranks = static_cast<size_t>(comm.size());
  std::vector<uint64_t> length(1, mine.size()), lengths(ranks);
  comm.all_gather(length, lengths);
  const size_t most = std::max<uint64_t>(1, *std::max_element(lengths.begin(), lengths.end()));
  std::vector<uint8_t> in(most), out(most * ranks);
  std::copy(mine.begin(), mine.end(), in.begin());
  comm.all_gather(in, out);
  std::vector<std::string> texts;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const auto begin = out.begin() + static_cast<ptrdiff_t>(rank * most);
    texts.emplace_back(begin, begin + static_cast<ptrdiff_t>(lengths[rank]));
  }
  return texts;
}

}  // namespace tutti::tools
