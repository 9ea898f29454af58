#include "transports/ucx/stream.hpp"

#include <algorithm>
#include <utility>

#include "base/format.hpp"
#include "base/secret.hpp"
#include "base/socket.hpp"

namespace tutti::transports::ucx {
namespace {

constexpr double kGoodbyeLimit = 0.5;  // seconds in which the words of an orderly close may still arrive

}  // namespace

Stream::Stream(const Who& who) : who_(who), token_(random_u64()) {}

std::string Stream::name() const {
  return fmt::format("ucx: the link {} rank {} (link lane {})", who_.writes ? "to" : "from", who_.peer, who_.link_lane);
}

void Stream::say_hello(const std::string& address) {
  const Hello hello{.token = token_, .end = who_.end, .address_bytes = static_cast<uint32_t>(address.size())};
  std::string bytes(reinterpret_cast<const char*>(&hello), sizeof hello);
  bytes += address;
  // The stream is new, so its buffer has room.
  if (send_now(stream_.get(), bytes) != static_cast<ptrdiff_t>(bytes.size())) {
    throw_error(Code::PeerFailed, "{}: the connection broke while addresses were exchanged", name());
  }
}

Status Stream::read(bool& moved, bool& greeted, std::string& address) {
  greeted = false;
  if (!stream_ || closed_) return {};
  const size_t wanted = greeted_ ? sizeof(Goodbye) : has_hello_ ? peer_.address_bytes : sizeof(Hello);
  const size_t had = bytes_.size();
  bytes_.resize(wanted);
  const ptrdiff_t got = recv_now(stream_.get(), bytes_.data() + had, wanted - had);
  bytes_.resize(had + static_cast<size_t>(std::max<ptrdiff_t>(got, 0)));
  if (got == 0) return {};
  moved = true;
  if (got < 0) {
    closed_ = true;
    if (ready_) return {};
    return {Code::PeerFailed, fmt::format("{}: the peer closed it while addresses were exchanged", name())};
  }
  if (bytes_.size() < wanted) return {};
  address = std::exchange(bytes_, {});
  return take(address.data(), greeted);
}

/// What was wanted is complete.
Status Stream::take(const char* bytes, bool& greeted) {
  if (!has_hello_) {
    std::memcpy(&peer_, bytes, sizeof peer_);
    has_hello_ = true;
    const char* const what = check(peer_);
    if (what == nullptr) return {};
    return {Code::ProtocolError, fmt::format("{}: the peer's greeting is invalid: {}", name(), what)};
  }
  if (!greeted_) {
    greeted = greeted_ = true;
    return {};
  }
  Goodbye goodbye;
  std::memcpy(&goodbye, bytes, sizeof goodbye);
  if (goodbye.magic != Goodbye::kMagic || goodbye.messages == kLost) {
    return {Code::ProtocolError, fmt::format("{}: the peer sent something else than its goodbye", name())};
  }
  goodbye_ = goodbye.messages;
  closed_ = true;
  return {};
}

void Stream::say_goodbye(uint64_t messages) noexcept {
  if (!ready_ || closed_) return;
  const Goodbye goodbye{.messages = messages};
  (void)send_now(stream_.get(), {reinterpret_cast<const char*>(&goodbye), sizeof goodbye});
}

Status Stream::lost(const char* text) {
  if (!lost_) goodbye_until_ = Deadline::in(kGoodbyeLimit);
  lost_ = true;
  if (closed_ || !goodbye_until_.passed()) return {};
  return {Code::PeerFailed, fmt::format("{} broke: UCX reports: {}; the peer's process or host is gone, or the network "
                                        "between them fails",
                                        name(), text)};
}

}  // namespace tutti::transports::ucx
