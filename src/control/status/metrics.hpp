// What the ranks of processes have counted, as OpenMetrics text: for Prometheus and what reads its format.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "control/messages.hpp"

namespace tutti::control {

inline constexpr const char* kMetricsType = "application/openmetrics-text; version=1.0.0; charset=utf-8";
inline constexpr const char* kClassicType = "text/plain; version=0.0.4; charset=utf-8";

/// Calls of one collective and size class.
struct CallMetrics {
  std::string collective;                 ///< "all_reduce"
  uint8_t size_class = 0;                 ///< 0: of no bytes, or vector calls; c: from 2^(c-1) bytes on, to 2^c - 1
  uint64_t calls = 0, bytes = 0;          ///< bytes of their counts
  uint64_t sent = 0, received = 0;        ///< bytes of messages
  uint64_t waited = 0;                    ///< nanoseconds in waits of more than 20 us
  uint64_t traced_calls = 0, traced = 0;  ///< calls whose time is known, and their nanoseconds

  static void fields(auto& m, auto& v) {
    v.words(m.collective, kMaxName);
    v.number(m.size_class, m.calls, m.bytes, m.sent, m.received, m.waited, m.traced_calls, m.traced);
  }
};

/// What a rank's links to and from a peer on a link lane have carried, where their wire counts it.
struct LinkMetrics {
  std::string transport, peer_host;
  Rank peer = 0;
  uint32_t lane = 0;
  uint64_t sent = 0, received = 0;  ///< bytes that have arrived there, and have come from there
  uint64_t busy = 0;                ///< nanoseconds in which bytes were on the way to the peer
  uint64_t resent = 0;              ///< packets

  static void fields(auto& m, auto& v) {
    v.words(m.transport, kMaxLabel);
    v.words(m.peer_host, kMaxName);
    v.number(m.peer, m.lane, m.sent, m.received, m.busy, m.resent);
  }
};

/// Of one rank of one communicator.
struct RankMetrics {
  static constexpr size_t kMaxCalls = 4096, kMaxLinks = 1 << 16;

  std::string communicator, title, transports;
  Rank rank = 0, ranks = 0;
  uint8_t failed = 0;       ///< the communicator has
  uint32_t stuck_ms = 0;    ///< it waits now, for so long; 0: it does not
  uint64_t registered = 0;  ///< bytes of buffers that are registered on the communicator
  std::vector<CallMetrics> calls;
  std::vector<LinkMetrics> links;

  static void fields(auto& m, auto& v) {
    v.words(m.communicator, kMaxName);
    v.words(m.title, kMaxName);
    v.words(m.transports, kMaxName);
    v.number(m.rank, m.ranks, m.failed, m.stuck_ms, m.registered);
    v.list(m.calls, kMaxCalls);
    v.list(m.links, kMaxLinks);
  }
};

struct ProcessMetrics {
  uint32_t process = 0;
  uint64_t mapped = 0;  ///< bytes of tuttiMemAlloc that other processes can map
  std::string version;
  std::vector<RankMetrics> ranks;

  static void fields(auto& m, auto& v) {
    v.number(m.process, m.mapped);
    v.words(m.version, kMaxLabel);
    v.list(m.ranks, kMaxRanks);
  }
};

/// Ends with "# EOF".
std::string open_metrics(const std::vector<ProcessMetrics>& processes);
/// The same in the older text format of Prometheus, the only one that collectors of files and promtool read.
std::string classic_metrics(const std::vector<ProcessMetrics>& processes);

}  // namespace tutti::control
