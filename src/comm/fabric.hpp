// A rank's fabric: its arena, its transports, and the route to each peer.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "base/env.hpp"
#include "control/endpoint.hpp"
#include "exec/links.hpp"
#include "link/segment.hpp"
#include "transports/transport.hpp"

namespace tutti::comm {

/// Kinds of pairs of ranks, in FabricReport::routes.
inline constexpr const char* kBetweenThreads = "between threads of a process";
inline constexpr const char* kBetweenProcesses = "between processes of a host";
inline constexpr const char* kBetweenHosts = "between hosts";

/// A rank's report on its fabric to the others.
struct FabricReport {
  struct Slowest {  ///< the slowest of some links
    double alpha = 0, beta = 0;
    bool in_place = true;  ///< all of them can read the peer's memory
    static void fields(auto& m, auto& v) { v.real(m.alpha), v.real(m.beta), v.flag(m.in_place); }
  };
  uint64_t staging = 0;                  ///< bytes
  uint64_t longest = uint64_t{1} << 40;  ///< bytes of a message that all links can carry
  std::map<std::string, Slowest> links;  ///< by relation ("between hosts"): of the rank's links
  double most = 0;                       ///< select::most_inside() of its host
  std::string unreachable;               ///< why some peer is unreachable; empty if all are reachable
  transports::Word word;
  std::string cores;                          ///< cores on which it may run, as to_text(Cores)
  uint64_t arena = 0;                         ///< of its staging memory and links
  std::map<std::string, std::string> routes;  ///< by relation ("between hosts"): transports, joined by '+'

  static constexpr size_t kMaxRelations = 8, kMaxWords = 16 << 10;
  static void fields(auto& m, auto& v) {
    v.number(m.staging, m.longest);
    v.map(m.links, kMaxRelations, kMaxWords);
    v.real(m.most);
    v.words(m.unreachable, kMaxWords);
    v.number(m.word.at);
    v.number(m.word.value);
    v.text(m.cores, kMaxWords);
    v.number(m.arena);
    v.map(m.routes, kMaxRelations, kMaxWords);
  }
};

class Fabric final : public exec::Connector {
 public:
  /// Links are made within `link_timeout` seconds. `arenas`: of the communicator that was split; null for no split.
  Fabric(control::Endpoint& endpoint, double link_timeout, std::shared_ptr<link::SegmentFiles> arenas);
  ~Fabric() override;
  /// Ends a fabric and the endpoint it stands on. A rank that leaves may have sent what a slower rank of this process
  /// has yet to read where it lies: then both stay until the last rank of the process has left too.
  static void retire(std::unique_ptr<Fabric> fabric, std::shared_ptr<control::Endpoint> endpoint);

  /// Ends a fabric whose endpoint stays, once no rank reads or sends what lies there any more. Ends all services of the
  /// endpoint.
  static void close(std::unique_ptr<Fabric> fabric);

  const FabricReport& report() const { return report_; }
  /// Finds out what this rank can do with each peer's memory, tried on the words that they reported, by rank. Returns
  /// the weakest access to any peer's zero-copy data.
  transports::ReadAccess probe_cma(const std::vector<transports::Word>& words);
  /// Each rank can read all others, as probe_cma() found on all of them: traits() need not ask peers.
  void all_read() { all_read_ = true; }
  /// TUTTI_CMA; nothing else reads it.
  Cma cma() const { return cma_; }
  link::Arena& arena() { return *arena_; }
  /// The files from which its splits cut their arenas.
  const std::shared_ptr<link::SegmentFiles>& arenas() const { return arenas_; }
  /// What this rank has mapped of its peers' memory.
  link::PeerRegions& peer_regions();
  /// The call before this one has ended: nothing that its lanes found is in use any more.
  void begin_call() { ++*calls_; }
  /// The entry of the transport used for a peer.
  const transports::TransportEntry& entry_to(Rank peer) const { return *entries_.at(static_cast<size_t>(peer)); }
  /// The transport used for a peer.
  const char* transport_to(Rank peer) const { return routes_.at(static_cast<size_t>(peer))->name(); }
  /// Why preferred transports cannot be used between ranks in this relation; "" if none is preferred.
  std::string why_no_better(const std::string& relation) const;
  /// The transports in use that need progress().
  const std::vector<transports::Transport*>& engines() const { return engines_; }
  /// What the wires of links have counted, by transport. Any thread.
  std::map<std::string, std::vector<transports::Traffic>> traffic() const;

  link::LinkTraits traits(Rank peer) override;
  link::OutLink connect_out(Rank peer, uint32_t link_lane) override;
  link::InLink connect_in(Rank peer, uint32_t link_lane) override;

 private:
  struct Parts;          // arena and transports
  struct Route;          // what reaches a peer
  struct Readable;       // the peers whose memory this rank can read
  struct ProcessShared;  // what departed ranks of this process leave to the others
  void make_arena();
  void make_routes();
  Route find_route(Rank peer, const transports::Context& context);
  void use_route(Rank peer, const Route& route);
  void serve_readability();
  bool is_read_by(Rank peer);
  void note_route(Rank peer, const std::string& transport, const std::string& why_no_better);

  control::Endpoint& endpoint_;
  const double link_timeout_;
  const Cma cma_;
  std::unique_ptr<Parts> parts_;
  std::shared_ptr<ProcessShared> process_shared_;
  const std::shared_ptr<link::SegmentFiles> arenas_;
  link::Arena* arena_ = nullptr;
  uint64_t* calls_ = nullptr;
  std::vector<transports::Transport*> routes_;  // by peer
  std::vector<const transports::TransportEntry*> entries_;
  std::vector<transports::Transport*> engines_;
  FabricReport report_;
  std::map<std::string, std::string> reasons_;  // by relation, for its first peer
  bool shares_process_ = false;
  std::vector<transports::Capabilities> capabilities_;  // by peer
  std::shared_ptr<Readable> readable_;
  bool all_read_ = false;
  std::map<Rank, bool> readers_;  // peers that have been asked, and whether they can read this rank's memory
};

}  // namespace tutti::comm
