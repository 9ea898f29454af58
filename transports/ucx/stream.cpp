#include "transports/ucx/stream.hpp"

#include "base/format.hpp"
#include "base/secret.hpp"

namespace tutti::transports::ucx {
namespace {

constexpr uint64_t kSettled = 0x736974732d747475;  // a word of the stream
constexpr double kGoodbyeLimit = 0.5;              // seconds in which the words of an orderly close may still arrive

}  // namespace

Stream::Stream(const Who& who) : LinkStream("ucx", "", who), token_(random_u64()) {}

void Stream::say_hello(const std::string& address) {
  const Hello hello{.token = token_, .end = who().end, .address_bytes = static_cast<uint32_t>(address.size())};
  greet(std::string(reinterpret_cast<const char*>(&hello), sizeof hello) + address);
}

void Stream::set_settled() {
  if (settled_) return;
  say(kSettled);
  settled_ = true;
}

Status Stream::read(bool& moved, std::string& address) {
  if (greeted_) {
    Status status = read_goodbye(moved, kSettled, &peer_settled_);
    if (!status.ok() || ready() || !closed() || received_by_peer() != kLost) return status;
    return {Code::PeerFailed, fmt::format("{}: the peer closed it while the link was set up", name())};
  }
  std::string bytes;
  if (Status status = read_greeting(has_hello_ ? peer_.address_bytes : sizeof(Hello), moved, bytes);
      !status.ok() || bytes.empty()) {
    return status;
  }
  if (has_hello_) {
    greeted_ = true;
    address = std::move(bytes);
    return {};
  }
  std::memcpy(&peer_, bytes.data(), sizeof peer_);
  has_hello_ = true;
  const char* const what = check(peer_);
  if (what == nullptr) return {};
  return {Code::ProtocolError, fmt::format("{}: the peer's greeting is invalid: {}", name(), what)};
}

Status Stream::lost(const char* text) {
  if (!lost_) goodbye_until_ = Deadline::in(kGoodbyeLimit);
  lost_ = true;
  if (closed() || !goodbye_until_.passed()) return {};
  return {Code::PeerFailed, fmt::format("{} broke: UCX reports: {}; the peer's process or host is gone, or the network "
                                        "between them fails",
                                        name(), text)};
}

}  // namespace tutti::transports::ucx
