#include "train/core/hosts.hpp"

#include <unistd.h>

namespace tutti::train {

std::vector<std::string> hosts_of(Communicator& world) {
  constexpr size_t kHostBytes = 64;
  std::vector<char> mine(kHostBytes), all(kHostBytes * static_cast<size_t>(world.size()));
  gethostname(mine.data(), mine.size() - 1);
  world.all_gather(mine, all);
  std::vector<std::string> hosts;
  for (size_t at = 0; at < all.size(); at += kHostBytes) {
    all[at + kHostBytes - 1] = '\0';
    hosts.emplace_back(all.data() + at);
  }
  return hosts;
}

}  // namespace tutti::train
