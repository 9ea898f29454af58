#include "control/bootstrap/dial.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/format.hpp"

namespace tutti::control {
namespace {

constexpr double kChallengeSeconds = 5;  // as long as the other end's limit
constexpr double kRefusedSeconds = 0.2;  // of refusals only: then nothing listens
constexpr int kFirstPauseMs = 5, kLongestPauseMs = 200;

/// How long attempt `tries` (from 1) waits for the other end's part of the challenge. If the other end accepted a
/// connection and then ignores it, a second connection may do better.
double challenge_seconds(int tries) { return std::min(kChallengeSeconds, static_cast<double>(tries)); }

/// Pauses before the next attempt: longer each time, and randomized so that peers do not retry together.
void pause(int tries, WaitLimit limit) {
  const int longest = std::min(kLongestPauseMs, kFirstPauseMs << std::min(tries, 10));
  const int ms = longest / 2 + static_cast<int>(random_u64() % static_cast<uint64_t>(longest / 2 + 1));
  poll(nullptr, 0, std::min(limit.deadline.poll_ms(), ms));
  if (limit.stop && limit.stop->load(std::memory_order_relaxed) != 0) throw_error(Code::Aborted, "stopped");
}

/// Authenticates both ends of a fresh connection. Throws Error(InvalidArgument) if the other end rejects the key or is
/// another version of Tutti, ProtocolError if it is no Tutti that knows the key.
void prove(int fd, const Key& key, WaitLimit limit, int tries) {
  const double most = challenge_seconds(tries);
  if (limit.deadline.left() > most) limit.deadline = Deadline::in(most);
  try {
    challenge::Hello hello;
    recv_all(fd, &hello, sizeof hello, limit);
    if (hello.magic == challenge::kNoDescriptor) {
      throw_error(Code::SystemError, "its process has no file descriptor left for a connection; raise ulimit -n there");
    }
    if (!std::equal(hello.magic.begin(), hello.magic.end() - 1, challenge::kMagic.begin())) {
      throw_error(Code::ProtocolError, "the listener there is not Tutti");
    }
    if (hello.magic != challenge::kMagic) {
      throw_error(Code::InvalidArgument,
                  "it speaks version {} of the control protocol, this library {}: use one version "
                  "of Tutti in all processes of a job",
                  hello.magic.back(), challenge::kMagic.back());
    }
    const challenge::Claim claim = challenge::make_claim(key, hello);
    send_all(fd, {reinterpret_cast<const char*>(&claim), sizeof claim}, limit);
    challenge::Proof proof;
    recv_all(fd, &proof, sizeof proof, limit);
    if (proof.proof == challenge::kUnknownKey.proof) {
      throw_error(Code::InvalidArgument,
                  "it does not know this key: the unique id is another job's, or its job has ended");
    }
    if (!challenge::check_proof(key, hello, claim, proof)) {
      throw_error(Code::ProtocolError, "it could not prove that it knows the key");
    }
  } catch (const Error& error) {
    if (error.code() != Code::PeerFailed) throw;
    throw_error(Code::PeerFailed, "it closed the connection during the challenge");
  }
}

struct Attempt {
  Address address;
  Fd fd;
};

/// The result of one attempt at all addresses.
struct Round {
  Fd connected;
  bool all_refused = true;             // every address refused the connection: nothing listens
  Code unauthenticated = Code::Ok;     // a listener does not know the key: why
  bool exhausted = false;              // a listener cannot accept connections now
  std::vector<std::string> reasons{};  // of each failure

  void failed(const Address& address, uint16_t port, const std::string& why, bool refused) {
    reasons.push_back(fmt::format("{}: {}", to_string(address, port), why));
    all_refused &= refused;
  }
};

/// Authenticates a connected socket; true on success.
bool try_challenge(Attempt& attempt, uint16_t port, const Key& key, WaitLimit limit, int tries, Round& round) {
  try {
    prove(attempt.fd.get(), key, limit, tries);
    round.connected = std::move(attempt.fd);
    return true;
  } catch (const Error& error) {
    if (error.code() == Code::Aborted) throw;
    if (is_rejection(error.code())) round.unauthenticated = error.code();
    round.exhausted |= error.code() == Code::SystemError;
    round.failed(attempt.address, port, error.what(), false);
    return false;
  }
}

/// Connects to all addresses at the same time, since some may drop every packet.
Round dial_round(const std::vector<Address>& addresses, uint16_t port, const Key& key, WaitLimit limit, int tries,
                 const Address* from) {
  Round round;
  std::vector<Attempt> open;
  for (const Address& address : addresses) {
    if (Fd fd = start_connect(address, port, from)) {
      open.push_back({address, std::move(fd)});
    } else {
      round.failed(address, port, std::strerror(errno), errno == ECONNREFUSED);
    }
  }
  while (!open.empty()) {
    std::vector<pollfd> entries;
    for (const Attempt& attempt : open) entries.push_back({attempt.fd.get(), POLLOUT, 0});
    poll(entries.data(), entries.size(), limit.deadline.poll_ms(limit.stop ? 20 : 1000));
    if (limit.stop && limit.stop->load(std::memory_order_relaxed) != 0) throw_error(Code::Aborted, "stopped");
    for (size_t i = open.size(); i-- > 0;) {
      if (entries[i].revents == 0) continue;
      if (const int error = connect_error(open[i].fd.get()); error != 0) {
        round.failed(open[i].address, port, std::strerror(error), error == ECONNREFUSED);
      } else if (try_challenge(open[i], port, key, limit, tries, round)) {
        send_without_delay(round.connected.get());
        return round;
      }
      open.erase(open.begin() + static_cast<ptrdiff_t>(i));
    }
    if (limit.deadline.passed()) break;
  }
  for (const Attempt& attempt : open) round.failed(attempt.address, port, "no answer", false);
  return round;
}

}  // namespace

Fd dial(const std::vector<Address>& addresses, uint16_t port, const Key& key, WaitLimit limit, const Address* from) {
  const Deadline refused = Deadline::in(kRefusedSeconds);
  bool answered = false;  // some address did not refuse
  std::string exhausted;  // the last round's reasons in which a listener could not accept connections
  for (int tries = 1;; ++tries) {
    Round round = dial_round(addresses, port, key, limit, tries, from);
    if (round.connected) return std::move(round.connected);
    const std::string reasons = fmt::format("{}", fmt::join(round.reasons, "; "));
    if (round.unauthenticated != Code::Ok) throw_error(round.unauthenticated, "cannot connect ({})", reasons);
    answered = answered || !round.all_refused;
    if (!answered && (refused.passed() || limit.deadline.passed())) {
      throw_error(Code::PeerFailed,
                  "nothing listens there ({}): its process has ended, or a firewall refuses connections to it",
                  reasons);
    }
    if (round.exhausted) exhausted = reasons;
    if (limit.deadline.passed()) {
      if (exhausted.empty()) throw_error(Code::Timeout, "cannot connect in time ({})", reasons);
      throw_error(Code::SystemError, "cannot connect in time ({}{})", exhausted,
                  round.exhausted ? "" : "; then " + reasons);
    }
    pause(tries, limit);
  }
}

Fd dial_unix(const std::string& name, const Key& key, WaitLimit limit, bool same_user) {
  for (int tries = 1;; ++tries) {
    Fd fd = connect_unix(name, limit);
    const int64_t user = same_user ? peer_user(fd.get()) : 0;
    if (user < 0)
      throw_error(Code::SystemError, "whose the abstract UNIX socket '{}' is cannot be told: SO_PEERCRED is refused",
                  name);
    if (same_user && user != static_cast<int64_t>(geteuid()))
      throw_error(Code::SystemError, "the abstract UNIX socket '{}' is held by uid {}, not by this user", name, user);
    try {
      prove(fd.get(), key, limit, tries);
      return fd;
    } catch (const Error& error) {
      const bool again = error.code() == Code::PeerFailed || error.code() == Code::Timeout;
      if (!again || limit.deadline.passed()) throw;
    }
    pause(tries, limit);
  }
}

std::string receive_frame(int fd, size_t max_bytes, WaitLimit limit, Fd* passed) {
  std::array<uint8_t, 4> prefix{};
  Fd received = recv_with_fd(fd, prefix.data(), prefix.size(), limit);
  size_t length = 0;
  for (size_t i = 0; i < prefix.size(); ++i) length |= static_cast<size_t>(prefix[i]) << (8 * i);
  if (length > max_bytes)
    throw_error(Code::ProtocolError, "a control message of {} bytes where {} are the most", length, max_bytes);
  std::string body(length, '\0');
  recv_all(fd, body.data(), body.size(), limit);
  if (passed != nullptr) *passed = std::move(received);
  return body;
}

}  // namespace tutti::control
