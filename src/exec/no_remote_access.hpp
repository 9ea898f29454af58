// The interpreter's policy Remote where a rank reads and writes no other rank's memory.
#pragma once

#include <cstdint>

#include "base/hd.hpp"
#include "exec/state.hpp"

namespace tutti::exec {

/// For processors whose messages are all in memory that they can load from.
struct NoRemoteAccess {
  static constexpr bool kAny = false;
  static constexpr bool kDrains = false;
  TUTTI_HD static bool accepts(const Instruction&) { return false; }
  TUTTI_HD static int locate(const link::InLink&, link::Arrival&, uint64_t) { return 0; }
  TUTTI_HD static void enter_round(RankState&, const LaneState&) {}
  template <class Group>
  TUTTI_HD static Outcome move(const Group&, RankState&, LaneState&, const Instruction&, unsigned char*) {
    return Outcome::Fault;
  }
  TUTTI_HD static bool continues(const LaneState&) { return false; }
};

}  // namespace tutti::exec
