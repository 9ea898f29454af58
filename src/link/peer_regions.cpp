#include "link/peer_regions.hpp"

namespace tutti::link {

PeerRegions::Mapped PeerRegions::find(Rank peer, uint64_t region) {
  const std::lock_guard lock(mutex_);
  const auto at = all_.find({peer, region});
  return at == all_.end() ? nullptr : at->second.lock();
}

PeerRegions::Mapped PeerRegions::add(Rank peer, uint64_t region, Segment memory) {
  auto mapped = std::make_shared<const Segment>(std::move(memory));
  const std::lock_guard lock(mutex_);
  std::erase_if(all_, [](const auto& known) { return known.second.expired(); });
  std::weak_ptr<const Segment>& known = all_[{peer, region}];
  if (Mapped first = known.lock()) return first;
  known = mapped;
  return mapped;
}

}  // namespace tutti::link
