#include "train/checkpoint/keepers.hpp"

#include <algorithm>
#include <numeric>

namespace tutti::train {

// The ranks in the order of their hosts, as a ring. The keeper of each is half the ring further on: past its own host's
// ranks, and short of them again, if these are at most half of all.
//
//     hosts a b a c a b     order 0 2 4 | 1 5 | 3     keepers of 0 2 4 1 5 3: 1 5 3 0 2 4
std::vector<int> keepers(const std::vector<std::string>& hosts) {
  const size_t n = hosts.size();
  std::vector<int> order(n), keepers(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return hosts[static_cast<size_t>(a)] < hosts[static_cast<size_t>(b)]; });
  for (size_t i = 0; i < n; ++i) keepers[static_cast<size_t>(order[i])] = order[(i + n / 2) % n];
  return keepers;
}

}  // namespace tutti::train
