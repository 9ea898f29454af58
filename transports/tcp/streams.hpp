// Opens the streams of a link: over which interfaces, how many, and with which congestion control.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "base/fd.hpp"
#include "transports/wireup.hpp"

namespace tutti::transports::tcp {

/// The label of a stream of a link.
std::string label_of(uint32_t link_lane, uint32_t stream);

/// Streams of a link over one interface of this speed, 0: unknown. As TUTTI_TCP_STREAMS says, if it is set.
uint32_t streams_for(double mbps);

/// Sets the congestion control of a connection, as TUTTI_TCP_CONGESTION says. Returns its name; "" if it has none.
std::string choose_congestion_control(int fd);

/// "10 Gb/s", "unknown speed".
std::string speed_words(double mbps);

class StreamOpener {
 public:
  explicit StreamOpener(Wireup& wireup) : wireup_(wireup) {}
  /// The streams of a new link to `peer`, at least one, all authenticated. Throws Error as Wireup::open_stream does.
  std::vector<Fd> open(Rank peer, uint32_t link_lane, Deadline deadline);

 private:
  std::vector<Path>& paths(Rank peer);
  Fd open_one(std::vector<Path>& paths, Rank peer, uint32_t link_lane, uint32_t stream, Deadline deadline);

  Wireup& wireup_;
  std::map<Rank, std::vector<Path>> paths_;  // those that were not found to lead nowhere
  bool logged_ = false;
};

}  // namespace tutti::transports::tcp
