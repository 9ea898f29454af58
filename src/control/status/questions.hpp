// Questions of this process to other processes of its host, at their status sockets. Belongs to the control thread.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <optional>
#include <string>

#include "base/fd.hpp"
#include "control/event_loop.hpp"
#include "control/messages.hpp"

namespace tutti::control {

/// The name of a process's socket.
std::string status_socket(uint32_t process, uint64_t started);

/// Is the process at the other end of this UNIX socket this user's, or root's?
bool may_ask(int fd);

class Questions {
 public:
  static constexpr double kSilent = 0.6;  ///< seconds after which a process that has not answered is silent

  explicit Questions(EventLoop& loop) : loop_(loop) {}

  struct Question {
    Member member;                                                  ///< the process
    std::string request;                                            ///< a word
    size_t most = 0;                                                ///< bytes of an answer
    std::function<void(const std::optional<std::string>&)> answer;  ///< called once; empty: it is silent
    std::function<void()> unreachable;                              ///< called instead if it has no socket here
  };
  /// Some are asked at once, the others later: a host may have more processes than this one may open descriptors.
  void ask(Question question);

 private:
  struct Open {
    Fd fd;
    EventLoop::Id watch = 0, timer = 0;
    std::string answer;
    Question question;
  };
  using All = std::list<Open>;

  void ask_next();
  bool begin(Question& question);
  void read(All::iterator open);
  void resolve(All::iterator open, bool answered);

  EventLoop& loop_;
  All open_;
  std::deque<Question> later_;
};

}  // namespace tutti::control
