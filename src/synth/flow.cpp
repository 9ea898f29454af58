#include "synth/flow.hpp"

#include <lemon/preflow.h>
#include <lemon/smart_graph.h>

#include <optional>

#include "base/cancel.hpp"

namespace tutti::synth {

struct MaxFlow::Impl {
  using Digraph = lemon::SmartDigraph;
  using Map = Digraph::ArcMap<Capacity>;

  Digraph graph;
  Map capacity{graph, 0};
  std::optional<lemon::Preflow<Digraph, Map>> flow;
};

MaxFlow::MaxFlow(uint32_t vertices) : impl_(std::make_unique<Impl>()) {
  impl_->graph.reserveNode(static_cast<int>(vertices));
  for (uint32_t i = 0; i < vertices; ++i) impl_->graph.addNode();
}
MaxFlow::~MaxFlow() = default;

uint32_t MaxFlow::add(Vertex from, Vertex to, Capacity capacity) {
  const auto node = [](Vertex v) { return Impl::Digraph::nodeFromId(static_cast<int>(v)); };
  const Impl::Digraph::Arc arc = impl_->graph.addArc(node(from), node(to));
  impl_->capacity[arc] = capacity;
  return static_cast<uint32_t>(Impl::Digraph::id(arc));
}

void MaxFlow::set(uint32_t arc, Capacity capacity) {
  impl_->capacity[Impl::Digraph::arcFromId(static_cast<int>(arc))] = capacity;
}

Capacity MaxFlow::value(Vertex from, Vertex to) {
  const auto node = [](Vertex v) { return Impl::Digraph::nodeFromId(static_cast<int>(v)); };
  if (!impl_->flow) {
    impl_->flow.emplace(impl_->graph, impl_->capacity, node(from), node(to));
  } else {
    impl_->flow->source(node(from)).target(node(to));
  }
  check_cancelled();
  impl_->flow->runMinCut();
  return impl_->flow->flowValue();
}

bool MaxFlow::on_source_side(Vertex vertex) const {
  return impl_->flow->minCut(Impl::Digraph::nodeFromId(static_cast<int>(vertex)));
}

}  // namespace tutti::synth
