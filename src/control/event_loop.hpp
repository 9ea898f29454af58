// The event loop of the control thread: file descriptors, timers, and tasks posted by other threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/deadline.hpp"
#include "base/fd.hpp"

namespace tutti::control {

class EventLoop {
 public:
  using Task = std::function<void()>;
  using Handler = std::function<void(uint32_t events)>;
  using Id = uint64_t;  ///< of a watch or a timer; 0 is none

  EventLoop();

  /// Runs until stop(). An exception of a task or handler is logged.
  void run();

  // ---- any thread
  /// Runs `task` on the loop's thread after the events of this iteration; posts run in order.
  void post(Task task);
  void stop();

  // ---- the loop's thread only
  /// Calls `handler` whenever `fd` has `events` (EPOLLIN …), until unwatch(). Call unwatch() before closing `fd`.
  Id watch(int fd, uint32_t events, Handler handler);
  void change(Id watch, uint32_t events);
  void unwatch(Id& watch);  ///< sets it to 0; 0 is ignored
  Id at(Deadline deadline, Task task);
  void cancel(Id& timer);  ///< sets it to 0; 0 is ignored, and so is one that has run

 private:
  using TimePoint = Deadline::Clock::time_point;
  struct Watch {
    int fd;
    std::shared_ptr<Handler> handler;
  };

  int wait_ms();
  void run_events();
  void run_timers();
  void run_posted();

  Fd epoll_, wake_;
  Id next_ = 1;
  std::unordered_map<Id, Watch> watches_;
  std::map<std::pair<TimePoint, Id>, Task> timers_;
  std::unordered_map<Id, TimePoint> timer_times_;
  std::mutex mutex_;  // guards the members below
  std::vector<Task> posted_;
  bool stopped_ = false;
};

}  // namespace tutti::control
