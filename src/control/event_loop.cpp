#include "control/event_loop.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>

#include "base/format.hpp"
#include "base/limits.hpp"
#include "base/log.hpp"

namespace tutti::control {
namespace {

void guarded(const EventLoop::Task& task) {
  try {
    task();
  } catch (const std::exception& error) {
    log_error("control thread: {}", error.what());
  }
}

}  // namespace

EventLoop::EventLoop() : epoll_(epoll_create1(EPOLL_CLOEXEC)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!epoll_ || !wake_) throw_system("open epoll or an eventfd", errno);
  watch(wake_.get(), EPOLLIN, [this](uint32_t) {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got =
        read(wake_.get(), &count, sizeof count);  // posted tasks run at the end of every iteration
  });
}

void EventLoop::run() {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (stopped_) return;
    }
    run_events();
    run_timers();
    run_posted();
  }
}

void EventLoop::post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(task));
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t put = write(wake_.get(), &one, sizeof one);  // fails only if the loop is awake anyway
}

void EventLoop::stop() {
  post([this] {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  });
}

EventLoop::Id EventLoop::watch(int fd, uint32_t events, Handler handler) {
  const Id id = next_++;
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;  // not the fd: an event of a closed descriptor must not reach a new one with the same number
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    throw_error(Code::SystemError, "cannot watch a file descriptor: {}", std::strerror(errno));
  }
  watches_.emplace(id, Watch{fd, std::make_shared<Handler>(std::move(handler))});
  return id;
}

void EventLoop::change(Id watch, uint32_t events) {
  const auto found = watches_.find(watch);
  if (found == watches_.end()) return;
  epoll_event event{};
  event.events = events;
  event.data.u64 = watch;
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, found->second.fd, &event);
}

void EventLoop::unwatch(Id& watch) {
  if (const auto found = watches_.find(watch); found != watches_.end()) {
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second.fd, nullptr);
    watches_.erase(found);
  }
  watch = 0;
}

EventLoop::Id EventLoop::at(Deadline deadline, Task task) {
  const Id id = next_++;
  timers_.emplace(std::pair(deadline.at(), id), std::move(task));
  timer_times_.emplace(id, deadline.at());
  return id;
}

void EventLoop::cancel(Id& timer) {
  if (const auto found = timer_times_.find(timer); found != timer_times_.end()) {
    timers_.erase({found->second, timer});
    timer_times_.erase(found);
  }
  timer = 0;
}

int EventLoop::wait_ms() {
  {
    const std::lock_guard lock(mutex_);
    if (!posted_.empty()) return 0;
  }
  if (timers_.empty()) return -1;
  const auto left = timers_.begin()->first.first - Deadline::Clock::now();
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::clamp<int64_t>(ms, 0, 3'600'000));
}

void EventLoop::run_events() {
  std::array<epoll_event, 64> events;
  const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), wait_ms());
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<size_t>(i)];
    const Id watch = event.data.u64;  // a copy: the kernel packs these, and a reference would be misaligned
    const auto found = watches_.find(watch);
    if (found == watches_.end()) continue;                           // an earlier event of this iteration removed it
    const std::shared_ptr<Handler> handler = found->second.handler;  // the handler may unwatch itself
    guarded([&] { (*handler)(event.events); });
  }
}

void EventLoop::run_timers() {
  const TimePoint now = Deadline::Clock::now();
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    auto node = timers_.extract(timers_.begin());
    timer_times_.erase(node.key().second);
    guarded(node.mapped());
  }
}

void EventLoop::run_posted() {
  std::vector<Task> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(posted_);
  }
  for (const Task& task : tasks) guarded(task);
}

}  // namespace tutti::control
