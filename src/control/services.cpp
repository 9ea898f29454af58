#include "control/services.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>

#include "base/format.hpp"
#include "base/limits.hpp"
#include "base/log.hpp"

namespace tutti::control {
namespace {

constexpr size_t kMaxParked = 4096;
std::atomic<size_t> parked_streams{0};  // in this process

void send_reply(int fd, const transports::Wireup::Reply& reply) {
  // A fresh socket takes the bytes at once, and the control thread must not wait.
  send_with_fd(fd, pack(Reply{reply.bytes}), reply.fd.get(), {Deadline::in(0), nullptr});
}

}  // namespace

ParkedFd::ParkedFd(Fd& fd) {
  const size_t most = std::min(kMaxParked, max_descriptors() / 2);
  if (parked_streams.fetch_add(1, std::memory_order_relaxed) >= most) {
    parked_streams.fetch_sub(1, std::memory_order_relaxed);
    throw_error(Code::SystemError,
                "{} connections of peers wait already in process {} for a service or a transport, as many as may (half "
                "of ulimit -n, and at most {})",
                most, getpid(), kMaxParked);
  }
  fd_ = std::move(fd);
}

Fd ParkedFd::take() {
  if (fd_) parked_streams.fetch_sub(1, std::memory_order_relaxed);
  return std::move(fd_);
}

void Services::serve(const std::string& name, Wireup::Service service) {
  std::shared_ptr<Slot> slot;
  {
    const std::lock_guard lock(mutex_);
    auto& entry = slots_[name];
    if (!entry) entry = std::make_shared<Slot>();
    slot = entry;
    if (!service) slots_.erase(name);
  }
  slot->set(std::move(service));  // outside the lock: it waits for a running call
  service_added_.notify_all();
}

std::shared_ptr<Services::Slot> Services::find(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = slots_.find(name);
  return found == slots_.end() ? nullptr : found->second;
}

std::optional<Services::Wireup::Reply> Services::try_answer(Rank from, const std::string& name,
                                                            const std::string& request) {
  const auto slot = find(name);
  return slot ? (*slot)(from, request) : std::nullopt;
}

Services::Wireup::Reply Services::ask(Rank from, const std::string& name, const std::string& request, WaitLimit limit) {
  constexpr auto kSlice = std::chrono::milliseconds(20);  // between checks of the stop flag
  for (;;) {
    if (auto reply = try_answer(from, name, request)) return std::move(*reply);
    if (limit.stop && limit.stop->load(std::memory_order_relaxed) != 0) throw_error(Code::Aborted, "stopped");
    if (limit.deadline.passed()) throw_error(Code::Timeout, "it offers no service '{}'", name);
    std::unique_lock lock(mutex_);
    service_added_.wait_until(lock, std::min(limit.deadline.at(), Deadline::Clock::now() + kSlice),
                              [&] { return slots_.count(name) != 0; });
  }
}

/// False if the service is not registered (yet). Errors are sent to the asker.
bool Services::try_reply(const Ask& ask, int fd) {
  try {
    if (find(ask.service) == nullptr) return false;
    check_(ask.from, fd);  // only now: once there are services, the members are known
    const auto reply = try_answer(ask.from, ask.service, ask.request);
    if (reply) send_reply(fd, *reply);
    return reply.has_value();
  } catch (const std::exception& error) {
    log_debug("control thread: service '{}' failed: {}", ask.service, error.what());
    send_now(fd, pack(Refused{Code::InternalError, std::string(error.what()).substr(0, kMaxSmall)}));
    return true;
  }
}

void Services::answer(Ask ask, Fd& fd) {
  if (try_reply(ask, fd.get())) return;
  waiting_.push_back({std::move(ask), ParkedFd(fd)});
}

void Services::retry() {
  for (size_t i = waiting_.size(); i-- > 0;) {
    char byte = 0;
    const bool disconnected = recv_now(waiting_[i].fd.get(), &byte, 1) < 0;  // the asker has disconnected
    if (disconnected || try_reply(waiting_[i].ask, waiting_[i].fd.get()))
      waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(i));
  }
}

void Services::close() {
  const std::string refusal = pack(Refused{Code::PeerFailed, "the rank has left"});
  for (const Waiting& w : waiting_) send_now(w.fd.get(), refusal);
  waiting_.clear();
  remove_all();
}

void Services::remove_all() {
  std::map<std::string, std::shared_ptr<Slot>> slots;
  {
    const std::lock_guard lock(mutex_);
    slots.swap(slots_);
  }
  for (const auto& [name, slot] : slots) slot->set(nullptr);
}

void Streams::park(Rank from, const std::string& label, Fd& fd) {
  const std::string accepted = pack(Accepted{});
  const std::lock_guard lock(mutex_);
  ParkedFd stream(fd);
  if (send_now(stream.get(), accepted) != static_cast<ptrdiff_t>(accepted.size())) return;
  if (const auto taker = takers_.find(label); taker != takers_.end()) return taker->second(from, stream.take());
  parked_[{from, label}].push_back(std::move(stream));
}

void Streams::receive(const std::string& label, std::function<void(Rank from, Fd stream)> take) {
  const std::lock_guard lock(mutex_);
  takers_.erase(label);
  if (!take) return;
  for (auto& [key, streams] : parked_) {
    if (key.second != label) continue;
    for (ParkedFd& stream : streams) take(key.first, stream.take());
  }
  std::erase_if(parked_, [&](const auto& parked) { return parked.first.second == label; });
  takers_.emplace(label, std::move(take));
}

void Streams::remove_all() {
  decltype(takers_) takers;  // these end after the lock is released
  decltype(parked_) parked;
  const std::lock_guard lock(mutex_);
  takers.swap(takers_);
  parked.swap(parked_);
}

std::optional<Fd> Streams::take(Rank from, const std::string& label) {
  const std::lock_guard lock(mutex_);
  const auto found = parked_.find({from, label});
  if (found == parked_.end()) return std::nullopt;
  Fd fd = found->second.front().take();
  found->second.pop_front();
  if (found->second.empty()) parked_.erase(found);
  return fd;
}

}  // namespace tutti::control
