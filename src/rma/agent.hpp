// The thread of a process that carries out what ranks of other hosts ask of its windows.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/fd.hpp"
#include "base/rank.hpp"
#include "rma/target.hpp"

namespace tutti::rma {

class Agent {
 public:
  /// That of this process, started at the first stream; a forked child has its own.
  static Agent& of_this_process();

  /// Calls tell(thread) with the number of its thread, once it is started.
  void when_started(std::function<void(pid_t thread)> tell);
  /// Carries out the requests of rank `from` until the stream ends. Any thread.
  void serve(Fd stream, Rank from, std::shared_ptr<Target> target);

  Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

 private:
  class Client;
  void work();
  void take_new();

  std::mutex mutex_;  // guards new_, tell_
  std::function<void(pid_t thread)> tell_;
  std::vector<std::unique_ptr<Client>> new_;    // that the thread has not seen yet
  std::vector<std::unique_ptr<Client>> known_;  // the thread's
  Fd wake_;
};

}  // namespace tutti::rma
