// A rank's fabric: its arena, its transports, and which of them leads to each peer.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "control/endpoint.hpp"
#include "exec/links.hpp"
#include "plan/grouping.hpp"
#include "transports/shm/segment.hpp"
#include "transports/transport.hpp"

namespace tutti::comm {

/// What this rank tells the others about its fabric, once.
struct FabricReport {
  struct Slowest {  ///< of some links
    double alpha = 0, beta = 0;
    bool in_place = true;  ///< all of them read each other's memory
  };
  uint64_t staging = 0;     ///< bytes
  Slowest inside;           ///< of its links within its group
  Slowest between;          ///< of its other links
  std::string unreachable;  ///< why some peer cannot be reached; empty if all can
  transports::Word word;
  std::string cores;                          ///< where it may run, as to_text(Cores)
  uint64_t arena = 0;                         ///< bytes of its staging memory and links
  std::map<std::string, std::string> routes;  ///< by relation ("between hosts"): its transports there, '+' between
};

class Fabric final : public exec::Connector {
 public:
  /// Links are made within `link_timeout` seconds.
  Fabric(control::Endpoint& endpoint, const plan::Grouping& groups, double link_timeout);
  ~Fabric() override;
  /// Ends a fabric and the endpoint it stands on. A rank that leaves may have sent what a slower rank of this process
  /// has yet to read where it lies: then both stay until the last rank of the process has left too.
  static void retire(std::unique_ptr<Fabric> fabric, std::shared_ptr<control::Endpoint> endpoint);

  const FabricReport& report() const { return report_; }
  /// How this rank reads what others lend, at the least, as tried on the words that they reported, by rank.
  transports::ReadAccess reading(const std::vector<transports::Word>& words) const;
  /// See Transport.
  void all_read();
  link::Arena& arena() { return *arena_; }
  /// The transport that leads to a peer.
  const char* transport_to(Rank peer) const { return routes_.at(static_cast<size_t>(peer))->name(); }
  /// Why the transports that would be preferred between ranks in this relation do not lead there; "" where none is.
  std::string why_no_better(const std::string& relation) const;
  /// The transports in use that have to be driven.
  const std::vector<transports::Transport*>& engines() const { return engines_; }

  link::OutLink connect_out(Rank peer, uint32_t link_lane) override;
  link::InLink connect_in(Rank peer, uint32_t link_lane) override;

 private:
  struct Parts;    // arena and transports
  struct Commons;  // what the ranks of one process leave behind
  void make_arena();
  void make_routes(const plan::Grouping& groups);
  void note_route(Rank peer, const std::string& transport, const std::string& why_no_better);

  control::Endpoint& endpoint_;
  const double link_timeout_;
  std::unique_ptr<Parts> parts_;
  std::shared_ptr<Commons> commons_;
  link::Arena* arena_ = nullptr;
  std::vector<transports::Transport*> routes_;  // by peer
  std::vector<transports::Transport*> engines_;
  FabricReport report_;
  std::map<std::string, std::string> whys_;  // by relation, of its first peer
  bool shares_process_ = false;
};

}  // namespace tutti::comm
