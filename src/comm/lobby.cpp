#include "comm/lobby.hpp"

#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/format.hpp"
#include "base/limits.hpp"
#include "base/log.hpp"
#include "base/socket.hpp"
#include "comm/messages.hpp"

namespace tutti::comm {
namespace {

constexpr size_t kMaxVisitors = 256;
constexpr double kPatienceSeconds = 5;  // for the whole way through the lobby
constexpr double kSureSeconds = 1;      // when all places are taken, visitors slower than this make room
constexpr double kPauseSeconds = 0.1;

Fd open_spare() { return Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

std::string_view bytes_of(const auto& plain) { return {reinterpret_cast<const char*>(&plain), sizeof plain}; }

}  // namespace

struct Lobby::Visitor {
  enum class Stage { Claim, Length, Frame };
  Fd fd;
  Stage stage = Stage::Claim;
  challenge::Hello hello = challenge::make_hello();
  challenge::Claim claim{};
  std::array<uint8_t, 4> length{};
  std::string frame;
  size_t filled = 0;  // bytes of this stage that have arrived
  std::shared_ptr<Party> party;
  Deadline::Clock::time_point came = Deadline::Clock::now();
  Loop::Id watch = 0, timer = 0;
};

Lobby::Lobby(Loop& loop, Find find) : loop_(loop), find_(std::move(find)), spare_(open_spare()) {}
Lobby::~Lobby() = default;

void Lobby::open(int listener) {
  doors_.push_back({listener, loop_.watch(listener, paused_ ? 0u : static_cast<uint32_t>(EPOLLIN),
                                          [this, listener](uint32_t) { accept_some(listener); })});
}

void Lobby::close(int listener) {
  const auto door = std::find_if(doors_.begin(), doors_.end(), [&](const Door& d) { return d.fd == listener; });
  if (door == doors_.end()) return;
  loop_.unwatch(door->watch);
  doors_.erase(door);
}

void Lobby::accept_some(int listener) {
  for (int i = 0; i < 64; ++i) {  // then others have their turn
    if (!make_room()) return pause(true);
    Fd fd = accept_now(listener);
    const int error = fd ? 0 : errno;
    if (out_of_descriptors(error)) turn_away(listener, error);
    if (out_of_descriptors(error) || error == ENOBUFS || error == ENOMEM) return pause(true);  // do not spin on it
    if (!fd) return;
    accept_error_ = 0;
    greet(std::move(fd));
  }
}

/// Who comes while there is no descriptor left hears so, instead of waiting in vain.
void Lobby::turn_away(int listener, int error) {
  accept_error_ = error;
  if (!warned_) log_warn("connections of other ranks cannot be accepted: {}", system_words(error));
  warned_ = true;
  for (int i = 0; i < 64; ++i) {
    spare_.reset();
    const Fd fd = accept_now(listener);
    if (!fd) break;
    const challenge::Hello hello{challenge::kNoDescriptor, {}};
    send_now(fd.get(), bytes_of(hello));
  }
  spare_ = open_spare();
}

std::string Lobby::trouble() const {
  const int error = accept_error_;
  return error == 0 ? "" : fmt::format("; this process could not accept connections: {}", system_words(error));
}

bool Lobby::make_room() {
  if (visitors_.size() < kMaxVisitors) return true;
  const auto& oldest = *visitors_.begin();
  if (Deadline::Clock::now() - oldest.second->came < std::chrono::duration<double>(kSureSeconds)) return false;
  dismiss(oldest.first);
  return true;
}

/// While paused, connections wait in the kernel's queue.
void Lobby::pause(bool paused) {
  if (paused_ == paused) return;
  paused_ = paused;
  for (const Door& door : doors_) loop_.change(door.watch, paused ? 0u : static_cast<uint32_t>(EPOLLIN));
  if (paused) loop_.at(Deadline::in(kPauseSeconds), [this] { pause(false); });
}

void Lobby::greet(Fd fd) {
  const uint64_t number = next_++;
  auto visitor = std::make_unique<Visitor>();
  visitor->fd = std::move(fd);
  // A fresh socket takes 40 bytes; one that does not is no loss.
  if (send_now(visitor->fd.get(), bytes_of(visitor->hello)) != sizeof visitor->hello) return;
  visitor->watch = loop_.watch(visitor->fd.get(), EPOLLIN, [this, number](uint32_t) { on_events(number); });
  visitor->timer = loop_.at(Deadline::in(kPatienceSeconds), [this, number] { dismiss(number); });
  visitors_.emplace(number, std::move(visitor));
}

void Lobby::on_events(uint64_t number) {
  const auto found = visitors_.find(number);
  if (found == visitors_.end()) return;
  if (!advance(*found->second)) return;
  const std::unique_ptr<Visitor> visitor = std::move(found->second);  // through, or not welcome: it leaves the lobby
  visitors_.erase(found);
  loop_.unwatch(visitor->watch);
  loop_.cancel(visitor->timer);
  const bool through = visitor->stage == Visitor::Stage::Frame && visitor->filled == visitor->frame.size();
  if (through && visitor->fd) admit(*visitor);
}

/// True when the visitor's time in the lobby is over.
bool Lobby::advance(Visitor& v) {
  if (v.stage == Visitor::Stage::Claim) {
    if (!read_exactly(v, &v.claim, sizeof v.claim)) return !v.fd;
    if (!check_claim(v)) return true;
    v.stage = Visitor::Stage::Length;
    v.filled = 0;
  }
  if (v.stage == Visitor::Stage::Length) {
    if (!read_exactly(v, v.length.data(), v.length.size())) return !v.fd;
    size_t length = 0;
    for (size_t i = 0; i < v.length.size(); ++i) length |= static_cast<size_t>(v.length[i]) << (8 * i);
    if (length > kMaxFirstFrame) return true;
    v.frame.resize(length);
    v.stage = Visitor::Stage::Frame;
    v.filled = 0;
  }
  return read_exactly(v, v.frame.data(), v.frame.size()) || !v.fd;
}

/// Reads no byte beyond the `size` that belong to this stage: what follows belongs to somebody else. True when
/// complete; closes the descriptor when nothing more can come.
bool Lobby::read_exactly(Visitor& v, void* into, size_t size) {
  while (v.filled < size) {
    const ptrdiff_t got = recv_now(v.fd.get(), static_cast<char*>(into) + v.filled, size - v.filled);
    if (got < 0) {
      loop_.unwatch(v.watch);
      v.fd.reset();
    }
    if (got <= 0) return false;
    v.filled += static_cast<size_t>(got);
  }
  return true;
}

bool Lobby::check_claim(Visitor& v) {
  v.party = find_(std::string(v.claim.key_name.data(), v.claim.key_name.size()));
  if (!v.party || !challenge::check_claim(v.party->key(), v.hello, v.claim)) {
    log_debug("control thread: turned away a connection that does not know the key");
    send_now(v.fd.get(), bytes_of(challenge::kUnknownKey));
    return false;
  }
  const auto proof = challenge::make_proof(v.party->key(), v.hello, v.claim);
  return send_now(v.fd.get(), bytes_of(proof)) == sizeof proof;
}

void Lobby::admit(Visitor& v) {
  send_without_delay(v.fd.get());
  try {
    v.party->welcome(v.fd, v.frame);
  } catch (const Error& error) {
    log_debug("control thread: refused a connection: {}", error.what());
    const Refused refused{error.code(), std::string(error.what()).substr(0, kMaxSmall)};
    if (v.fd) send_now(v.fd.get(), pack(refused));
  }
}

void Lobby::dismiss(uint64_t number) {
  const auto found = visitors_.find(number);
  if (found == visitors_.end()) return;
  loop_.unwatch(found->second->watch);
  loop_.cancel(found->second->timer);
  visitors_.erase(found);
}

}  // namespace tutti::comm
