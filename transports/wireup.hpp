// The services of the control plane that transports use to connect to a peer. Tests have a fake implementation.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/address.hpp"
#include "base/deadline.hpp"
#include "base/fd.hpp"
#include "base/rank.hpp"
#include "topo/share.hpp"

namespace tutti::transports {

/// Identifies the process a rank runs in. Processes with an equal `host` can share memory files and UNIX sockets.
struct ProcessId {
  std::string host;      ///< identity of the host: boot id and namespaces, never the host name
  uint32_t process = 0;  ///< process id
  uint64_t started = 0;  ///< start time of the process: distinguishes a reused process id from the old one
  /// Drawn at random by the process, because the other fields can be equal in two processes: the first process of each
  /// process-id namespace is number 1, and a copied virtual machine has the original's boot id and process ids.
  uint64_t nonce = 0;

  bool operator==(const ProcessId&) const = default;
};

/// A way between two hosts: from one of this host's interfaces to an address of the peer's.
struct Path {
  std::string interface;
  Address from, to;
  double mbps = 0;  ///< speed of the interface; 0: unknown
};

/// Wire-up services of one rank of one communicator. All calls may come from any thread. They need the peer's control
/// thread only, so a peer whose user threads are busy can still be connected.
class Wireup {
 public:
  virtual ~Wireup() = default;

  virtual Rank rank() const = 0;
  virtual Rank ranks() const = 0;
  virtual const ProcessId& process_id(Rank rank) const = 0;
  /// Returns if the process that `peer`, a rank of this host, names as its own is the one that answers for it. Throws
  /// Error(ProtocolError | Timeout | …) if not.
  virtual void confirm_process(Rank peer, Deadline deadline) = 0;
  /// A name that is unique to this communicator among all processes of the job.
  virtual const std::string& name() const = 0;

  /// Opens an authenticated stream to `peer`, labelled `label` (≤ 64 bytes). Throws Error(Timeout | PeerFailed | …).
  virtual Fd open_stream(Rank peer, const std::string& label, Deadline deadline) = 0;
  /// The ways to a rank of another host that this rank should use, fastest first, each over its interface. Whether a
  /// way leads there is not tried. Empty: there is no choice.
  virtual std::vector<Path> paths(Rank peer) const {
    (void)peer;
    return {};
  }
  /// open_stream() over one of paths().
  virtual Fd open_stream_over(const Path& path, Rank peer, const std::string& label, Deadline deadline) {
    (void)path;
    return open_stream(peer, label, deadline);
  }
  /// The stream that `peer` opened to this rank under `label`, once it has arrived. Never waits.
  virtual std::optional<Fd> take_stream(Rank peer, const std::string& label) = 0;

  /// Streams that come under `label` from now on, or have come, are given to `take` in place of take_stream(). It runs
  /// on the control thread, or in this call: it must be quick and must not throw. An empty function ends that;
  /// afterwards no call of it is running.
  virtual void receive_streams(const std::string& label, std::function<void(Rank from, Fd stream)> take) = 0;

  struct Reply {
    std::string bytes;  ///< ≤ 4096 bytes
    Fd fd;              ///< a file descriptor that came along, if any
  };
  /// Answers requests of peers on this host. Runs on the control thread: it must be quick and must not throw.
  using Service = std::function<Reply(Rank from, const std::string& request)>;
  /// Registers `service` under `name`. An empty function removes it; afterwards no call of it is running.
  virtual void serve(const std::string& name, Service service) = 0;
  /// Asks the service `name` of `peer`, a process of this host. Throws Error(Timeout | PeerFailed | …).
  virtual Reply ask(Rank peer, const std::string& service, const std::string& request, Deadline deadline) = 0;
};

/// Where this rank stands among those of its host.
inline topo::HostPlace place_on_host(const Wireup& wireup) {
  topo::HostPlace place;
  for (Rank other = 0; other < wireup.ranks(); ++other) {
    if (wireup.process_id(other).host != wireup.process_id(wireup.rank()).host) continue;
    place.index += other < wireup.rank() ? 1 : 0;
    ++place.ranks;
  }
  return place;
}

}  // namespace tutti::transports
