// The arcs of a network while its switches are removed: by vertex, what leads in and out.
#pragma once

#include <map>
#include <vector>

#include "synth/flow.hpp"
#include "synth/network.hpp"

namespace tutti::synth {

enum class Pattern : uint8_t;

class Ports {
 public:
  explicit Ports(const Network& network);

  Vertex vertices() const { return static_cast<Vertex>(out_.size()); }
  bool is_rank(Vertex v) const { return v < ranks_; }
  /// Arcs into a vertex, and out of it, by the other end.
  const std::map<Vertex, Capacity>& in(Vertex v) const { return in_[v]; }
  const std::map<Vertex, Capacity>& out(Vertex v) const { return out_[v]; }
  Capacity capacity(Vertex from, Vertex to) const;
  void add_arcs(MaxFlow& flow) const;

  /// `capacity` of (u, w) and (w, t) becomes an arc (u, t); of u = t it is lost.
  void split_off(Vertex u, Vertex w, Vertex t, Capacity capacity);
  /// Loses a switch's arcs.
  void drop(Vertex w);

  /// A switch with one or two neighbours: what comes from one goes to the other. False if it has more.
  bool join_two(Vertex w);
  /// A host's gate that has one port into the host: what comes there goes on to each cable. `all`: trees; a port of so
  /// many limits nothing. False if it is no such gate, or the port is narrower than the cables.
  bool join_gate(Vertex w, const Network& network, Capacity all);
  /// Joins all ports of a switch by a pattern. False if there is none, because the arcs into a port and out of it
  /// differ.
  bool join(Vertex w, const Network& network, Pattern pattern);

  /// What is left, with ranks and unit of `like`: between ranks alone, or with the switches that still have arcs.
  Network network(const Network& like) const { return first(ranks_, like); }
  Network whole(const Network& like) const { return first(vertices(), like); }

 private:
  Network first(Vertex vertices, const Network& like) const;
  void add(Vertex from, Vertex to, Capacity capacity);

  Vertex ranks_;
  std::vector<std::map<Vertex, Capacity>> in_, out_;
};

}  // namespace tutti::synth
