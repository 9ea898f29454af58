// A rank's connections to the ranks of its communicator, which all its windows use.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/deadline.hpp"
#include "base/rank.hpp"
#include "link/peer_regions.hpp"
#include "rma/channel.hpp"
#include "rma/rdma_connection.hpp"
#include "rma/remote_part.hpp"
#include "transports/wireup.hpp"

namespace tutti::rma {

class Connections {
 public:
  /// `regions`: that the rank has mapped, for messages too. `use_cma`: processes of the host may access each other's
  /// memory through the kernel.
  Connections(transports::Wireup& wireup, link::PeerRegions& regions, Ends ends, bool use_cma)
      : wireup_(wireup),
        regions_(regions),
        ends_(std::move(ends)),
        use_cma_(use_cma),
        peers_(static_cast<size_t>(wireup.ranks())) {}

  transports::Wireup& wireup() const { return wireup_; }
  link::PeerRegions& regions() const { return regions_; }
  const Ends& ends() const { return ends_; }
  bool use_cma() const { return use_cma_; }

  /// The stream to the peer's agent, opened at its first use. Throws Error(InvalidUsage) if the peer has left.
  Channel& channel(Rank peer, Deadline deadline);
  /// Null: it has not been opened.
  Channel* open_channel(Rank peer) const { return peers_[static_cast<size_t>(peer)].channel.get(); }
  /// Peers for which `why_not` says nothing are reached by the device, which outlives this.
  void use_rdma(transports::RemoteMemory* device, std::vector<std::string> why_not);
  /// The queue pair to the peer; null: the device does not reach it.
  RdmaConnection* rdma(Rank peer) const { return peers_[static_cast<size_t>(peer)].rdma.get(); }
  const std::string& why_no_rdma(Rank peer) const { return peers_[static_cast<size_t>(peer)].why_no_rdma; }
  /// What devices have been given to write is in place when it returns, or the log says what is not. `limit`: seconds
  /// that all peers together may take.
  void drain_rdma(double limit);
  /// Another connection to the peer, which is counted from now on.
  void add(Rank peer, Connection& connection) { peers_[static_cast<size_t>(peer)].all.push_back(&connection); }

  /// May something be on its way to the peer?
  bool are_dirty(Rank peer) const {
    for (const Connection* const connection : peers_[static_cast<size_t>(peer)].all) {
      if (connection->is_dirty) return true;
    }
    return false;
  }
  /// Flushes all connections to the peer that are dirty, but not `except`.
  void flush(Rank peer, double limit, const Connection* except = nullptr);
  /// Throws Error(InvalidUsage) if the peer has left.
  void check_not_left(Rank peer) const;
  /// Loads and stores were to reach parts of a peer of this host, and do not. Said once of each peer.
  void warn_of_requests(Rank peer, const char* why);

 private:
  struct Peer {
    std::unique_ptr<Channel> channel;
    std::unique_ptr<RdmaConnection> rdma;
    std::string why_no_rdma;
    bool was_warned_of = false;
    std::vector<Connection*> all;
  };
  transports::Wireup& wireup_;
  link::PeerRegions& regions_;
  const Ends ends_;
  const bool use_cma_;
  std::vector<Peer> peers_;  // by rank
};

}  // namespace tutti::rma
