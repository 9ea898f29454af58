#include "select/machine_view.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "base/format.hpp"
#include "plan/traffic.hpp"
#include "select/network.hpp"
#include "select/synthesised.hpp"

namespace tutti::select {
namespace {

constexpr double kAlike = 1.02;

/// "host0 – host2: 0.25 GB/s, measured by …".
std::string figure_name(const Pairs& pairs, Rank a, Rank b, const topo::Figure& figure) {
  const auto host = [&](Rank rank) {
    const topo::Graph& graph = pairs.graph();
    return label(graph, graph.host_of(pairs.places().nodes[static_cast<size_t>(rank)]));
  };
  return fmt::format("{} – {}: {:.3g} GB/s, {}", host(a), host(b), figure.gbps, figure.origin);
}

/// "host2: NIC eth0 – network", "link host2: 25 MB/s, measured by …".
std::string link_name(const topo::Graph& graph, const topo::Link& link) {
  if (link.measured) return measured_link_text(graph, link);
  const topo::NodeId inside = graph.nodes[link.a].kind == topo::NodeKind::Fabric ? link.b : link.a;
  const std::string host = label(graph, graph.host_of(inside));
  return fmt::format("{}: {} – {}", host, label(graph, link.a), label(graph, link.b));
}

}  // namespace

MachineView::MachineView(const Pairs& pairs, double message_share, bool in_place)
    : ranks_(pairs.ranks()),
      message_share_(message_share),
      in_place_(in_place),
      fastest_far_(static_cast<size_t>(ranks_), std::numeric_limits<double>::infinity()) {
  const topo::Graph& graph = pairs.graph();
  LinkNumbers numbers;
  for (Rank rank = 0; rank < ranks_; ++rank) hosts_.push_back(pairs.host(rank));
  std::vector<Rank> all(static_cast<size_t>(ranks_));
  std::iota(all.begin(), all.end(), 0);
  for (Rank from = 0; from < ranks_; ++from) {
    std::vector<Rank> others = all;
    std::erase(others, from);
    std::vector<PairCost> costs = pairs.from(from, others);
    costs.insert(costs.begin() + from, PairCost{});
    for (Rank to = 0; to < ranks_; ++to) {
      const PairCost& cost = costs[static_cast<size_t>(to)];
      Pair pair{.alpha = cost.alpha, .beta = cost.beta, .near = pairs.same_host(from, to), .shared = {}};
      const topo::Figure* const known = from == to || pair.near ? nullptr : pairs.figure(from, to, cost.path.kind);
      if (known != nullptr) {
        pair.name = figure_name(pairs, from, to, *known);
        pair.own = known->a != topo::kNoNode;
        for (const Rank end : {from, to}) {
          double& fastest = fastest_far_[static_cast<size_t>(end)];
          fastest = std::min(fastest, pair.beta);
        }
        if (pair.own) take_port(graph, from, cost);
      }
      if (from != to) take_links(graph, pairs.places().nodes[static_cast<size_t>(from)], cost.path, numbers, pair);
      pairs_.push_back(std::move(pair));
    }
  }
  const auto differ = [](double a, double b) { return a > kAlike * b || b > kAlike * a; };
  for (Rank from = 0; from < ranks_; ++from) {
    for (Rank to = 0; to < ranks_; ++to) {
      if (from == to || ranks_ < 3) continue;
      const Pair &one = pair(0, 1), &other = pair(from, to);
      uniform_ = uniform_ && one.near == other.near && !differ(one.alpha, other.alpha) && !differ(one.beta, other.beta);
    }
  }
}

/// A host that several cables lead to sends more to several hosts than to any one.
void MachineView::take_port(const topo::Graph& graph, Rank from, const PairCost& cost) {
  for (const uint32_t i : cost.path.links) {
    const topo::Link& link = graph.links[i];
    if (link.kind != topo::LinkKind::Network || !link.measured) continue;
    const double beta = 1 / (link.gbps * 1e9);
    double& fastest = fastest_far_[static_cast<size_t>(from)];
    fastest = std::min(fastest, beta);
    if (ranks_ > 2 && cost.beta > kAlike * beta) uniform_ = false;
    return;  // the first one is of its own host
  }
}

/// Notes the links on a pair's way, in their direction. `at`: where it begins.
void MachineView::take_links(const topo::Graph& graph, topo::NodeId at, const topo::Path& path, LinkNumbers& numbers,
                             Pair& pair) {
  for (const uint32_t i : path.links) {
    const topo::Link& link = graph.links[i];
    const bool onward = link.a == at;
    at = onward ? link.b : link.a;
    if (link.assumed && is_job(graph)) continue;  // what is not known is not held against the figures
    const auto [number, is_new] = numbers.emplace(std::pair(i, onward), static_cast<uint32_t>(links_.size()));
    if (is_new) links_.push_back({1 / (link.gbps * 1e9), link_name(graph, link)});
    if (joins_islands(graph, link)) uniform_ = false;
    pair.shared.push_back(number->second);
  }
}

/// Of a plan that was made for this machine, for the worst root: rotated, its trees lie elsewhere.
Traffic MachineView::traffic(const plan::Algorithm& algorithm, const plan::Shape& shape,
                             const plan::RankOrder& order) const {
  const std::vector<plan::RankPlan> plans = plan::generate_all(algorithm, shape);
  const Rank roots = has_root(shape.collective) && is_synthesised(algorithm.name) ? ranks_ : 1;
  Traffic traffic;
  for (Rank root = 0; root < roots; ++root) {
    const ActualRank at = [&](Rank planned) { return order.actual(planned, root, ranks_); };
    traffic.latency = std::max(traffic.latency, plan::longest_chain(plans, [&](Rank from, Rank to, double) {
                                 const double alpha = pair(at(from), at(to)).alpha;
                                 return plan::MessageCost{alpha, alpha * message_share_};
                               }));
    traffic.fill = std::max(traffic.fill, plan::longest_chain(plans, [&](Rank from, Rank to, double amount) {
                              return plan::MessageCost{amount * pair(at(from), at(to)).beta, 0};
                            }));
    busiest_rank(plans, at, traffic);
    busiest_link(plans, at, traffic);
    busiest_pair(plans, at, traffic);
  }
  return traffic;
}

/// What a byte takes of a rank's own time. Where two hosts are slower together than this rank is with others, or with
/// all of them at once, it does not wait for them: other messages go on.
double MachineView::beta_at(Rank end, const Pair& pair) const {
  return pair.own ? std::min(pair.beta, fastest_far_[static_cast<size_t>(end)]) : pair.beta;
}

/// Each rank copies what it sends and what it receives, both at the same time; a message to several readers on its host
/// once, where they read its memory. A core copies one message after the other; a GPU's links work at the same time,
/// those inside its host and those to others.
void MachineView::busiest_rank(const std::vector<plan::RankPlan>& plans, const ActualRank& at, Traffic& traffic) const {
  std::vector<double> in(static_cast<size_t>(ranks_)), out(in), near(in), near_beta(in), far_in(in), far_out(in);
  std::vector<std::pair<double, const Pair*>> longest(in.size());  // of each rank's flows
  for (const plan::Flow& flow : plan::flows_of(plans)) {
    const Pair& link = pair(at(flow.from), at(flow.to));
    const auto from = static_cast<size_t>(at(flow.from)), to = static_cast<size_t>(at(flow.to));
    const double received = flow.amount * beta_at(at(flow.to), link), sent = flow.amount * beta_at(at(flow.from), link);
    in[to] += received;
    if (!link.near) far_in[to] += received, far_out[from] += sent;
    for (const size_t end : {from, to}) longest[end] = std::max(longest[end], {flow.amount * link.beta, &link});
    if (link.near && in_place_) {
      near[from] += flow.amount;
      near_beta[from] = std::max(near_beta[from], link.beta);
    } else {
      out[from] += sent;
    }
  }
  for (const plan::RankPlan& plan : plans) {
    const auto rank = static_cast<size_t>(at(plan.rank));
    out[rank] += std::min(near[rank], plan::published_by(plan)) * near_beta[rank];
  }
  for (size_t rank = 0; rank < in.size(); ++rank) {
    const double all = std::max(in[rank], out[rank]), far = std::max(far_in[rank], far_out[rank]);
    const double inside = std::max(in[rank] - far_in[rank], out[rank] - far_out[rank]);
    const double busy = in_place_ ? all : std::max(inside, far);
    traffic.in_turn = std::max(traffic.in_turn, all);
    if (busy <= traffic.busiest) continue;
    traffic.busiest = busy;
    const Pair* const with = longest[rank].second;
    traffic.where = fmt::format("rank {}", rank);
    if (with != nullptr && !with->name.empty()) traffic.where += fmt::format(" ({})", with->name);
  }
}

void MachineView::busiest_link(const std::vector<plan::RankPlan>& plans, const ActualRank& at, Traffic& traffic) const {
  std::vector<double> load(links_.size());
  for (const plan::Flow& flow : plan::flows_of(plans)) {
    const Pair& link = pair(at(flow.from), at(flow.to));
    for (const uint32_t number : link.shared) load[number] += flow.amount * links_[number].beta;
  }
  for (size_t i = 0; i < load.size(); ++i) {
    if (load[i] <= traffic.busiest) continue;
    traffic.busiest = load[i];
    traffic.where = links_[i].name;
  }
}

void MachineView::busiest_pair(const std::vector<plan::RankPlan>& plans, const ActualRank& at, Traffic& traffic) const {
  std::map<std::pair<Rank, Rank>, double> seconds;  // by the two hosts, whose ranks share what joins them
  for (const plan::Flow& flow : plan::flows_of(plans)) {
    const Rank from = at(flow.from), to = at(flow.to);
    const Pair& link = pair(from, to);
    if (!link.own) continue;
    const std::pair between(hosts_[static_cast<size_t>(from)], hosts_[static_cast<size_t>(to)]);
    const double busy = seconds[between] += flow.amount * link.beta;
    // The links on its way were measured too; they are named unless they are clearly faster.
    if (busy <= kAlike * traffic.busiest) continue;
    traffic.busiest = busy;
    traffic.where = link.name;
  }
}

}  // namespace tutti::select
