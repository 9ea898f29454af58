// The stream over which the two ends of a link agree on it: of engines whose messages take another way (verbs, ucx).
//
// The writer opens it, and each end sends a greeting. It stays open: its end tells that the peer has closed the link,
// or died, long before a device or a library gives up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "base/fd.hpp"
#include "base/format.hpp"
#include "base/rank.hpp"
#include "base/socket.hpp"
#include "base/status.hpp"

namespace tutti::transports {

class LinkStream {
 public:
  struct Who {
    Rank peer = kNoRank;
    uint32_t link_lane = 0;
    uint32_t end = 0;  ///< of this rank's ends
    bool writes = false;
  };
  /// `device`: ", NAME" or "", for people.
  LinkStream(const char* transport, std::string device, const Who& who)
      : transport_(transport), device_(std::move(device)), who_(who) {}

  const Who& who() const { return who_; }
  /// "verbs: the link to rank 3 (link lane 0, mlx5_0:1)"
  std::string name() const {
    return fmt::format("{}: the link {} rank {} (link lane {}{})", transport_, who_.writes ? "to" : "from", who_.peer,
                       who_.link_lane, device_);
  }
  int fd() const { return fd_.get(); }
  bool has_fd() const { return static_cast<bool>(fd_); }
  void attach(Fd fd) { fd_ = std::move(fd); }

  /// Sends a greeting: the stream is new, so its buffer has room. Throws Error.
  void greet(std::string_view bytes) const {
    if (send_now(fd_.get(), bytes) == static_cast<ptrdiff_t>(bytes.size())) return;
    throw_error(Code::PeerFailed, "{}: the connection broke while the link was set up", name());
  }
  /// Reads the next `wanted` bytes of the peer's greeting; `complete` gets them when all have come. Never waits.
  Status read_greeting(size_t wanted, bool& moved, std::string& complete) {
    if (fill(wanted, moved)) complete = std::exchange(bytes_, {});
    if (!closed_) return {};
    return {Code::PeerFailed, fmt::format("{}: the peer closed it while the link was set up", name())};
  }
  /// After the greetings. Never waits. `said` is set when the peer has said `word` instead, with say().
  Status read_goodbye(bool& moved, uint64_t word = 0, bool* said = nullptr) {
    if (!fill(sizeof(Goodbye), moved)) return {};
    Goodbye goodbye;
    std::memcpy(&goodbye, bytes_.data(), sizeof goodbye);
    if (said != nullptr && !*said && goodbye.magic == word) {
      bytes_.clear();
      *said = true;
      return {};
    }
    if (goodbye.magic != Goodbye::kMagic || goodbye.messages == kLost) {
      return {Code::ProtocolError, fmt::format("{}: the peer sent something else than its goodbye", name())};
    }
    goodbye_ = goodbye.messages;
    closed_ = true;
    return {};
  }
  /// Tells the peer that this end closes, having received `messages`.
  void say_goodbye(uint64_t messages) const noexcept {
    if (!fd_ || closed_) return;
    const Goodbye goodbye{.messages = messages};
    (void)send_now(fd_.get(), {reinterpret_cast<const char*>(&goodbye), sizeof goodbye});
  }

  /// Sends a word that read_goodbye() knows. Throws Error.
  void say(uint64_t word) const {
    const Goodbye message{.magic = word};
    greet({reinterpret_cast<const char*>(&message), sizeof message});
  }

  bool closed() const { return closed_; }
  static constexpr uint64_t kLost = ~uint64_t{0};
  /// Messages that the peer had received when it closed; kLost: it said nothing, so it has died, or failed.
  uint64_t received_by_peer() const { return goodbye_; }

 private:
  struct Goodbye {
    static constexpr uint64_t kMagic = 0x6579622d69747475;  // "utti-bye"
    uint64_t magic = kMagic;
    uint64_t messages = 0;  // that the sender has received
  };

  /// Reads until `wanted` bytes are here: true.
  bool fill(size_t wanted, bool& moved) {
    if (!fd_ || closed_) return false;
    const size_t had = bytes_.size();
    bytes_.resize(wanted);
    const ptrdiff_t got = recv_now(fd_.get(), bytes_.data() + had, wanted - had);
    bytes_.resize(had + static_cast<size_t>(std::max<ptrdiff_t>(got, 0)));
    moved = moved || got != 0;
    closed_ = got < 0;
    return bytes_.size() == wanted;
  }

  const char* const transport_;
  const std::string device_;
  const Who who_;
  Fd fd_;
  std::string bytes_;  // of what comes next
  bool closed_ = false;
  uint64_t goodbye_ = kLost;
};

}  // namespace tutti::transports
