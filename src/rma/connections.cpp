#include "rma/connections.hpp"

#include <utility>

#include "base/log.hpp"
#include "tutti/error.hpp"

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

void Connections::use_rdma(transports::RemoteMemory* device, std::vector<std::string> why_not) {
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    Peer& peer = peers_[rank];
    peer.why_no_rdma = std::move(why_not[rank]);
    if (device == nullptr || !peer.why_no_rdma.empty()) continue;
    peer.rdma = std::make_unique<RdmaConnection>(*this, static_cast<Rank>(rank), *device);
    add(static_cast<Rank>(rank), *peer.rdma);
  }
}

void Connections::drain_rdma(double limit) {
  const Deadline deadline = Deadline::in(limit);
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    if (peers_[rank].rdma == nullptr) continue;
    try {
      peers_[rank].rdma->flush_if_dirty(deadline.left());
    } catch (const Error& error) {
      if (error.code() == Code::InvalidUsage) continue;  // the peer has left, and its parts with it
      log_warn("rank {}: what it has put to rank {} may not be in place: {}", wireup_.rank(), rank, error.what());
    }
  }
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

void Connections::warn_of_requests(Rank peer, const char* why) {
  if (std::exchange(peers_[static_cast<size_t>(peer)].was_warned_of, true)) return;
  log_warn(
      "rank {}: windows send requests to rank {}, which is of this host: {}; calls on its parts take some hundred "
      "times as long as loads and stores",
      wireup_.rank(), peer, why);
}

}  // namespace tutti::rma
