// What messages cost, in the α–β model.
#pragma once

namespace tutti::link {

/// The cost of messages between the slowest of some pairs of ranks.
struct LinkCost {
  double alpha = 0;       ///< seconds for an empty message
  double beta = 0;        ///< seconds per byte
  double message = 0;     ///< seconds of processor time for each message beyond the first of a round
  bool in_place = false;  ///< readers read the writer's memory: a message to several readers is written once
  static void fields(auto& m, auto& v) { v.real(m.alpha), v.real(m.beta), v.real(m.message), v.flag(m.in_place); }
};

}  // namespace tutti::link
