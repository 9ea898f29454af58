// What the streams to each peer have carried, as the kernel counts it.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "base/rank.hpp"
#include "transports/transport.hpp"

namespace tutti::transports::tcp {

/// Any thread. The descriptors stay open as long as it lives.
class StreamTraffic {
 public:
  /// A stream to a peer, …
  void add_out(Rank peer, uint32_t lane, int fd) { add({peer, lane, fd, true}); }
  /// … or from one.
  void add_in(Rank peer, uint32_t lane, int fd) { add({peer, lane, fd, false}); }

  std::vector<Traffic> read() const;

 private:
  struct Stream {
    Rank peer = kNoRank;
    uint32_t lane = 0;
    int fd = -1;
    bool out = false;
  };
  void add(const Stream& stream);

  mutable std::mutex mutex_;  // guards the member below
  std::vector<Stream> streams_;
};

}  // namespace tutti::transports::tcp
