#include "comm/stream.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>

#include "base/format.hpp"
#include "base/limits.hpp"
#include "control/host.hpp"

namespace tutti::comm {
namespace {

/// Only host functions throw: calls return a status.
Status run(const std::function<Status()>& task) {
  try {
    return task();
  } catch (const Error& error) {
    return Status::from(error);
  } catch (const std::exception& error) {
    return {Code::InvalidUsage, fmt::format("a host function on the stream threw an exception: {}", error.what())};
  } catch (...) {
    return {Code::InvalidUsage, "a host function on the stream threw an object that is not a std::exception"};
  }
}

}  // namespace

struct Stream::Queue {
  std::mutex mutex;
  std::condition_variable changed;
  struct Task {
    std::function<Status()> run;
    IsNext is_next;
  };
  std::deque<Task> tasks;
  uint64_t enqueued = 0, finished = 0;
  bool ending = false;
  Status first;
};

thread_local Stream::Queue* Stream::t_queue = nullptr;

Stream::Stream()
    : queue_(std::make_shared<Queue>()),
      worker_(control::on_this_host([&] { return start_thread([queue = queue_] { work(*queue); }); })) {}

Stream::~Stream() {
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->ending = true;
  }
  queue_->changed.notify_all();
  is_this_thread() ? worker_.detach() : worker_.join();
}

void Stream::enqueue(std::function<Status()> task, IsNext is_next) {
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->tasks.push_back({std::move(task), std::move(is_next)});
    ++queue_->enqueued;
  }
  queue_->changed.notify_all();
}

Status Stream::synchronize() {
  std::unique_lock lock(queue_->mutex);
  queue_->changed.wait(lock, [this, mark = queue_->enqueued] { return queue_->finished >= mark; });
  return std::exchange(queue_->first, {});
}

std::optional<Status> Stream::poll() const {
  const std::lock_guard lock(queue_->mutex);
  if (queue_->finished < queue_->enqueued) return std::nullopt;
  return queue_->first;
}

std::shared_ptr<Outcome> Stream::record() {
  auto outcome = std::make_shared<Outcome>();
  enqueue([outcome, queue = std::weak_ptr(queue_)] {  // weak: the queue owns the task
    const auto alive = queue.lock();
    std::unique_lock lock(alive->mutex);
    Status first = alive->first;
    lock.unlock();
    outcome->settle(std::move(first));
    return Status{};
  });
  return outcome;
}

bool Stream::holds_back(const std::string& communicator, Rank rank) {
  if (t_queue == nullptr) return false;
  const std::lock_guard lock(t_queue->mutex);
  return std::any_of(t_queue->tasks.begin(), t_queue->tasks.end(),
                     [&](const Queue::Task& task) { return task.is_next && task.is_next(communicator, rank); });
}

void Stream::work(Queue& queue) {
  t_queue = &queue;
  std::unique_lock lock(queue.mutex);
  for (;;) {
    queue.changed.wait(lock, [&] { return !queue.tasks.empty() || queue.ending; });
    if (queue.tasks.empty()) return;
    auto task = std::move(queue.tasks.front());
    queue.tasks.pop_front();
    lock.unlock();
    Status status = run(task.run);
    task = {};  // its objects are destroyed before the task counts as done
    lock.lock();
    ++queue.finished;
    if (queue.first.ok()) queue.first = std::move(status);
    queue.changed.notify_all();
  }
}

}  // namespace tutti::comm
