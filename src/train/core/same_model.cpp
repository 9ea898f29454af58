// All ranks must train the same model: a difference would end in a mismatch, or worse in a wrong sum, much later.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "tutti/train/collectives.hpp"
#include "tutti/train/parameters.hpp"

namespace tutti::train {
namespace {

constexpr size_t kTextBytes = 400;

/// Where `mine` first differs from rank 0's `theirs`; "" if nowhere.
std::string first_difference(const std::string& mine, const std::string& theirs) {
  std::istringstream here(mine), there(theirs);
  while (true) {
    std::string a, b;
    const bool more_here = static_cast<bool>(std::getline(here, a));
    const bool more_there = static_cast<bool>(std::getline(there, b));
    if (!more_here && !more_there) return "";
    if (a == b) continue;
    return fmt::format("has {} where rank 0 has {}", more_here ? a : "nothing more", more_there ? b : "nothing more");
  }
}

}  // namespace

void check_same(Communicator& world, const char* what, const std::string& mine) {
  if (world.size() == 1) return;
  uint64_t length = mine.size();
  world.broadcast(length, 0);
  std::string theirs = mine;
  theirs.resize(length);
  world.broadcast(theirs, 0);
  std::array<char, kTextBytes> difference{};
  const std::string text = first_difference(mine, theirs);
  text.copy(difference.data(), difference.size() - 1);
  std::vector<char> all(kTextBytes * static_cast<size_t>(world.size()));
  world.all_gather(difference, all);
  for (size_t rank = 0; rank < static_cast<size_t>(world.size()); ++rank) {
    const char* const found = all.data() + rank * kTextBytes;
    if (*found == '\0') continue;
    throw Error(Code::Mismatch, fmt::format("the ranks' {} differ: rank {} {}; start all ranks with the same options "
                                            "and text",
                                            what, rank, found));
  }
}

}  // namespace tutti::train
