// What only hosts keep of a lane, beside the LaneState that every kind of processor shares.
#pragma once

#include <cstdint>

#include "link/link.hpp"

namespace tutti::exec {

inline constexpr uint32_t kMaxDirectStores = 8;  ///< of one fold

struct HostLane {
  uint64_t warm = 0;           ///< the round, plus one, whose slots have been prefetched for writing
  bool copying = false;        ///< a cooperative copy is under way: the instruction continues
  uint32_t direct_stores = 0;  ///< readers to whose destinations the current fold is stored
  unsigned char* direct_to[kMaxDirectStores] = {};  ///< their destinations
  link::Edges direct_edges[kMaxDirectStores] = {};  ///< the bytes of each that are not stored
  uint32_t direct_outs[kMaxDirectStores] = {};      ///< their out-links
};

}  // namespace tutti::exec
