// Regions of peers (link/mapped_memory.hpp) that a rank has mapped, for windows or for messages: what one of them has
// mapped, the other finds, and asks the peer for nothing.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/rank.hpp"
#include "link/segment.hpp"

namespace tutti::link {

/// Of one communicator. Thread-safe. A process gives a region's number to no other one, so what is found is that
/// region, also after its owner has freed it.
class PeerRegions {
 public:
  /// Mapped as long as somebody holds it.
  using Mapped = std::shared_ptr<const Segment>;

  /// Null: nobody has it mapped.
  Mapped find(Rank peer, uint64_t region);
  /// What others find from now on: `memory`, or what another thread has mapped meanwhile.
  Mapped add(Rank peer, uint64_t region, Segment memory);

 private:
  std::mutex mutex_;
  std::map<std::pair<Rank, uint64_t>, std::weak_ptr<const Segment>> all_;
};

}  // namespace tutti::link
