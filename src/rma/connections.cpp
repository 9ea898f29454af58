#include "rma/connections.hpp"

namespace tutti::rma {

Channel& Connections::channel(Rank rank, Deadline deadline) {
  check_not_left(rank);
  Peer& peer = peers_[static_cast<size_t>(rank)];
  if (peer.channel == nullptr) {
    peer.channel = std::make_unique<Channel>(wireup_, rank, ends_, deadline);
    add(rank, *peer.channel);
  }
  return *peer.channel;
}

void Connections::flush(Rank peer, double limit, const Connection* except) {
  for (Connection* const connection : peers_[static_cast<size_t>(peer)].all) {
    if (!connection->is_dirty || connection == except) continue;
    check_not_left(peer);
    connection->flush(limit);
    connection->is_dirty = false;
  }
}

void Connections::check_not_left(Rank peer) const {
  if (ends_.has_left(peer)) throw_left(peer);
}

}  // namespace tutti::rma
