#include "select/machine_view.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "base/format.hpp"
#include "plan/traffic.hpp"
#include "select/network.hpp"

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

/// Those that messages between the two are some of.
std::array<topo::SharedFigure, 2> figures_of(const Pairs& pairs, Rank from, Rank to, const topo::Path& path) {
  const auto host = [&](Rank rank) { return pairs.graph().host_of(pairs.places().nodes[static_cast<size_t>(rank)]); };
  return topo::shared_figures(host(from), host(to), topo::nics_of(pairs.graph(), host(from), host(to), path));
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
        if (pair.own) pair.figures = figures_of(pairs, from, to, cost.path);
      }
      if (from != to) take_links(graph, pairs.places().nodes[static_cast<size_t>(from)], cost.path, numbers, pair);
      const bool links_alone = !in_place && from != to && pairs.figure(from, to, cost.path.kind) == nullptr;
      pair.by_links = links_alone && !pair.shared.empty();
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

Traffic MachineView::traffic(const std::vector<plan::RankPlan>& plans, const plan::RankOrder& order, Rank root) const {
  const ActualRank at = [&](Rank planned) { return order.actual(planned, root, ranks_); };
  Traffic traffic;
  traffic.latency = plan::longest_chain(plans, [&](Rank from, Rank to, double) {
    const double alpha = pair(at(from), at(to)).alpha;
    return plan::MessageCost{alpha, alpha * message_share_};
  });
  traffic.fill = plan::longest_chain(plans, [&](Rank from, Rank to, double amount) {
    return plan::MessageCost{amount * pair(at(from), at(to)).beta, 0};
  });
  busiest_rank(plans, at, traffic);
  busiest_link(plans, at, traffic);
  busiest_pair(plans, at, traffic);
  return traffic;
}

Traffic mean_of(const std::vector<Traffic>& all) {
  Traffic mean;
  double most = -1;
  const double part = 1 / static_cast<double>(all.size());
  for (const Traffic& one : all) {
    mean.latency += part * one.latency, mean.fill += part * one.fill;
    mean.busiest += part * one.busiest, mean.in_turn += part * one.in_turn;
    if (one.busiest > most) mean.where = one.where;
    most = std::max(most, one.busiest);
  }
  return mean;
}

std::vector<Rank> likely_roots(Rank ranks) {
  constexpr Rank kMost = 8;
  std::vector<Rank> roots;
  const Rank count = std::min(ranks, kMost);
  // Each at another place of its part, so that ranks at different places of their hosts are looked at.
  for (Rank i = 0; i < count; ++i) {
    const Rank first = i * ranks / count, apart = (i + 1) * ranks / count - first;
    roots.push_back(first + i % apart);
  }
  return roots;
}

/// What a byte takes of a rank's own time. Where two hosts are slower together than this rank is with others, or with
/// all of them at once, it does not wait for them: other messages go on.
double MachineView::beta_at(Rank end, const Pair& pair) const {
  return pair.own ? std::min(pair.beta, fastest_far_[static_cast<size_t>(end)]) : pair.beta;
}

/// Each rank copies what it sends and what it receives, both at the same time; a message to several readers on its host
/// once, where they read its memory. A core copies one message after the other; a GPU's links work at the same time,
/// those inside its host and those to others. Where its links are all that is known, they are counted one by one
/// (busiest_link): a slow link behind its own does not keep it from sending to others.
void MachineView::busiest_rank(const std::vector<plan::RankPlan>& plans, const ActualRank& at, Traffic& traffic) const {
  std::vector<double> in(static_cast<size_t>(ranks_)), out(in), near(in), near_beta(in), far_in(in), far_out(in);
  std::vector<double> all_in(in), all_out(in);  // of GPUs, if all of a rank's messages follow each other
  std::vector<std::pair<double, const Pair*>> longest(in.size());  // of each rank's flows
  for (const plan::Flow& flow : plan::flows_of(plans)) {
    const Pair& link = pair(at(flow.from), at(flow.to));
    const auto from = static_cast<size_t>(at(flow.from)), to = static_cast<size_t>(at(flow.to));
    const double received = flow.amount * beta_at(at(flow.to), link), sent = flow.amount * beta_at(at(flow.from), link);
    all_in[to] += received, all_out[from] += sent;
    if (link.by_links) continue;
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
    const double far = std::max(far_in[rank], far_out[rank]), all = std::max(in[rank], out[rank]);
    const double inside = std::max(in[rank] - far_in[rank], out[rank] - far_out[rank]);
    const double busy = in_place_ ? all : std::max(inside, far);
    traffic.in_turn = std::max(traffic.in_turn, in_place_ ? all : std::max(all_in[rank], all_out[rank]));
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
  std::map<topo::SharedFigure, std::pair<double, const Pair*>> all;
  for (const plan::Flow& flow : plan::flows_of(plans)) {
    const Rank from = at(flow.from), to = at(flow.to);
    const Pair& link = pair(from, to);
    if (!link.own) continue;
    for (const topo::SharedFigure& shared : link.figures) {
      auto& [seconds, some] = all.try_emplace(shared, 0, &link).first->second;
      seconds += flow.amount * link.beta;
    }
  }
  // The links on its way were measured too; they are named unless they are clearly faster.
  double named = kAlike * traffic.busiest;
  for (const auto& [shared, load] : all) {
    traffic.busiest = std::max(traffic.busiest, load.first);
    if (load.first <= named) continue;
    named = load.first;
    traffic.where = load.second->name;
  }
}

}  // namespace tutti::select
