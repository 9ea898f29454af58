// TUTTI_METRICS: serves what the job's ranks on this host have counted, or writes it into a file. Belongs to the
// control thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "base/http.hpp"
#include "control/status/clients.hpp"
#include "control/status/metrics.hpp"
#include "control/status/questions.hpp"

namespace tutti::control {

class ControlThread;

/// Where TUTTI_METRICS says that metrics go.
struct MetricsTarget {
  enum class Kind : uint8_t { None, Tcp, Unix, File };
  Kind kind = Kind::None;
  std::string name;   ///< an abstract UNIX socket's, a path, or the address to listen at; "": all addresses
  uint16_t port = 0;  ///< of Tcp
};
/// Reads ":9400", "127.0.0.1:9400", "[::1]:9400", "localhost:9400", "unix:name", "file:/path". Throws
/// Error(InvalidArgument), naming the variable.
MetricsTarget parse_metrics_target(const std::string& text);

/// One process of the job on a host has the socket and asks the others; when it ends, another takes the socket. A file
/// is each process's own.
class MetricsServer {
 public:
  MetricsServer(ControlThread& control, Questions& questions);

  /// Does nothing if TUTTI_METRICS is unset. Of a target that cannot be used the log warns.
  void open();

 private:
  struct Gathering;

  void try_to_listen();
  Fd listen_at_target() const;
  void obey(Clients::Id client);
  void answer(Clients::Id client, const HttpRequest& request);
  void gather();
  void ask_all(const std::shared_ptr<Gathering>& now);
  void gathered();
  void write_file();

  ControlThread& control_;
  Questions& questions_;
  MetricsTarget target_;
  bool warned_ = false;
  Clients clients_;
  std::shared_ptr<Gathering> gathering_;  // null: none runs
};

}  // namespace tutti::control
