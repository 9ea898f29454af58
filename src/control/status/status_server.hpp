// Answers people who ask a process how its job does: `tutti status` and others, on a UNIX socket.
//
// The socket has the abstract name "tutti-status-PROCESS-START", where START is the process's start in the kernel's
// ticks since boot. Only processes of the same user, and root's, are answered. A client sends the line "job", and
// gets one line of JSON about this process and all with which it shares a communicator (control/status/job_status.hpp);
// then the connection ends. Processes among themselves send "fields", for a ProcessStatus as bytes.
//
// Other processes of this host are asked at their sockets, those of other hosts over the communicators' rendezvous
// servers. One that does not answer within a moment is silent. Answers are gathered once for all who ask at the same
// time, and kept for a moment.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "control/event_loop.hpp"
#include "control/status/job_status.hpp"

namespace tutti::control {

class ControlClient;
class ControlThread;

/// The name of a process's socket.
std::string status_socket(uint32_t process, uint64_t started);

/// Belongs to the control thread.
class StatusServer {
 public:
  explicit StatusServer(ControlThread& control) : control_(control) {}

  /// Listens from now on. Without the socket (its name is taken) there is no service, of which the log warns.
  void open();

 private:
  struct Client {
    Fd fd;
    EventLoop::Id watch = 0, timer = 0;
    std::string request, reply;
    size_t sent = 0;
    bool asked = false;
  };
  using Clients = std::list<Client>;
  using Then = std::function<void(const std::optional<std::string>& answer)>;
  /// To another process of this host.
  struct Question {
    Fd fd;
    EventLoop::Id watch = 0, timer = 0;
    std::string answer;
    Then then;
  };
  using Questions = std::list<Question>;
  /// A question to come.
  struct ToAsk {
    std::shared_ptr<ControlClient> client;
    Rank rank = 0;
    Then then;
  };

  void look();
  void accept_some();
  void listen();
  void pause();
  void on_ready(Clients::iterator client, uint32_t events);
  void read_request(Clients::iterator client);
  void write_reply(Clients::iterator client);
  void drop(Clients::iterator client);
  struct Gathering;
  void gather();
  void ask_all(const std::shared_ptr<Gathering>& now);
  void ask_next();
  bool ask_here(const Member& member, const Then& then);
  void read_answer(Questions::iterator question);
  void resolve(Questions::iterator question, bool answered);
  static void take(JobProcess& process, const std::string& answer);
  void gathered();

  ControlThread& control_;
  Fd listener_;
  EventLoop::Id watch_ = 0;
  Clients clients_;
  Questions questions_;
  std::deque<ToAsk> to_ask_;
  std::shared_ptr<Gathering> gathering_;  // null: none runs
  std::string kept_;                      // the last answer, until kept_until_
  Deadline::Clock::time_point kept_until_{};
};

}  // namespace tutti::control
