#include "rma/rdma_connection.hpp"

#include <algorithm>
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
  if (patience_.end().passed()) {
    throw_error(Code::Timeout, "RDMA to rank {}: the peer's device did not answer for {} s", peer_,
                patience_.seconds());
  }
  has_ended_ = false;
}

bool RdmaConnection::connect(const RemoteKey& signals, double limit) {
  const Rank me = connections_.wireup().rank();
  const Deadline deadline = Deadline::in(limit);
  std::unique_ptr<RemoteQueue> queue = make_queue(deadline);
  if (queue == nullptr || !answers(*queue, signals, deadline.left())) {
    log_warn("rank {}: windows send requests to rank {}, though {} is there: {}", me, peer_, device_.name(), refusal_);
    return false;
  }
  queue_ = std::move(queue);
  log_info("rank {}: windows reach rank {} by RDMA ({})", me, peer_, device_.name());
  return true;
}

/// Null: the peer, or this rank's device, cannot.
std::unique_ptr<RemoteQueue> RdmaConnection::make_queue(Deadline deadline) {
  Channel& channel = connections_.channel(peer_, deadline);
  try {
    auto queue = device_.make_queue(peer_);
    queue->connect(channel.connect(queue->offer(), deadline.left()));
    return queue;
  } catch (const Error& error) {
    const bool lacks_device =
        error.code() == Code::Unsupported || error.code() == Code::SystemError || error.code() == Code::OutOfMemory;
    if (!lacks_device) throw;
    refusal_ = error.what();
    return nullptr;
  }
}

/// Reads a word of the peer. The two devices may lie in networks that are not joined: of their messages, which another
/// transport may carry, that says nothing. Nothing is lost when this fails, as it would be with a first put.
bool RdmaConnection::answers(RemoteQueue& queue, const RemoteKey& signals, double limit) {
  constexpr double kLongest = 10;  // seconds: more than a device tries
  Wait wait(connections_.ends(), peer_, std::min(limit / 2, kLongest));
  try {
    queue.flush(signals, wait);
    return true;
  } catch (const Error& error) {
    if (wait.has_ended() && error.code() != Code::Timeout) throw;
    refusal_ = error.what();
    return false;
  }
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
