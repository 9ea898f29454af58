#include "synth/cuts.hpp"

#include <algorithm>

#include "base/format.hpp"
#include "synth/flow.hpp"

namespace tutti::synth {
void no_path(const Network& network, const Side& side) {
  std::vector<Rank> in, out;
  for (Rank rank = 0; rank < network.ranks; ++rank) (side[static_cast<size_t>(rank)] ? in : out).push_back(rank);
  throw_error(Code::InvalidArgument, "the topology has no path from ranks {} to ranks {}", ranks_text(in),
              ranks_text(out));
}

Capacity way_out(const Network& network, const Side& side) {
  Capacity out = 0;
  for (const Arc& arc : network.arcs) out += side[arc.from] && !side[arc.to] ? arc.capacity : 0;
  return out;
}

std::pair<Capacity, Side> minimum_cut(const Network& network, const std::vector<bool>& from,
                                      const std::vector<bool>& to) {
  const Vertex source = network.vertices, sink = source + 1;
  Capacity all = 1;
  for (const Arc& arc : network.arcs) all += arc.capacity;
  MaxFlow flow(network.vertices + 2);
  for (const Arc& arc : network.arcs) flow.add(arc.from, arc.to, arc.capacity);
  for (Vertex vertex = 0; vertex < from.size(); ++vertex) {
    if (from[vertex]) flow.add(source, vertex, all);
    if (to[vertex]) flow.add(vertex, sink, all);
  }
  const Capacity value = flow.value(source, sink);
  Side side(network.vertices);
  for (Vertex v = 0; v < network.vertices; ++v) side[v] = flow.on_source_side(v);
  if (value == 0) no_path(network, side);
  return {value, side};
}

Cut cut_of_parts(const Network& network, const std::vector<uint32_t>& labels) {
  Cut cut{.must = {0, 0}, .sides = {}};
  uint32_t parts = 0;
  for (const uint32_t label : labels) parts = label == kNoPart ? parts : std::max(parts, label + 1);
  for (uint32_t part = 0; part < parts; ++part) {
    std::vector<bool> in(labels.size()), out(labels.size());
    for (size_t v = 0; v < labels.size(); ++v) {
      in[v] = labels[v] == part;
      out[v] = labels[v] != part && labels[v] != kNoPart;
    }
    auto [capacity, side] = minimum_cut(network, in, out);
    cut.must.capacity += capacity;
    cut.sides.push_back(std::move(side));
  }
  cut.must.blocks = 2 * int64_t{parts - 1};
  return cut;
}

void keep_tighter(Cut& best, Cut cut) {
  if (best.sides.empty() || best.must < cut.must) best = std::move(cut);
}

}  // namespace tutti::synth
