#include "compat/torch/gpu_calls.hpp"

#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <utility>

#include "compat/torch/checks.hpp"
#include "compat/torch/convert.hpp"
#include "compat/torch/gpu_streams.hpp"
#include "compat/torch/python.hpp"
#include "compat/torch/rendezvous.hpp"

namespace tutti_torch {
namespace {

/// How often works that run are looked at.
constexpr std::chrono::milliseconds kEvery{10};
/// And when the communicators have been left: then the calls' kernels have run, and copies behind them may not have.
constexpr std::chrono::milliseconds kEveryAtTheEnd{1};
/// For how long at most: what runs even then stands behind something else of the program.
constexpr std::chrono::seconds kEndLimit{5};

}  // namespace

GpuCalls::~GpuCalls() {
  try {
    close();
  } catch (...) {  // nobody is left to be told
  }
}

// ---- communicators

void GpuCalls::check_device(const char* call, c10::Device device) {
  const std::lock_guard lock(mutex_);
  if (!device_) device_ = device;
  if (*device_ == device) return;
  refuse(call, c10::str("a rank has one GPU in a group. Rank ", rank_, " of ", facts_->name, " has ", *device_,
                        " since its first call, and this tensor is on ", device));
}

void GpuCalls::check_open() const {
  if (closed_) throw tutti::Error(tutti::Code::Aborted, c10::str("rank ", rank_, ": the group was shut down"));
}

std::unique_ptr<GpuCalls::Channel> GpuCalls::make(const std::string& key, const std::string& name, int rank,
                                                  int ranks) {
  const c10::Device device = *device_;
  if (is_capturing(current_stream(device))) {
    throw tutti::Error(
        tutti::Code::InvalidUsage,
        c10::str("rank ", rank_, ": ", name, " has no communicator of the GPUs yet, and cannot make one ",
                 "while a graph is captured: make a call of this kind before"));
  }
  const c10::DeviceGuard guard(device);
  use_device(device);
  const tuttiComm_t made = join(
      *store_, {.key = key, .name = name, .rank = rank, .ranks = ranks, .timeout = facts_->timeout(), .check = [this] {
                  check_open();
                }});
  return std::make_unique<Channel>(made, pooled_stream(device));
}

/// abort() and close() set `closed_` and then go through the communicators that are stored. One that was being made may
/// have missed that: it is aborted here.
void GpuCalls::keep(std::unique_ptr<Channel>& slot, std::unique_ptr<Channel> made) {
  {
    const std::lock_guard lock(mutex_);
    if (!closed_) {
      slot = std::move(made);
      return;
    }
  }
  made->comm->abort();
  check_open();
}

void GpuCalls::connect(const char* call, c10::Device device) {
  check_device(call, device);
  const WithoutGil without;
  const std::lock_guard connecting(connecting_);
  if (group_comm() != nullptr) return;
  keep(group_, make("gpu", facts_->name, rank_, ranks_));
}

GpuCalls::Pair& GpuCalls::pair_with(int peer) {
  const std::lock_guard lock(mutex_);
  auto& pair = pairs_[peer];
  if (!pair) pair = std::make_unique<Pair>();
  return *pair;
}

std::unique_ptr<GpuCalls::Channel> GpuCalls::make_pair(const std::string& message, int from, int to) {
  try {
    return make(c10::str("gpu from ", from, " to ", to), c10::str(facts_->name, " ", from, "->", to),
                rank_ == from ? 0 : 1, 2);
  } catch (const tutti::Error& error) {
    throw tutti::Error(error.code(), c10::str("rank ", rank_, ": ", message, " of ", facts_->name,
                                              ": their communicator could not be made (its rank 0 is rank ", from,
                                              " of the group, its rank 1 is rank ", to, "): ", error.what()));
  }
}

GpuCalls::Channel& GpuCalls::open(const char* call, Pair& pair, int from, int to) {
  const bool up = from < to;
  {
    const std::lock_guard lock(mutex_);
    if (pair.channels[0] && pair.channels[1]) return *pair.channels[up ? 0 : 1];
  }
  const int low = std::min(from, to), high = std::max(from, to);
  const std::string message = c10::str(call, rank_ == from ? " to rank " : " from rank ", rank_ == from ? to : from);
  auto upward = make_pair(message, low, high);
  auto downward = make_pair(message, high, low);
  keep(pair.channels[0], std::move(upward));
  keep(pair.channels[1], std::move(downward));
  return *pair.channels[up ? 0 : 1];
}

std::shared_ptr<GpuComm> GpuCalls::group_comm() const {
  const std::lock_guard lock(mutex_);
  return group_ ? group_->comm : nullptr;
}

std::vector<GpuCalls::Channel*> GpuCalls::channels() const {
  std::vector<Channel*> all;
  const std::lock_guard lock(mutex_);
  if (group_) all.push_back(group_.get());
  for (const auto& [peer, pair] : pairs_) {
    for (const auto& channel : pair->channels) {
      if (channel) all.push_back(channel.get());
    }
  }
  return all;
}

// ---- calls

void GpuCalls::enqueue(Channel& channel, const c10::Stream& on, const GpuWorkPtr& work, std::vector<Body> bodies) {
  const c10::StreamGuard guard(on);
  std::shared_ptr<GpuRun> run;
  try {
    const at::NoGradGuard no_grad;
    Target target{channel.comm->get(), handle_of(on), nullptr};
    if (bodies.size() == 1) {
      bodies.front()(target);
    } else {
      Postponed postponed;
      target.postponed = &postponed;
      grouped([&] {
        for (const Body& body : bodies) body(target);
      });
      for (const auto& [to, from] : postponed.copies) copy_into(to, from);
    }
    run = work->record(channel.comm, on, std::move(bodies));
  } catch (...) {
    keep_failed(channel, on, *work, std::move(bodies));
    throw;
  }
  work->enqueued(run);
  if (!run->is_captured()) watch({c10::weak_intrusive_ptr<GpuWork>(work), work->getCompletionKey(), std::move(run)});
}

/// What was launched before the error runs all the same. Its work is of no use: the caller gets the error.
void GpuCalls::keep_failed(Channel& channel, const c10::Stream& on, const GpuWork& work, std::vector<Body> bodies) {
  try {
    auto run = work.record(channel.comm, on, std::move(bodies));
    if (!run->is_captured()) watch({c10::weak_intrusive_ptr<GpuWork>(GpuWorkPtr()), std::nullopt, std::move(run)});
  } catch (...) {
    const std::lock_guard lock(watch_mutex_);
    unwatched_.push_back(std::move(bodies));
  }
}

void GpuCalls::run(const GpuWorkPtr& work, std::vector<Body> bodies, bool async) {
  const WithoutGil without;
  Channel& channel = *group_;
  const c10::Stream current = current_stream(channel.stream.device());
  work->made_on(current);
  const std::lock_guard lock(channel.mutex);
  if (async) order(channel.before, current, channel.stream);
  enqueue(channel, async ? channel.stream : current, work, std::move(bodies));
}

void GpuCalls::transfer(const GpuWorkPtr& work, const char* call, c10::Device device, int from, int to, Body body) {
  check_device(call, device);
  const WithoutGil without;
  Pair& pair = pair_with(from == rank_ ? to : from);
  const c10::Stream current = current_stream(device);
  work->made_on(current);
  const auto before = std::make_shared<c10::Event>(device.type());
  before->record(current);
  const auto start = [this, call, &pair, work, from, to, before, body = std::move(body)] {
    Channel& channel = open(call, pair, from, to);
    const std::lock_guard lock(channel.mutex);
    before->block(channel.stream);
    enqueue(channel, channel.stream, work, {body});
  };
  if (is_capturing(current)) pair.queue.drain();  // the capture ends on this thread
  bool connected = false;
  {
    const std::lock_guard lock(mutex_);
    connected = pair.channels[0] && pair.channels[1];
  }
  if (pair.queue.idle() && (connected || is_capturing(current))) return start();
  pair.queue.launch([this, start, work, device] {
    try {
      use_device(device);
      start();
    } catch (...) {
      work->ended(as_torch_error(facts_->timeout()));
    }
  });
}

// ---- the thread that watches

void GpuCalls::watch(Watched watched) {
  const std::lock_guard lock(watch_mutex_);
  watched_.push_back(std::move(watched));
  if (!watcher_.joinable()) {
    watcher_ = std::thread([this] { look(); });
  } else if (watched_.size() == 1) {
    changed_.notify_all();
  }
}

/// A work that the program has dropped is told of all the same, if it ended well.
void GpuCalls::tell(Watched& watched, const std::exception_ptr& error) {
  if (const GpuWorkPtr work = watched.work.lock()) {
    work->ended(error);
  } else if (error == nullptr && watched.key) {
    facts_->hooks.completed(*watched.key);
  }
}

/// Once: also where those who are told throw.
void GpuCalls::tell_failure(Watched& watched, const std::exception_ptr& error) noexcept {
  try {
    if (const GpuWorkPtr work = watched.work.lock()) work->ended(error);
  } catch (...) {  // a callback of the program's
  }
  watched.key.reset();
}

/// True when it is done with. `left`: the communicators have been left, and what kernels report is known.
bool GpuCalls::look_at(Watched& watched, bool left) {
  const bool ran_before = watched.ran || left;
  GpuRun::Progress progress = GpuRun::Progress::Ran;
  try {
    progress = watched.run->progress();
  } catch (...) {  // the GPU has failed: nothing runs there any more
    tell_failure(watched, as_torch_error(facts_->timeout()));
    watched.run->release();
    return true;
  }
  watched.ran = progress == GpuRun::Progress::Ran;
  const std::exception_ptr error = watched.run->comm().failure(facts_->timeout());
  if (error != nullptr) {
    if (const GpuWorkPtr work = watched.work.lock()) work->ended(error);
  } else if (progress == GpuRun::Progress::Late) {
    if (const GpuWorkPtr work = watched.work.lock()) work->ended(work->late());
    abort();
  }
  if (!watched.ran || !ran_before) return false;
  tell(watched, error);
  watched.run->release();
  return true;
}

void GpuCalls::prepare_to_look() const {
  use_device(*device_);
  allow_beside_captures();
}

void GpuCalls::look() {
  using Clock = std::chrono::steady_clock;
  bool prepared = false;
  std::optional<Clock::time_point> end;
  std::unique_lock lock(watch_mutex_);
  while (!ending_ || (!watched_.empty() && Clock::now() < end.value_or(Clock::time_point::max()))) {
    if (ending_) {
      if (!end) end = Clock::now() + kEndLimit;
      changed_.wait_for(lock, kEveryAtTheEnd);
    } else if (watched_.empty()) {
      changed_.wait(lock, [this] { return ending_ || !watched_.empty(); });
    } else {
      changed_.wait_for(lock, kEvery, [this] { return ending_; });
    }
    const bool left = ending_;
    std::list<Watched> now;
    now.swap(watched_);
    lock.unlock();
    for (auto it = now.begin(); it != now.end();) {
      bool done = false;
      try {
        if (!prepared) prepare_to_look();
        prepared = true;
        done = look_at(*it, left);
      } catch (...) {  // not of the GPU: its work may still use the tensors
        tell_failure(*it, as_torch_error(facts_->timeout()));
      }
      it = done ? now.erase(it) : std::next(it);
    }
    lock.lock();
    watched_.splice(watched_.begin(), now);
  }
}

// ---- the end

void GpuCalls::shut() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

void GpuCalls::set_timeout(double seconds) {
  for (Channel* channel : channels()) channel->comm->set_timeout(seconds);
}

tuttiResult_t GpuCalls::state() const {
  for (const Channel* channel : channels()) {
    if (const tuttiResult_t state = channel->comm->state(); state != tuttiSuccess) return state;
  }
  return tuttiSuccess;
}

void GpuCalls::abort() {
  shut();
  for (Channel* channel : channels()) channel->comm->abort();
}

void GpuCalls::close() {
  std::vector<Pair*> pairs;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [peer, pair] : pairs_) pairs.push_back(pair.get());
  }
  for (Pair* pair : pairs) pair->queue.drain();
  shut();
  std::exception_ptr first;
  for (Channel* channel : channels()) {
    try {
      channel->comm->leave();  // waits for the calls; then the works know what became of them
    } catch (...) {
      if (first == nullptr) first = std::current_exception();
    }
  }
  {
    const std::lock_guard lock(watch_mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (watcher_.joinable()) watcher_.join();
  std::vector<std::vector<Body>> unwatched;  // they end outside of the lock
  {
    const std::lock_guard lock(watch_mutex_);
    // What still runs uses its tensors: only a work that is waited for releases them now.
    if (!watched_.empty()) new std::list<Watched>(std::exchange(watched_, {}));
    unwatched.swap(unwatched_);
  }
  if (first != nullptr) std::rethrow_exception(first);
}

}  // namespace tutti_torch
