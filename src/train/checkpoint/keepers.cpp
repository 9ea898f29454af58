#include "train/checkpoint/keepers.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace tutti::train {

// The ranks in the order of their hosts, those with most ranks first. With m the most ranks of a host, the keeper of
// each is m places further on, round the end: past its own host's, and short of them again if 2m ≤ n.
//
//     hosts a b a c a b     order 0 2 4 | 1 5 | 3     m = 3     keepers of 0 2 4 1 5 3: 1 5 3 0 2 4
std::vector<int> keepers(const std::vector<std::string>& hosts) {
  std::map<std::string, size_t> sizes;
  for (const std::string& host : hosts) ++sizes[host];
  std::vector<int> order(hosts.size());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](int rank) {
    const std::string& host = hosts[static_cast<size_t>(rank)];
    return std::pair(hosts.size() - sizes[host], host);
  };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key(a) < key(b); });
  const size_t n = hosts.size(), largest = n == 0 ? 0 : sizes[hosts[static_cast<size_t>(order[0])]];
  const size_t shift = largest < n ? largest : n / 2;  // one host: any other rank
  std::vector<int> keepers(n);
  for (size_t i = 0; i < n; ++i) keepers[static_cast<size_t>(order[i])] = order[(i + shift) % n];
  return keepers;
}

}  // namespace tutti::train
