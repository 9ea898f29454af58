// The ways that messages take through a network.
#include <algorithm>
#include <array>

#include "synth/network.hpp"

namespace tutti::synth {

bool Network::passes_on_its_way(Vertex rank, std::span<const Vertex> part) const {
  // Are these on the way, in this order?
  const auto passes = [&](const std::vector<Vertex>& way) {
    auto at = way.begin();
    for (const Vertex vertex : part) {
      at = std::find(at, way.end(), vertex);
      if (at == way.end()) return false;
    }
    return true;
  };
  const std::vector<Vertex>& out = outside[rank];
  if (passes(out)) return true;
  // The last one of a way out is the network, behind which another host's switches follow.
  if (!out.empty() && part.size() == 2 && out.back() == part.front()) return true;
  return std::any_of(inside[rank].begin(), inside[rank].end(), [&](const auto& to) { return passes(to.second); });
}

uint32_t Network::host_of_gate(Vertex vertex) const {
  const auto found = std::find_if(gates.begin(), gates.end(), [&](const auto& gate) { return gate.second == vertex; });
  return found == gates.end() ? kNoHost : found->first;
}

Vertex Network::rank_behind(Vertex vertex) const {
  const uint32_t host = host_of_gate(vertex);
  return host == kNoHost ? vertex : static_cast<Vertex>(std::find(hosts.begin(), hosts.end(), host) - hosts.begin());
}

bool Network::passes(Vertex from, Vertex through, Vertex to) const {
  if (!has_ways()) return true;
  const uint32_t gate_of = host_of_gate(through);
  if (gate_of != kNoHost) return (places[from] == gate_of) != (places[to] == gate_of);
  if (places[through] != kNoHost && gates.contains(places[through]) && places[from] != places[to]) {
    // Out of the host, by its gate, or into it.
    const Vertex inner = places[from] == places[through] ? from : to;
    if (is_rank(inner)) return passes_on_its_way(inner, std::array{through});
    for (Vertex rank = 0; is_rank(rank); ++rank) {
      if (host(rank) == places[through] && passes_on_its_way(rank, std::array{inner, through})) return true;
    }
    return false;
  }
  const Vertex one = rank_behind(from), other = rank_behind(to);
  if (is_rank(one) && is_rank(other) && has_cable(one, other)) {
    const std::vector<Vertex> all = way(static_cast<Rank>(one), static_cast<Rank>(other));
    return std::find(all.begin(), all.end(), through) != all.end();
  }
  if (is_rank(from) && is_rank(to)) {
    const auto goes_out = [&](Vertex rank) {
      return std::find(outside[rank].begin(), outside[rank].end(), through) != outside[rank].end();
    };
    if (host(from) != host(to)) return goes_out(from) || goes_out(to);
    const auto at = inside[from].find(static_cast<Rank>(to));
    return at != inside[from].end() && std::find(at->second.begin(), at->second.end(), through) != at->second.end();
  }
  if (is_rank(from)) return passes_on_its_way(from, std::array{through, to});
  if (is_rank(to)) return passes_on_its_way(to, std::array{through, from});
  for (Vertex rank = 0; is_rank(rank); ++rank) {
    if (passes_on_its_way(rank, std::array{from, through, to}) ||
        passes_on_its_way(rank, std::array{to, through, from}))
      return true;
  }
  return false;
}

std::vector<Vertex> Network::way_out(Vertex rank, bool to_cable) const {
  std::vector<Vertex> way = outside[rank];
  if (to_cable) way.erase(std::find(way.begin(), way.end(), gates.at(host(rank))) + 1, way.end());
  return way;
}

bool Network::has_way(Rank from, Rank to) const {
  const auto f = static_cast<Vertex>(from), t = static_cast<Vertex>(to);
  return host(f) == host(t) ? inside[f].contains(to) : !outside[f].empty() && !outside[t].empty();
}

std::vector<Vertex> Network::way(Rank from, Rank to) const {
  const auto f = static_cast<Vertex>(from), t = static_cast<Vertex>(to);
  std::vector<Vertex> way = {f};
  if (host(f) == host(t)) {
    const std::vector<Vertex>& switches = inside[f].at(to);
    way.insert(way.end(), switches.begin(), switches.end());
  } else {
    const std::vector<Vertex> out = way_out(f, has_cable(f, t)), in = way_out(t, has_cable(f, t));
    way.insert(way.end(), out.begin(), out.end());
    const bool same = out.back() == in.back();
    way.insert(way.end(), in.rbegin() + (same ? 1 : 0), in.rend());
  }
  way.push_back(t);
  return way;
}

}  // namespace tutti::synth
