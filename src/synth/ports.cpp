#include "synth/ports.hpp"

#include <algorithm>
#include <bit>

#include "synth/split.hpp"

namespace tutti::synth {
namespace {

/// How many ports further the next unit of a port goes. Ports lie in order, those of a host side by side.
class Stride {
 public:
  Stride(Pattern pattern, size_t ports, size_t of_a_host) : pattern_(pattern), of_a_host_(of_a_host) {
    const size_t hosts = std::max<size_t>(2, ports / of_a_host);
    strides_ = pattern == Pattern::Spread ? hosts - 1 : pattern == Pattern::Ring ? 1 : std::bit_width(hosts - 1);
  }
  size_t of(Capacity turn) const {
    const size_t i = static_cast<size_t>(turn) % strides_;
    return of_a_host_ * (pattern_ == Pattern::Doubling ? size_t{1} << i : i + 1);
  }

 private:
  Pattern pattern_;
  size_t of_a_host_, strides_;
};

/// The most ports of one host; 1 where all are of one.
size_t ports_of_a_host(const std::vector<Vertex>& ports, const Network& network) {
  std::map<uint32_t, size_t> hosts;
  for (const Vertex port : ports) ++hosts[network.is_rank(port) ? network.host(port) : 0];
  if (hosts.size() == 1) return 1;
  size_t most = 1;
  for (const auto& [host, count] : hosts) most = std::max(most, count);
  return most;
}

}  // namespace

Ports::Ports(const Network& network)
    : ranks_(static_cast<Vertex>(network.ranks)), in_(network.vertices), out_(network.vertices) {
  for (const Arc& arc : network.arcs) add(arc.from, arc.to, arc.capacity);
}

void Ports::add(Vertex from, Vertex to, Capacity capacity) {
  if (from == to || capacity == 0) return;
  const Capacity left = out_[from][to] += capacity;
  in_[to][from] = left;
  if (left > 0) return;
  out_[from].erase(to);
  in_[to].erase(from);
}

Capacity Ports::capacity(Vertex from, Vertex to) const {
  const auto at = out_[from].find(to);
  return at == out_[from].end() ? 0 : at->second;
}

void Ports::add_arcs(MaxFlow& flow) const {
  for (Vertex from = 0; from < out_.size(); ++from) {
    for (const auto& [to, capacity] : out_[from]) flow.add(from, to, capacity);
  }
}

void Ports::split_off(Vertex u, Vertex w, Vertex t, Capacity capacity) {
  add(u, w, -capacity);
  add(w, t, -capacity);
  add(u, t, capacity);
}

void Ports::drop(Vertex w) {
  for (const auto& [to, capacity] : std::map(out_[w])) add(w, to, -capacity);
  for (const auto& [from, capacity] : std::map(in_[w])) add(from, w, -capacity);
}

bool Ports::join_two(Vertex w) {
  std::vector<Vertex> ends;
  for (const auto& side : {in_[w], out_[w]}) {
    for (const auto& [end, capacity] : side) {
      if (std::find(ends.begin(), ends.end(), end) == ends.end()) ends.push_back(end);
    }
  }
  if (ends.size() > 2) return false;
  if (ends.size() == 2) {
    for (const auto& [u, t] : {std::pair(ends[0], ends[1]), std::pair(ends[1], ends[0])}) {
      split_off(u, w, t, std::min(capacity(u, w), capacity(w, t)));
    }
  }
  drop(w);
  return true;
}

bool Ports::join_gate(Vertex w, const Network& network, Capacity all) {
  const uint32_t host = network.host_of_gate(w);
  if (host == kNoHost) return false;
  std::vector<Vertex> inside;
  Capacity out = 0, in = 0;
  for (const auto& [port, capacity] : out_[w]) {
    network.places[port] == host ? inside.push_back(port) : void(out += capacity);
  }
  for (const auto& [port, capacity] : in_[w]) in += network.places[port] == host ? 0 : capacity;
  if (inside.size() != 1) return false;
  const Vertex inner = inside.front();
  if (capacity(inner, w) < std::min(out, all) || capacity(w, inner) < std::min(in, all)) return false;
  for (const auto& [port, capacity] : out_[w]) {
    if (port != inner) add(inner, port, capacity);
  }
  for (const auto& [port, capacity] : in_[w]) {
    if (port != inner) add(port, inner, capacity);
  }
  drop(w);
  return true;
}

bool Ports::join(Vertex w, const Network& network, Pattern pattern) {
  if (in_[w] != out_[w]) return false;
  std::vector<Vertex> ports;
  Capacity turns = 0;
  for (const auto& [port, capacity] : out_[w]) {
    ports.push_back(port);
    turns = std::max(turns, capacity);
  }
  const auto host = [&](Vertex port) { return is_rank(port) ? network.host(port) : 0; };
  std::stable_sort(ports.begin(), ports.end(), [&](Vertex a, Vertex b) { return host(a) < host(b); });
  const std::map<Vertex, Capacity> capacities = out_[w];
  for (Capacity turn = 0; turn < turns; ++turn) {  // each port that has a unit left gives it to one further on
    std::erase_if(ports, [&](Vertex port) { return capacities.at(port) <= turn; });
    const size_t stride = Stride(pattern, ports.size(), ports_of_a_host(ports, network)).of(turn);
    for (size_t i = 0; i < ports.size(); ++i) {
      const Vertex u = ports[i], t = ports[(i + stride) % ports.size()];
      if (!network.passes(u, w, t) && u != t) return false;
      split_off(u, w, t, 1);
    }
  }
  drop(w);
  return true;
}

Network Ports::first(Vertex vertices, const Network& like) const {
  Network left;
  left.ranks = like.ranks;
  left.vertices = vertices;
  left.unit = like.unit;
  left.hosts = like.hosts;
  for (Vertex from = 0; from < vertices; ++from) {
    for (const auto& [to, capacity] : out_[from]) {
      if (to < vertices) left.arcs.push_back({from, to, capacity, 0});
    }
  }
  return left;
}

}  // namespace tutti::synth
