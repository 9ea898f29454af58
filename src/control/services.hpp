// What a rank offers its peers on the control thread: named services, and streams that peers have opened.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.hpp"
#include "base/guarded.hpp"
#include "base/rank.hpp"
#include "base/socket.hpp"
#include "control/messages.hpp"
#include "transports/wireup.hpp"

namespace tutti::control {

/// A connection that waits for a service or a transport of this process. All of them, of all communicators, take at
/// most half of the descriptors that the process may have: a peer decides how many come.
class ParkedFd {
 public:
  /// Takes `fd`. Throws Error(SystemError), and leaves it, if there are too many.
  explicit ParkedFd(Fd& fd);
  ParkedFd(ParkedFd&&) = default;
  ParkedFd& operator=(ParkedFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~ParkedFd() { take(); }
  int get() const { return fd_.get(); }
  Fd take();

 private:
  Fd fd_;
};

class Services {
 public:
  using Wireup = transports::Wireup;
  /// Throws unless the connection comes from the process of rank `from`.
  using Check = std::function<void(Rank from, int fd)>;

  explicit Services(Check check) : check_(std::move(check)) {}

  /// See Wireup::serve. Requests that arrived earlier are answered by retry().
  void serve(const std::string& name, Wireup::Service service);
  /// Removes all services, and waits for those that run. Requests of peers wait for new ones.
  void remove_all();
  /// A request of a rank in this process: waits until the service is registered. Throws Error(Timeout | Aborted).
  Wireup::Reply ask(Rank from, const std::string& name, const std::string& request, WaitLimit limit);

  // ---- control thread
  /// Answers on `fd` and closes it, or keeps both until the service is registered.
  void answer(Ask ask, Fd& fd);
  /// Answers waiting requests whose service has been registered.
  void retry();
  /// Removes all services and refuses all waiting requests.
  void close();

 private:
  using Slot = Guarded<Wireup::Reply(Rank, const std::string&)>;
  struct Waiting {
    Ask ask;
    ParkedFd fd;
  };

  std::shared_ptr<Slot> find(const std::string& name);
  bool try_reply(const Ask& ask, int fd);
  std::optional<Wireup::Reply> try_answer(Rank from, const std::string& name, const std::string& request);

  const Check check_;
  std::mutex mutex_;  // guards slots_
  std::condition_variable service_added_;
  std::map<std::string, std::shared_ptr<Slot>> slots_;
  std::vector<Waiting> waiting_;  // control thread only
};

class Streams {
 public:
  /// Keeps a stream until take(), and sends Accepted. Control thread.
  void park(Rank from, const std::string& label, Fd& fd);
  std::optional<Fd> take(Rank from, const std::string& label);
  /// Closes what nobody has taken; nobody takes what comes, until receive() or take().
  void remove_all();
  /// See Wireup::receive_streams.
  void receive(const std::string& label, std::function<void(Rank from, Fd stream)> take);

 private:
  std::mutex mutex_;
  std::map<std::string, std::function<void(Rank from, Fd stream)>> takers_;  // by label
  std::map<std::pair<Rank, std::string>, std::deque<ParkedFd>> parked_;
};

}  // namespace tutti::control
