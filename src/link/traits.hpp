// What a link can do, known before the link exists: programs are compiled for it.
#pragma once

#include <cstdint>

namespace tutti::link {

/// The kinds of zero-copy delivery that a link supports, and whether its ends help each other.
struct Access {
  bool address = false;      ///< the reader reads at the writer's address: a thread of its process, or an engine
  bool mapped = false;       ///< the reader maps the writer's SharedRegions
  bool cma = false;          ///< the reader reads the writer's memory by CMA (link/cma.hpp)
  uint64_t push_bytes = 0;   ///< not 0: other messages are pushed to the reader's memory, at most so many bytes each
  uint64_t ll_bytes = 0;     ///< not 0: messages of up to so many bytes travel in lines (link/ll.hpp)
  uint64_t ll128_bytes = 0;  ///< the same for messages by LL128
  bool cooperative = false;  ///< the ends take part in cooperative copies and direct stores (link/cooperative_copy.hpp)
};

/// The links between this rank and one peer.
struct LinkTraits {
  Access out;  ///< how the links to the peer deliver
  Access in;   ///< how messages from the peer may be delivered
};

}  // namespace tutti::link
