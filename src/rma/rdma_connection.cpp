#include "rma/rdma_connection.hpp"

#include <utility>

#include "base/format.hpp"
#include "base/log.hpp"
#include "rma/connections.hpp"

namespace tutti::rma {

using transports::RemoteKey;
using transports::RemoteQueue;
using transports::RemoteWait;

void RdmaConnection::Wait::check() {
  has_ended_ = true;
  if (ends_.stop.load(std::memory_order_acquire) != 0) throw_error(Code::Aborted, "RDMA to rank {}: stopped", peer_);
  if (ends_.has_left(peer_)) throw_left(peer_);
  if (deadline_.passed()) {
    throw_error(Code::Timeout, "RDMA to rank {}: the peer's device did not answer in time", peer_);
  }
  has_ended_ = false;
}

bool RdmaConnection::is_usable(double limit) {
  if (queue_ != nullptr || is_refused_) return !is_refused_;
  const Deadline deadline = Deadline::in(limit);
  Channel& channel = connections_.channel(peer_, deadline);
  try {
    auto queue = device_.make_queue(peer_);
    queue->connect(channel.connect(queue->offer(), deadline));
    queue_ = std::move(queue);
    log_info("rank {}: windows reach rank {} by RDMA ({})", connections_.wireup().rank(), peer_, device_.name());
  } catch (const Error& error) {
    const bool lacks_device =
        error.code() == Code::Unsupported || error.code() == Code::SystemError || error.code() == Code::OutOfMemory;
    if (!lacks_device) throw;
    is_refused_ = true;
    log_warn("rank {}: windows send requests to rank {}, though {} is there: {}", connections_.wireup().rank(), peer_,
             device_.name(), error.what());
  }
  return !is_refused_;
}

RdmaConnection::Wait RdmaConnection::begin(uint64_t window, const RemoteKey& signals, double limit) {
  connections_.check_not_left(peer_);
  window_ = window;
  signals_ = signals;
  return {connections_.ends(), peer_, limit};
}

/// What the device refuses, the peer has deregistered. Later writes are lost with it, so it fails the communicator.
void RdmaConnection::explain(const Error& error, const Wait& wait) const {
  if (wait.has_ended()) throw error;
  if (leaves(peer_, connections_.ends())) throw_left(peer_);
  const Code code = error.code() == Code::InvalidUsage ? Code::PeerFailed : error.code();
  throw_error(code, "{} (in the window of call {}, or one that was used before it)", error.what(), window_);
}

void RdmaConnection::flush(double limit) {
  use(window_, signals_, limit, [this](RemoteQueue& queue, RemoteWait& wait) { queue.flush(signals_, wait); });
}

void RdmaConnection::flush_if_dirty(double limit) {
  if (!is_dirty) return;
  flush(limit);
  is_dirty = false;
}

}  // namespace tutti::rma
