// NCCL_COMM_ID: rank 0 serves the unique id at an address that all ranks know.
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

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
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

/// The number of a port, 1 to 65535.
bool is_port(const std::string& text) {
  constexpr long kMax = 65535;
  const bool digits = !text.empty() && text.size() <= 5 && text.find_first_not_of("0123456789") == std::string::npos;
  return digits && std::stol(text) > 0 && std::stol(text) <= kMax;
}

struct Resolved {
  addrinfo* list = nullptr;
  explicit Resolved(const std::string& text) {
    const size_t colon = text.rfind(':');
    if (colon == std::string::npos || !is_port(text.substr(colon + 1))) {
      refuse_argument("NCCL_COMM_ID=", text, " is not address:port, with a port from 1 to 65535");
    }
    std::string host = text.substr(0, colon);
    if (host.size() > 1 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    const int error = getaddrinfo(host.c_str(), text.c_str() + colon + 1, &hints, &list);
    if (error != 0) refuse_argument("NCCL_COMM_ID=", text, ": ", gai_strerror(error));
  }
  Resolved(const Resolved&) = delete;
  Resolved& operator=(const Resolved&) = delete;
  ~Resolved() {
    if (list != nullptr) freeaddrinfo(list);
  }
};

using Clock = std::chrono::steady_clock;

/// Waits for one of `events`, or a signal; false when the time is up.
bool await(std::vector<pollfd>& events, Clock::time_point until) {
  const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
  if (rest <= 0) return false;
  const int ready = poll(events.data(), events.size(), static_cast<int>(std::min<long>(rest, 1 << 30)));
  return ready > 0 || (ready < 0 && errno == EINTR);
}

/// What a rank sends when it has connected. A connection that does not begin so is no rank's: a health check, a scan.
struct Question {
  char mark[24] = "tutti: NCCL_COMM_ID, 1.";
  int32_t ranks = 0, rank = 0;
};
struct Answer {
  int32_t ranks = 0;  ///< that rank 0 knows
  ncclUniqueId id = {};
};

/// Rank 0's side: answers each rank with the id.
class Server {
 public:
  Server(const ncclUniqueId& id, int ranks) : answer_{ranks, id}, served_(static_cast<size_t>(ranks), false) {
    const std::string text = address();
    const Resolved where(text);
    listener_ = Socket(socket(where.list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    setsockopt(listener_.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (listener_.fd() < 0 || bind(listener_.fd(), where.list->ai_addr, where.list->ai_addrlen) != 0 ||
        listen(listener_.fd(), 4096) != 0) {
      refuse(ncclSystemError, "rank 0 cannot listen at NCCL_COMM_ID=", text, ": ", strerror(errno));
    }
    served_[0] = true;
  }

  void run(Clock::time_point until) {
    while (std::find(served_.begin(), served_.end(), false) != served_.end()) {
      std::vector<pollfd> events{{listener_.fd(), POLLIN, 0}};
      for (const Caller& caller : callers_) events.push_back({caller.socket.fd(), POLLIN, 0});
      if (!await(events, until)) refuse(ncclTimeout, missing());
      for (size_t i = callers_.size(); i-- > 0;) {
        if (events[i + 1].revents != 0 && !hear(callers_[i])) callers_.erase(callers_.begin() + static_cast<long>(i));
      }
      if (events[0].revents != 0) accept_one();
    }
  }

 private:
  struct Caller {
    Socket socket;
    Question question;
    size_t got = 0;
  };

  void accept_one() {
    constexpr int kRetryMs = 50;
    constexpr size_t kMax = 256;  // that have not asked yet: the oldest has had its time
    Socket peer(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (peer.fd() < 0) {  // no descriptor is left: the connection waits, and so does this
      if (errno == EMFILE || errno == ENFILE) poll(nullptr, 0, kRetryMs);
      return;
    }
    if (callers_.size() == kMax) callers_.erase(callers_.begin());
    callers_.push_back({std::move(peer), {}, 0});
  }

  /// Reads what has come; false if the connection is done with.
  bool hear(Caller& caller) {
    auto* const bytes = reinterpret_cast<char*>(&caller.question);
    const ssize_t got = recv(caller.socket.fd(), bytes + caller.got, sizeof(Question) - caller.got, 0);
    if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
    caller.got += static_cast<size_t>(got);
    if (caller.got < sizeof(Question)) return true;
    const Question& asked = caller.question;
    if (std::memcmp(asked.mark, Question().mark, sizeof asked.mark) != 0) return false;
    const bool told = send(caller.socket.fd(), &answer_, sizeof answer_, MSG_NOSIGNAL) == ssize_t{sizeof answer_};
    if (told && asked.ranks != answer_.ranks) {
      other_size_ = "; rank " + std::to_string(asked.rank) + " asked as one of " + std::to_string(asked.ranks) +
                    " ranks, which rank 0 is not";
    } else if (told && asked.rank > 0 && asked.rank < asked.ranks) {
      served_[static_cast<size_t>(asked.rank)] = true;
    }
    return false;
  }

  std::string missing() const {
    std::string ranks;
    for (size_t i = 0; i < served_.size(); ++i) {
      if (!served_[i]) ranks += (ranks.empty() ? "rank " : ", ") + std::to_string(i);
    }
    return "rank 0: the id at NCCL_COMM_ID=" + address() + " was not asked for within TUTTI_INIT_TIMEOUT by " + ranks +
           other_size_;
  }

  const Answer answer_;
  Socket listener_{-1};
  std::vector<Caller> callers_;
  std::vector<bool> served_;  // by rank
  std::string other_size_;    // who asked with another number of ranks; "": nobody
};

/// One attempt of another rank; false: again. Throws Refusal if rank 0 knows another number of ranks.
bool ask(const Resolved& where, const Question& question, ncclUniqueId& id, Clock::time_point until) {
  const Socket peer(socket(where.list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (peer.fd() < 0 || connect(peer.fd(), where.list->ai_addr, where.list->ai_addrlen) != 0) return false;
  if (send(peer.fd(), &question, sizeof question, MSG_NOSIGNAL) != ssize_t{sizeof question}) return false;
  Answer answer;
  size_t got = 0;
  std::vector<pollfd> event{{peer.fd(), POLLIN, 0}};
  while (got < sizeof answer && await(event, until)) {
    const ssize_t bytes = recv(peer.fd(), reinterpret_cast<char*>(&answer) + got, sizeof answer - got, 0);
    if (bytes <= 0) return false;
    got += static_cast<size_t>(bytes);
  }
  if (got < sizeof answer) return false;
  if (answer.ranks != question.ranks) {
    refuse_argument("rank ", question.rank, " of ", question.ranks, " asked at NCCL_COMM_ID=", address(),
                    ", where rank 0 is one of ", answer.ranks);
  }
  id = answer.id;
  return true;
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
    if (ranks > 1) Server(id, ranks).run(until);
    return id;
  }
  const std::string text = address();
  const Resolved where(text);
  Question question;
  question.ranks = ranks;
  question.rank = rank;
  while (!ask(where, question, id, until)) {
    if (Clock::now() >= until) {
      refuse(ncclTimeout, "rank ", rank, ": rank 0 did not answer at NCCL_COMM_ID=", text,
             " within TUTTI_INIT_TIMEOUT");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return id;
}

}  // namespace tutti::nccl
