// The thread that connects a GPU with ranks of other hosts: it drives the network's engines and the relays between
// them and the kernels. Kernels and the thread talk through memory only (exec/gpu/relay.hpp).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "exec/backend.hpp"
#include "exec/gpu/lanes.hpp"
#include "exec/gpu/relay.hpp"

namespace tutti::exec::gpu {

class Proxy {
 public:
  /// Messages have `slot_bytes` bytes at most. The thread starts with the first link.
  Proxy(const BackendContext& context, const Gpu& gpu, HostRecord& record, uint64_t slot_bytes);
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  /// The device's ends of links. Throw what connecting throws.
  link::OutLink connect_out(Rank peer, uint32_t link_lane);
  link::InLink connect_in(Rank peer, uint32_t link_lane);
  /// A call has been enqueued, or captured: then it may run at any time.
  void called(bool captured);
  /// Has the network got all that ended calls have sent? (Of failed calls, nothing more is sent.)
  bool flushed();

 private:
  std::unique_ptr<RelayMemory> direct_memory(Rank peer, transports::MemoryUse use);
  std::unique_ptr<RelayMemory> memory(Rank peer, transports::MemoryUse use);
  void run(const std::function<void()>& task);
  void work();
  void run_tasks();
  bool turn();
  bool has_thread();
  bool is_flushed() const;
  bool is_idle() const;
  void rest(double seconds);
  bool has_failed() const { return context_.failed->load(std::memory_order_acquire) != 0; }

  const BackendContext context_;
  const Gpu& gpu_;
  const HostRecord& record_;
  const uint64_t slot_bytes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::atomic<bool> ending_{false}, has_tasks_{false}, captured_{false};
  std::atomic<uint64_t> launched_{0};  // calls that were not captured
  // Of the thread alone.
  std::deque<OutRelay> outs_;
  std::deque<InRelay> ins_;
  Reserve host_;
  std::optional<Reserve> on_device_;  // none: no network may write there
  uint64_t used_on_device_ = 0;       // bytes of slots
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace tutti::exec::gpu
