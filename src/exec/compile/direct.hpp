// Programs without a plan: messages whose sizes only their two ends know. Groups of sends and receives, and the
// collectives whose blocks differ in length.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/compile/lower.hpp"

namespace tutti::exec {

/// Bytes that go to some ranks (the same to each), or come from one.
struct Transfer {
  std::vector<Rank> peers;
  bool send = false;
  unsigned char* data = nullptr;
  uint64_t bytes = 0;
  uint64_t tag = 0;  ///< what tells this transfer's messages from the call's others
};

/// A block that all ranks contribute to, folded in rank order and in the canonical shape.
struct BlockFold {
  const unsigned char* mine = nullptr;  ///< this rank's contribution
  unsigned char* to = nullptr;
  uint64_t bytes = 0;
  uint64_t tag = 0;  ///< as in Transfer
};

/// What a program is made of. Both ends of a transfer must cut it alike: `message` has to be the same on all ranks.
struct Direct {
  std::vector<Transfer> transfers;
  std::vector<BlockFold> folds;  ///< none or one
  uint64_t message = 0;          ///< bytes of the longest message; a multiple of the element
  bool scaled = false;           ///< as in Geometry: what is sent and `mine` cannot be read as they are
  uint32_t link_lane = 0;        ///< of the links
  bool cooperative = false;      ///< as in Geometry
};

/// One lane for each set of peers and direction, its transfers one after the other; and one lane for the fold, which
/// takes a message of every other rank at a time. Offsets are addresses: the program's bases have to be null. Connects
/// links as lower() does.
Lowered lower_direct(const Direct& direct, Rank rank, Rank ranks, Links& links);

}  // namespace tutti::exec
