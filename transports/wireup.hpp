// What a transport asks of the control plane to reach a peer. The communicator implements it; tests fake it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/deadline.hpp"
#include "base/fd.hpp"
#include "base/rank.hpp"

namespace tutti::transports {

/// Which process a rank runs in. Equal places: the same process. Equal `host`: the two processes share memory files and
/// UNIX sockets.
struct ProcessId {
  std::string host;      ///< identity of the host: boot id and namespaces, never the host name
  uint32_t process = 0;  ///< process id
  uint64_t started = 0;  ///< the process's start time: tells a reused process id from the old one
  /// Drawn at random by the process. All the rest may be equal in two processes: the first of each process-id namespace
  /// is number 1, and a copy of a virtual machine has its original's boot id and process ids.
  uint64_t nonce = 0;

  bool operator==(const ProcessId&) const = default;
};

/// Wire-up services of one rank of one communicator. All calls may come from any thread; none needs the peer's user
/// threads, only its control thread, so a peer that computes for an hour can still be wired to.
class Wireup {
 public:
  virtual ~Wireup() = default;

  virtual Rank rank() const = 0;
  virtual Rank ranks() const = 0;
  virtual const ProcessId& process_id(Rank rank) const = 0;
  /// A name for this communicator that no other in any process of the job has.
  virtual const std::string& name() const = 0;

  /// Opens an authenticated stream to `peer`, labelled `label` (≤ 64 bytes). Throws Error(Timeout | PeerFailed | …).
  virtual Fd open_stream(Rank peer, const std::string& label, Deadline deadline) = 0;
  /// The stream that `peer` opened to this rank under `label`, once it has arrived. Never waits.
  virtual std::optional<Fd> take_stream(Rank peer, const std::string& label) = 0;

  struct Reply {
    std::string bytes;  ///< ≤ 4096 bytes
    Fd fd;              ///< a file descriptor that came along, if any
  };
  /// Answers requests of peers on this host, on the control thread: must be quick and must not throw.
  using Service = std::function<Reply(Rank from, const std::string& request)>;
  /// Registers `service` under `name`; an empty function removes it, and then no call of it is under way any more.
  virtual void serve(const std::string& name, Service service) = 0;
  /// Asks the service `name` of `peer`, a process of this host. Throws Error(Timeout | PeerFailed | …).
  virtual Reply ask(Rank peer, const std::string& service, const std::string& request, Deadline deadline) = 0;
};

}  // namespace tutti::transports
