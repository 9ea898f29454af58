// Programs without a plan, for messages whose sizes only their two ends know: groups of sends and receives, and
// collectives with blocks of different lengths.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "exec/compile/lower.hpp"

namespace tutti::exec {

/// Bytes sent to some ranks (the same to each), or received from one rank.
struct Transfer {
  std::vector<Rank> peers;
  bool send = false;
  unsigned char* data = nullptr;
  uint64_t bytes = 0;
  uint64_t tag = 0;  ///< distinguishes this transfer's messages from others of the call
};

/// A block to which all ranks contribute, folded in rank order and in the canonical shape.
struct BlockFold {
  const unsigned char* mine = nullptr;  ///< this rank's contribution
  unsigned char* to = nullptr;
  uint64_t bytes = 0;
  uint64_t tag = 0;  ///< as in Transfer
};

/// The input of lower_direct(). Both ends of a transfer must cut it alike, so `message` is the same on all ranks.
struct Direct {
  std::vector<Transfer> transfers;
  std::vector<BlockFold> folds;  ///< at most one
  uint64_t message = 0;          ///< bytes of the longest message; a multiple of the element
  bool scaled = false;           ///< as in Geometry: sent data and `mine` are input, which needs scaling
  uint32_t link_lane = 0;
  DeliveryRules rules;
};

/// The transfers of each lane, in order: those with the same peers and direction.
using TransferLanes = std::map<std::pair<std::vector<Rank>, bool>, std::vector<const Transfer*>>;
TransferLanes lanes_of(const Direct& direct);

/// The ranks that its messages go to or come from. Ascending.
std::vector<Rank> peers_of(const Direct& direct, Rank rank, Rank ranks);

/// One lane for each of lanes_of(), which runs its transfers one after the other; and one lane for the
/// fold, which takes one message of every other rank at a time. The program's size depends on the number of transfers,
/// not on their sizes. Offsets are addresses: the program's bases must be null. Pure, as lower() is.
Program lower_direct(const Direct& direct, Rank rank, Rank ranks, const PeerTraits& traits);

}  // namespace tutti::exec
