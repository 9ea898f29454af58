// Maximum flows and minimum cuts. The algorithm is LEMON's (push-relabel: Goldberg & Tarjan, A new approach to the
// maximum-flow problem, JACM 1988); only flow.cpp includes it.
#pragma once

#include <memory>

#include "synth/network.hpp"

namespace tutti::synth {

inline constexpr Capacity kUnlimited = Capacity{1}
                                       << 40;  ///< of an arc that no minimum cut may cut, where capacities are small

class MaxFlow {
 public:
  explicit MaxFlow(uint32_t vertices);
  ~MaxFlow();
  MaxFlow(const MaxFlow&) = delete;
  MaxFlow& operator=(const MaxFlow&) = delete;

  /// Returns the arc's number: 0, 1, …
  uint32_t add(Vertex from, Vertex to, Capacity capacity);
  void set(uint32_t arc, Capacity capacity);
  /// What can flow from one vertex to another.
  Capacity value(Vertex from, Vertex to);
  /// After value(): is the vertex on the source's side of a minimum cut?
  bool on_source_side(Vertex vertex) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::synth
