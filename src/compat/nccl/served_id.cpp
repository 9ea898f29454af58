// NCCL_COMM_ID: rank 0 serves the unique id at an address that all ranks know.
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "compat/nccl/environment.hpp"
#include "compat/nccl/handles.hpp"

namespace tutti::nccl {
namespace {

constexpr char kMark[] = "tutti: ask rank 0 at NCCL_COMM_ID";

std::string address() {
  const char* value = nullptr;
  return tuttiGetVariable("NCCL_COMM_ID", &value) == tuttiSuccess && value != nullptr ? value : "";
}

/// Seconds.
double join_timeout() {
  const char* value = nullptr;
  return tuttiGetVariable("TUTTI_INIT_TIMEOUT", &value) == tuttiSuccess && value != nullptr ? std::stod(value) : 60;
}

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

struct Resolved {
  addrinfo* list = nullptr;
  explicit Resolved(const std::string& text) {
    const size_t colon = text.rfind(':');
    if (colon == std::string::npos) refuse_argument("NCCL_COMM_ID=" + text + " is not address:port");
    std::string host = text.substr(0, colon);
    if (host.size() > 1 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    const int error = getaddrinfo(host.c_str(), text.c_str() + colon + 1, &hints, &list);
    if (error != 0) refuse_argument("NCCL_COMM_ID=" + text + ": " + gai_strerror(error));
  }
  Resolved(const Resolved&) = delete;
  Resolved& operator=(const Resolved&) = delete;
  ~Resolved() {
    if (list != nullptr) freeaddrinfo(list);
  }
};

using Clock = std::chrono::steady_clock;

/// Waits for `events`; false when the time is up.
bool await(int fd, short events, Clock::time_point until) {
  const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
  pollfd one{fd, events, 0};
  return rest > 0 && poll(&one, 1, static_cast<int>(std::min<long>(rest, 1 << 30))) > 0;
}

/// Rank 0: answers each of `others` connections with the id.
void serve(const ncclUniqueId& id, int others, Clock::time_point until) {
  const std::string text = address();
  const Resolved where(text);
  const Socket listener(socket(where.list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(listener.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (listener.fd() < 0 || bind(listener.fd(), where.list->ai_addr, where.list->ai_addrlen) != 0 ||
      listen(listener.fd(), 4096) != 0) {
    refuse(ncclSystemError, "rank 0 cannot listen at NCCL_COMM_ID=" + text + ": " + strerror(errno));
  }
  for (int served = 0; served < others; ++served) {
    if (!await(listener.fd(), POLLIN, until)) {
      refuse(ncclTimeout, "rank 0: " + std::to_string(others - served) +
                              " ranks did not ask for the id at NCCL_COMM_ID=" + text + " within TUTTI_INIT_TIMEOUT");
    }
    const Socket peer(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (peer.fd() < 0 || send(peer.fd(), &id, sizeof id, MSG_NOSIGNAL) != ssize_t{sizeof id}) --served;
  }
}

/// One attempt of another rank.
bool ask(const Resolved& where, ncclUniqueId& id, Clock::time_point until) {
  const Socket peer(socket(where.list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (peer.fd() < 0 || connect(peer.fd(), where.list->ai_addr, where.list->ai_addrlen) != 0) return false;
  size_t got = 0;
  while (got < sizeof id && await(peer.fd(), POLLIN, until)) {
    const ssize_t bytes = recv(peer.fd(), id.internal + got, sizeof id - got, 0);
    if (bytes <= 0) return false;
    got += static_cast<size_t>(bytes);
  }
  return got == sizeof id;
}

}  // namespace

bool serves_id() { return !address().empty(); }

ncclUniqueId served_id() {
  ncclUniqueId id = {};
  std::memcpy(id.internal, kMark, sizeof kMark);
  return id;
}

bool is_served_id(const ncclUniqueId& id) {
  const ncclUniqueId mark = served_id();
  return std::memcmp(&id, &mark, sizeof id) == 0;
}

ncclUniqueId exchange_served_id(int ranks, int rank) {
  const auto until =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(join_timeout()));
  ncclUniqueId id = {};
  if (rank == 0) {
    tuttiUniqueId made;
    if (tuttiGetUniqueId(&made) != tuttiSuccess) refuse(ncclSystemError, tuttiGetLastError());
    std::memcpy(id.internal, made.bytes, sizeof id.internal);
    if (ranks > 1) serve(id, ranks - 1, until);
    return id;
  }
  const std::string text = address();
  const Resolved where(text);
  while (!ask(where, id, until)) {
    if (Clock::now() >= until) {
      refuse(ncclTimeout, "rank " + std::to_string(rank) + ": rank 0 did not answer at NCCL_COMM_ID=" + text +
                              " within TUTTI_INIT_TIMEOUT");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return id;
}

}  // namespace tutti::nccl
