#include "select/order.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

namespace tutti::select {
namespace {

using topo::NodeId;

constexpr double kBetter = 0.98;     // of the communicator's own order: nothing is renamed for less
constexpr Rank kMaxSwapped = 32;     // ranks, in orders that are improved step by step
constexpr Rank kMaxSearched = 16;    // ranks, in orders for one algorithm, whose plans are drawn on each
constexpr size_t kMaxTurned = 64;    // hosts, in circles that are improved step by step
constexpr double kBytes = 64 << 10;  // of a message: at this size its latency counts, and its bytes too

/// The nodes that a rank lies in, the host first.
std::vector<NodeId> way_down(const topo::Graph& graph, NodeId node) {
  std::vector<NodeId> way;
  for (; node != topo::kNoNode; node = graph.nodes[node].parent) way.push_back(node);
  std::reverse(way.begin(), way.end());
  return way;
}

/// What a message takes between the first ranks of two hosts, in seconds.
using BetweenHosts = std::vector<std::vector<double>>;

BetweenHosts seconds_between_hosts(const Pairs& pairs) {
  const std::vector<Rank>& hosts = pairs.places().hosts;
  std::vector<Rank> first;  // rank of each host
  for (Rank rank = 0; rank < pairs.ranks(); ++rank) {
    if (static_cast<size_t>(hosts[static_cast<size_t>(rank)]) == first.size()) first.push_back(rank);
  }
  BetweenHosts seconds(first.size());
  for (size_t from = 0; from < first.size(); ++from) {
    std::vector<Rank> others = first;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(from));
    for (const PairCost& cost : pairs.from(first[from], others)) {
      seconds[from].push_back(cost.alpha + kBytes * cost.beta);
    }
    seconds[from].insert(seconds[from].begin() + static_cast<std::ptrdiff_t>(from), 0);
  }
  return seconds;
}

/// The slowest message to the next one, and a part of the average, so that fewer slow ones are better.
double circle_cost(const BetweenHosts& seconds, const std::vector<size_t>& circle) {
  double slowest = 0, sum = 0;
  for (size_t i = 0; i < circle.size(); ++i) {
    const double one = seconds[circle[i]][circle[(i + 1) % circle.size()]];
    slowest = std::max(slowest, one);
    sum += one;
  }
  return slowest + sum / static_cast<double>(circle.size());
}

/// Turns round parts of the circle as long as that helps: who goes to the nearest one each time may end far from where
/// they began.
void improve_circle(const BetweenHosts& seconds, std::vector<size_t>& circle) {
  double best = circle_cost(seconds, circle);
  for (bool turned = circle.size() <= kMaxTurned; turned;) {
    turned = false;
    for (size_t from = 1; from < circle.size(); ++from) {
      for (size_t to = from + 2; to <= circle.size(); ++to) {
        const auto begin = circle.begin() + static_cast<std::ptrdiff_t>(from);
        const auto end = circle.begin() + static_cast<std::ptrdiff_t>(to);
        std::reverse(begin, end);
        const double cost = circle_cost(seconds, circle);
        if (cost < kBetter * best) {
          best = cost;
          turned = true;
        } else {
          std::reverse(begin, end);
        }
      }
    }
  }
}

/// Hosts, the first one's nearest next, and so on: by number in the old order, the place in the new one.
std::vector<size_t> places_of_hosts(const Pairs& pairs) {
  const BetweenHosts seconds = seconds_between_hosts(pairs);
  std::vector<size_t> circle = {0}, left(seconds.size() - 1);
  std::iota(left.begin(), left.end(), size_t{1});
  while (!left.empty()) {
    const std::vector<double>& from = seconds[circle.back()];
    const auto nearest =
        std::min_element(left.begin(), left.end(), [&](size_t a, size_t b) { return from[a] < kBetter * from[b]; });
    circle.push_back(*nearest);
    left.erase(nearest);
  }
  improve_circle(seconds, circle);
  std::vector<size_t> places(circle.size());
  for (size_t place = 0; place < circle.size(); ++place) places[circle[place]] = place;
  return places;
}

std::vector<Rank> sorted_by_place(const Pairs& pairs) {
  const std::vector<size_t> host_places = places_of_hosts(pairs);
  const topo::Graph& graph = pairs.graph();
  // Threads of a process follow each other where the cores that they run on are beside those of other processes.
  struct Place {
    std::vector<NodeId> way;
    uint32_t process = 0;
    NodeId core = topo::kNoNode;
    auto operator<=>(const Place&) const = default;
  };
  std::vector<Place> ways;
  for (const NodeId node : pairs.places().nodes) {
    Place place{.way = way_down(graph, node), .core = node};
    if (graph.nodes[node].kind == topo::NodeKind::Core) place.way.pop_back();
    if (!graph.processes.empty()) place.process = graph.processes[ways.size()];
    ways.push_back(std::move(place));
  }
  std::vector<Rank> order(static_cast<size_t>(pairs.ranks()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](Rank a, Rank b) {
    const size_t host_a = host_places[static_cast<size_t>(pairs.host(a))];
    const size_t host_b = host_places[static_cast<size_t>(pairs.host(b))];
    if (host_a != host_b) return host_a < host_b;
    return ways[static_cast<size_t>(a)] < ways[static_cast<size_t>(b)];
  });
  return order;
}

/// Swaps two ranks wherever that makes the ring faster: links between GPUs need not follow what they are plugged into.
void improve(const Pairs& pairs, std::vector<Rank>& order) {
  double best = order_cost(pairs, order);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t a = 1; a < order.size(); ++a) {
      for (size_t b = a + 1; b < order.size(); ++b) {
        std::swap(order[a], order[b]);
        const double cost = order_cost(pairs, order);
        if (cost < 0.999 * best) {
          best = cost;
          moved = true;
        } else {
          std::swap(order[a], order[b]);
        }
      }
    }
  }
}

/// Does a GPU have an NVLink to another GPU itself, without a switch?
bool has_direct_links(const topo::Graph& graph) {
  return std::any_of(graph.links.begin(), graph.links.end(), [&](const topo::Link& link) {
    return link.kind == topo::LinkKind::NvLink && graph.nodes[link.a].kind == topo::NodeKind::Gpu &&
           graph.nodes[link.b].kind == topo::NodeKind::Gpu;
  });
}

}  // namespace

double order_cost(const Pairs& pairs, const std::vector<Rank>& order) {
  Load load(pairs.graph());
  double slowest = 0, sum = 0, chain = 0, before = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const Rank from = order[i], to = order[(i + 1) % order.size()];
    if (from == to) return 0;
    const PairCost cost = pairs.from(from, {to}).front();
    load.add(pairs.places().nodes[static_cast<size_t>(from)], cost.path);
    slowest = std::max(slowest, cost.beta);
    sum += cost.alpha + kBytes * cost.beta;
    const double onward = i + 1 < order.size() ? cost.beta : 0;  // a chain ends there
    chain = std::max(chain, before + onward);
    before = onward;
  }
  const auto n = static_cast<double>(order.size());
  return sum / n + kBytes * (std::max(slowest, load.beta()) + chain);
}

plan::RankOrder find_order(const Pairs& pairs) {
  if (pairs.ranks() < 3) return {};
  std::vector<Rank> own(static_cast<size_t>(pairs.ranks()));
  std::iota(own.begin(), own.end(), 0);
  std::vector<Rank> order = sorted_by_place(pairs);
  if (pairs.ranks() <= kMaxSwapped && has_direct_links(pairs.graph())) improve(pairs, order);
  if (order == own || order_cost(pairs, order) > kBetter * order_cost(pairs, own)) return {};
  return plan::RankOrder(std::move(order));
}

plan::RankOrder order_for(const plan::Algorithm& algorithm, const MachineView& view,
                          const std::shared_ptr<const plan::Grouping>& groups, const plan::RankOrder& known,
                          Rank ranks) {
  const auto cost_of = [&](const plan::RankOrder& order) {
    const plan::Shape shape{algorithm.collective, ranks, order.seen(groups, 0)};
    if (!algorithm.allows(shape)) return std::numeric_limits<double>::infinity();
    const Traffic traffic = view.traffic(algorithm, shape, order);
    return traffic.latency + kBytes * (traffic.fill + traffic.busiest);
  };
  plan::RankOrder best = known;
  double least = kBetter * cost_of(known);
  const auto try_one = [&](const std::vector<Rank>& ranks_in_order) {
    plan::RankOrder order(ranks_in_order);
    const double cost = cost_of(order);
    if (cost >= least) return false;
    best = std::move(order);
    least = kBetter * cost;
    return true;
  };
  std::vector<Rank> own(static_cast<size_t>(ranks));
  std::iota(own.begin(), own.end(), 0);
  try_one(own);
  std::vector<Rank> order = own;
  if (best.is_given()) order.assign(best.ranks().begin(), best.ranks().end());
  for (bool moved = ranks <= kMaxSearched; moved;) {
    moved = false;
    for (size_t a = 0; a < order.size(); ++a) {
      for (size_t b = a + 1; b < order.size(); ++b) {
        std::swap(order[a], order[b]);
        if (try_one(order)) {
          moved = true;
        } else {
          std::swap(order[a], order[b]);
        }
      }
    }
  }
  return best;
}

}  // namespace tutti::select
