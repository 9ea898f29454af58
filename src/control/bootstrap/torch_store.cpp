// The protocol of torch 2's stores (of both servers, the classic one and the one over libuv). Numbers have the
// machine's byte order, which is little-endian wherever both run. A request is one byte that names the query, then its
// arguments; a text or a value follows its length of 8 bytes.
//
//   Validate     a magic number of 4 bytes       first on every connection; no answer
//   CompareSet   name, expected, desired         the answer is the name's value afterwards
//
// CompareSet with an empty `expected` sets a name that has no value yet and leaves any other unchanged. So all ranks do
// the same, and none waits for another.
#include "control/bootstrap/torch_store.hpp"

#include <poll.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/format.hpp"
#include "base/log.hpp"
#include "base/secret.hpp"
#include "base/socket.hpp"

namespace tutti::control {
namespace {

enum class Query : uint8_t { Validate = 0, CompareSet = 2 };
constexpr uint32_t kTorchMagic = 0x3C85F7CE;
constexpr size_t kSecretBytes = 32, kDigits = 2 * kSecretBytes;
constexpr double kTrySeconds = 5;  // for one attempt: a host that drops packets must not use up all the time
constexpr int kConnectAgainMs = 100;
static_assert(std::endian::native == std::endian::little);

void put(std::string& request, const auto& number) {
  request.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void put_text(std::string& request, std::string_view text) {
  put(request, uint64_t{text.size()});
  request += text;
}

std::string request_for(const std::string& name, const std::string& desired) {
  std::string request;
  put(request, Query::Validate);
  put(request, kTorchMagic);
  put(request, Query::CompareSet);
  put_text(request, name);
  put_text(request, "");
  put_text(request, desired);
  return request;
}

/// Nothing listens there.
struct TorchRefused : Error {
  using Error::Error;
};

Fd connect_to(const Address& address, uint16_t port, WaitLimit limit) {
  Fd fd = start_connect(address, port);
  if (fd) await_ready(fd.get(), POLLOUT, limit);
  const int error = fd ? connect_error(fd.get()) : errno;
  if (error == ECONNREFUSED) throw TorchRefused(Code::PeerFailed, std::strerror(error));
  if (error != 0) throw_error(Code::PeerFailed, "{}", std::strerror(error));
  return fd;
}

/// Trusts nothing in the store's answer but 64 hexadecimal digits after their exact length.
std::string ask(const Address& address, uint16_t port, const std::string& request, WaitLimit limit) {
  const Fd fd = connect_to(address, port, limit);
  send_all(fd.get(), request, limit);
  uint64_t length = 0;
  recv_all(fd.get(), &length, sizeof length, limit);
  if (length != kDigits) throw_error(Code::ProtocolError, "its answer is not one of torch's store");
  std::string secret(kDigits, '\0');
  recv_all(fd.get(), secret.data(), secret.size(), limit);
  std::array<uint8_t, kSecretBytes> bytes{};
  if (!from_hex(secret, bytes.data(), bytes.size())) throw_error(Code::ProtocolError, "its answer is not a key");
  return secret;
}

/// One attempt at all addresses.
struct StoreAttempt {
  std::string secret;  // empty: failed
  std::string why;
  bool all_refused = true;
};

StoreAttempt try_once(const StoreAddress& store, const std::string& request, Deadline deadline) {
  StoreAttempt attempt;
  const auto failed = [&](const Error& error, const std::string& at) {
    attempt.why += fmt::format("{}{}{}", attempt.why.empty() ? "" : "; ", at, error.what());
    attempt.all_refused = attempt.all_refused && dynamic_cast<const TorchRefused*>(&error) != nullptr;
  };
  try {
    for (const Address& address : resolve(store.host)) {
      try {
        const WaitLimit limit{Deadline::in(std::min(kTrySeconds, deadline.left())), nullptr};
        attempt.secret = ask(address, store.port, request, limit);
        return attempt;
      } catch (const Error& error) {
        failed(error, to_string(address, store.port) + ": ");
      }
    }
  } catch (const Error& error) {
    failed(error, "");
  }
  return attempt;
}

}  // namespace

std::string secret_from_store(const StoreAddress& store, const std::string& name, Deadline deadline,
                              const StoreWaitLimits& limits) {
  const std::string request = request_for(name, random_hex(kSecretBytes));
  const Deadline silent = Deadline::in(limits.warn_after), gone = Deadline::in(limits.refused);
  bool answered = false, warned = false;
  for (;;) {
    const StoreAttempt attempt = try_once(store, request, deadline);
    if (!attempt.secret.empty()) return attempt.secret;
    answered = answered || !attempt.all_refused;
    if (store.opened_before && !answered && gone.passed()) {
      throw_error(Code::PeerFailed, "torchrun's store at {}:{} is gone, or a firewall refuses connections to it ({})",
                  store.host, store.port, attempt.why);
    }
    if (deadline.passed()) {
      throw_error(Code::Timeout, "could not get a key from torchrun's store at {}:{} ({})", store.host, store.port,
                  attempt.why);
    }
    if (!warned && silent.passed()) {
      log_warn(
          "still waiting for torchrun's store at {}:{} (MASTER_ADDR, MASTER_PORT), where ranks of several hosts get "
          "their key: {}. If no store will open there, set TUTTI_KEY to the same secret on all ranks",
          store.host, store.port, attempt.why);
      warned = true;
    }
    poll(nullptr, 0, deadline.poll_ms(kConnectAgainMs));
  }
}

}  // namespace tutti::control
