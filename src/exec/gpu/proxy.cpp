#include "exec/gpu/proxy.hpp"

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <utility>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/limits.hpp"
#include "base/log.hpp"
#include "exec/wait.hpp"
#include "transports/transport.hpp"

namespace tutti::exec::gpu {
namespace {

constexpr double kLongestRest = 200e-6;  // seconds from one look at the kernels' rings to the next, while they run
constexpr auto kIdle = std::chrono::milliseconds(50);
constexpr uint64_t kOnHost = 16 << 20;      // bytes that are reserved
constexpr uint64_t kMaxOnDevice = 8 << 20;  // bytes of slots: a communicator takes less than 32 MiB of a GPU's memory

uint64_t load(const uint64_t& word) {
  return std::atomic_ref<uint64_t>(const_cast<uint64_t&>(word)).load(std::memory_order_acquire);
}

}  // namespace

Proxy::Proxy(const BackendContext& context, const Gpu& gpu, HostRecord& record, uint64_t slot_bytes)
    : context_(context),
      gpu_(gpu),
      record_(record),
      slot_bytes_(slot_bytes),
      host_(gpu, Reserve::Where::OnHost, kOnHost) {
  if (env().gpu_direct && gpu.rdma() != Rdma::None) on_device_.emplace(gpu, Reserve::Where::OnDevice, kMaxOnDevice);
}

Proxy::~Proxy() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

/// Slots on the GPU for this use, if network and GPU permit it; null: they do not.
std::unique_ptr<RelayMemory> Proxy::direct_memory(Rank peer, transports::MemoryUse use) {
  transports::Transport& engine = context_.network->transport_to(peer);
  if (!engine.is_engine()) {
    throw_error(Code::Unsupported, "{} does not connect GPUs of different hosts: TUTTI_TRANSPORT names it",
                engine.name());
  }
  const auto above = engine.direct_above();
  const uint64_t bytes = link::kPushSlots * slot_bytes_;
  if (!env().gpu_direct || !above || gpu_.rdma() == Rdma::None) return nullptr;
  if (use == transports::MemoryUse::ReadWrite && slot_bytes_ <= *above) return nullptr;  // nothing would arrive there
  if (!on_device_ || used_on_device_ + bytes > kMaxOnDevice) return nullptr;
  try {
    auto made = std::make_unique<RelayMemory>(gpu_, slot_bytes_, host_, &*on_device_);
    made->register_with(engine, use);
    used_on_device_ += bytes;
    return made;
  } catch (const Error& error) {
    log_info("messages between {} and rank {} lie in the host's memory: {}", gpu_.name(), peer, error.what());
    return nullptr;
  }
}

std::unique_ptr<RelayMemory> Proxy::memory(Rank peer, transports::MemoryUse use) {
  auto made = direct_memory(peer, use);
  if (made == nullptr) {
    made = std::make_unique<RelayMemory>(gpu_, slot_bytes_, host_, nullptr);
    try {
      made->register_with(context_.network->transport_to(peer), use);
    } catch (const Error& error) {
      log_info("messages between {} and rank {} are copied for the network: {}", gpu_.name(), peer, error.what());
    }
  }
  context_.network->keep(made->slots());
  return made;
}

link::OutLink Proxy::connect_out(Rank peer, uint32_t link_lane) {
  link::OutLink end;
  run([&] {
    auto slots = memory(peer, transports::MemoryUse::Read);
    outs_.emplace_back(std::move(slots), context_.network->connect_out(peer, link_lane));
    end = outs_.back().device_end();
  });
  return end;
}

link::InLink Proxy::connect_in(Rank peer, uint32_t link_lane) {
  link::InLink end;
  run([&] {
    auto slots = memory(peer, transports::MemoryUse::ReadWrite);
    const link::InLink network = context_.network->connect_in(peer, link_lane);
    auto copies = network.keeps_posted ? std::make_unique<RelayMemory>(gpu_, slot_bytes_, host_, nullptr) : nullptr;
    ins_.emplace_back(std::move(slots), network, std::move(copies));
    end = ins_.back().device_end();
  });
  return end;
}

void Proxy::called(bool captured) {
  captured ? captured_.store(true) : void(launched_.fetch_add(1));
  const std::lock_guard lock(mutex_);  // else the thread could miss it between its look and its sleep
  changed_.notify_all();
}

bool Proxy::flushed() {
  if (!has_thread()) return true;
  bool all = false;
  run([&] { all = is_flushed(); });
  return all;
}

bool Proxy::has_thread() {
  const std::lock_guard lock(mutex_);
  return thread_.joinable();
}

/// On the thread, since engines are called by one thread only. Throws what the task throws.
void Proxy::run(const std::function<void()>& task) {
  std::packaged_task<void()> packaged(task);
  std::future<void> result = packaged.get_future();
  {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) thread_ = start_thread([this] { work(); });
    tasks_.emplace_back([&packaged] { packaged(); });
    has_tasks_.store(true, std::memory_order_release);
  }
  changed_.notify_all();
  result.get();
}

void Proxy::run_tasks() {
  if (!has_tasks_.load(std::memory_order_acquire)) return;
  std::unique_lock lock(mutex_);
  while (!tasks_.empty()) {
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
  has_tasks_.store(false, std::memory_order_release);
}

void Proxy::work() {
  Waiter waiter(*context_.backoff);
  while (!ending_) {
    run_tasks();
    if (turn()) {
      waiter.progressed();
      continue;
    }
    const double seconds = waiter.turn();
    if (seconds > 0) rest(seconds);
  }
}

/// Moves what can be moved.
bool Proxy::turn() {
  if (stopped_) return false;
  bool moved = false;
  Status status;
  for (OutRelay& out : outs_) moved = out.progress() || moved;
  for (transports::Transport* engine : context_.network->engines()) {
    bool some = false;
    if (status.ok()) status = engine->progress(some);
    moved = moved || some;
  }
  try {
    for (InRelay& in : ins_) moved = in.progress() || moved;
  } catch (const Error& error) {  // of the device's driver
    status = {error.code(), error.what()};
  }
  if (!status.ok()) context_.network->failed(status, load(record_.ended) + 1);
  stopped_ = !status.ok() || has_failed();
  if (!stopped_) return moved;
  for (transports::Transport* engine : context_.network->engines()) engine->stop();
  return false;
}

bool Proxy::is_flushed() const {
  const auto& engines = context_.network->engines();
  return stopped_ || (std::all_of(outs_.begin(), outs_.end(), [](const OutRelay& out) { return out.empty(); }) &&
                      std::all_of(engines.begin(), engines.end(),
                                  [](const transports::Transport* engine) { return engine->flushed(); }));
}

/// Nothing can move before the next call of this rank is enqueued.
bool Proxy::is_idle() const {
  if (stopped_) return true;
  const uint64_t ended = load(record_.ended);
  return !captured_ && launched_ <= ended && load(record_.started) <= ended && is_flushed();
}

void Proxy::rest(double seconds) {
  if (is_idle()) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kIdle, [this] { return ending_ || has_tasks_ || !is_idle(); });
    return;
  }
  const double most = load(record_.started) > load(record_.ended) ? std::min(seconds, kLongestRest) : seconds;
  for (transports::Transport* engine : context_.network->engines()) {
    if (engine->sleep(most)) return;
  }
  nap(most);
}

}  // namespace tutti::exec::gpu
