#include "select/islands.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace tutti::select {
namespace {

// Of the rate that a pair reaches alone: two pairs that share a link of that rate have half of it each.
constexpr double kSlowed = 0.7;

/// A number for each pair of hosts, or of clusters of hosts.
class Matrix {
 public:
  explicit Matrix(size_t n) : n_(n), values_(n * n) {}
  double at(size_t a, size_t b) const { return values_[a * n_ + b]; }
  void set(size_t a, size_t b, double value) { values_[a * n_ + b] = values_[b * n_ + a] = value; }

 private:
  size_t n_;
  std::vector<double> values_;
};

/// Merges clusters as long as the pairs between two are, on the average, not slowed: what one pair of them gets of a
/// shared link varies. Returns the number of each host's cluster, by order of their first hosts.
std::vector<size_t> clusters_of(Matrix kept, size_t n) {
  std::vector<size_t> cluster(n), size(n, 1);
  std::iota(cluster.begin(), cluster.end(), size_t{0});
  for (;;) {
    double best = kSlowed;
    HostPair nearest(n, n);
    for (size_t a = 0; a < n; ++a) {
      for (size_t b = a + 1; b < n; ++b) {
        if (size[a] > 0 && size[b] > 0 && kept.at(a, b) > best) best = kept.at(a, b), nearest = {a, b};
      }
    }
    const auto [a, b] = nearest;
    if (a == n) return cluster;
    for (size_t other = 0; other < n; ++other) {
      if (other == a || other == b || size[other] == 0) continue;
      const double of_a = static_cast<double>(size[a]), of_b = static_cast<double>(size[b]);
      kept.set(a, other, (of_a * kept.at(a, other) + of_b * kept.at(b, other)) / (of_a + of_b));
    }
    size[a] += std::exchange(size[b], 0);
    std::replace(cluster.begin(), cluster.end(), b, a);
  }
}

/// What pairs reach, in bytes per second.
struct Rates {
  Matrix beside, alone;
};

/// An island's link carries at least what all pairs that cross it have reached together. Where that is nearly what
/// they reach alone, there is no such link.
void add_islands(const std::vector<std::string>& names, const std::vector<std::vector<HostPair>>& rounds,
                 const Rates& rates, const std::vector<size_t>& cluster, MeasuredHosts& found) {
  for (size_t first = 0; first < names.size(); ++first) {
    MeasuredIsland island;
    for (size_t host = 0; host < names.size(); ++host) {
      if (cluster[host] == first) island.hosts.push_back(names[host]);
    }
    if (island.hosts.size() < 2 || island.hosts.size() == names.size()) continue;
    double most = 0, possible = 0;  // bytes per second
    for (const std::vector<HostPair>& round : rounds) {
      double together = 0, alone = 0;
      for (const auto& [a, b] : round) {
        if ((cluster[a] == first) == (cluster[b] == first)) continue;
        together += rates.beside.at(a, b);
        alone += rates.alone.at(a, b);
      }
      if (together > most) most = together, possible = alone;
    }
    island.beta = 1 / most;
    if (most < kSlowed * possible) found.islands.push_back(std::move(island));
  }
}

}  // namespace

std::vector<std::vector<HostPair>> round_robin(size_t n) {
  std::vector<std::vector<HostPair>> rounds;
  const size_t even = n + n % 2;  // of odd n, whose partner is the host that does not exist pauses
  for (size_t round = 0; round + 1 < even; ++round) {
    std::vector<HostPair> pairs;
    // The circle method: host 0 stays, the others move on by one place in each round; places face each other.
    const auto host_at = [&](size_t place) { return place == 0 ? 0 : (place - 1 + round) % (even - 1) + 1; };
    for (size_t place = 0; place < even / 2; ++place) {
      const auto [a, b] = std::minmax({host_at(place), host_at(even - 1 - place)});
      if (b < n) pairs.emplace_back(a, b);
    }
    rounds.push_back(std::move(pairs));
  }
  return rounds;
}

MeasuredHosts wiring_of(const std::vector<std::string>& names, std::vector<MeasuredPair> pairs,
                        const std::vector<std::vector<double>>& together, const std::vector<double>& at_once,
                        bool pairs_alone) {
  const size_t n = names.size();
  const std::vector<std::vector<HostPair>> rounds = round_robin(n);
  Rates rates{Matrix(n), Matrix(n)};
  std::vector<double> fastest(n);  // of a host's pairs, beside others
  for (size_t round = 0; round < together.size(); ++round) {
    for (size_t i = 0; i < together[round].size(); ++i) {
      const auto [a, b] = rounds.at(round).at(i);
      rates.beside.set(a, b, 1 / together[round][i]);
      for (const size_t host : {a, b}) fastest[host] = std::max(fastest[host], rates.beside.at(a, b));
    }
  }
  MeasuredHosts found;
  std::map<std::string, size_t> numbers;
  for (size_t host = 0; host < n; ++host) {
    found.links[names[host]] = at_once.at(host);
    numbers[names[host]] = host;
  }
  Matrix kept(n);  // of what a pair reaches alone
  for (const MeasuredPair& pair : pairs) {
    const size_t a = numbers.at(pair.a), b = numbers.at(pair.b);
    rates.alone.set(a, b, pairs_alone ? 1 / pair.beta : std::min(fastest[a], fastest[b]));
    kept.set(a, b, rates.beside.at(a, b) / rates.alone.at(a, b));
    for (const std::string& host : {pair.a, pair.b}) {
      double& beta = found.links[host];  // with all others at once, some of them wait for a link elsewhere
      beta = std::min(beta, pair.beta);
    }
  }
  found.pairs = std::move(pairs);
  add_islands(names, rounds, rates, clusters_of(kept, n), found);
  return found;
}

}  // namespace tutti::select
