// Connections of people and programs that ask: accepted, read, answered and ended, all within limits. Belongs to the
// control thread.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <string>

#include "base/fd.hpp"
#include "control/event_loop.hpp"

namespace tutti::control {

class Clients {
 public:
  struct Client {
    std::string request;  ///< received, and not taken yet

   private:
    friend class Clients;
    Fd fd_;
    EventLoop::Id watch_ = 0, timer_ = 0;
    bool waits_ = false;  // for its answer
    bool ends_ = false;   // once the reply has been sent
    std::string reply_;
    size_t sent_ = 0;
  };
  using Id = std::list<Client>::iterator;

  struct Service {
    double time_limit = 5;             ///< seconds that a connection may last
    std::function<bool(int)> admits;   ///< may this connection ask? Empty: all may
    std::function<void(Id)> received;  ///< the client's request has grown
    std::function<void(Id)> dropped;   ///< its connection ends. Empty: nobody has to know
  };

  Clients(EventLoop& loop, Service service) : loop_(loop), service_(std::move(service)) {}

  /// Accepts connections from now on.
  void listen(Fd listener);

  /// Sends it. After answer() the connection ends, after say() it goes on.
  void answer(Id client, const std::string& reply);
  void say(Id client, const std::string& reply);
  /// The answer comes later: what else the client sends is not read.
  void hold(Id client);
  void drop(Id client);

  /// visit(client) for each that waits; it may be answered or dropped.
  template <class Visit>
  void each_waiting(Visit&& visit) {
    for (auto client = all_.begin(); client != all_.end();) {
      const auto next = std::next(client);
      if (client->waits_) visit(client);
      client = next;
    }
  }

 private:
  void watch_listener();
  void accept_some();
  void on_ready(Id client, uint32_t events);
  void read(Id client);
  void write(Id client);

  EventLoop& loop_;
  const Service service_;
  Fd listener_;
  EventLoop::Id watch_ = 0;
  std::list<Client> all_;
};

}  // namespace tutti::control
