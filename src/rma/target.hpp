// A rank's parts of its communicator's windows, as other ranks reach them: processes of this host map them, and those
// of other hosts send requests, which this process's agent carries out (rma/agent.hpp).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "rma/part.hpp"
#include "transports/remote_memory.hpp"
#include "transports/wireup.hpp"

namespace tutti::rma {

class Target : public std::enable_shared_from_this<Target> {
 public:
  struct Exposed {
    std::byte* memory = nullptr;
    uint64_t bytes = 0;
    SignalLine* signals = nullptr;
    uint64_t signal_bytes = 0;
    uint64_t region = 0, signal_region = 0;  ///< of SharedMemory, that peers may map
    std::shared_ptr<const void> to_device;   ///< holds what a device lets peers access (rma/rdma_part.hpp)
  };

  /// Its requests come over `wireup`.
  static std::shared_ptr<Target> open(transports::Wireup& wireup);
  /// No request is carried out any more, and no peer's device accesses memory.
  void close();
  /// Peers may connect to it; until close().
  void use(transports::RemoteMemory& device);

  void expose(uint64_t window, const Exposed& part);
  /// When it returns, no request on that part is carried out any more, and no peer's device accesses it.
  void withdraw(uint64_t window);

  /// Does the agent work on parts of this rank, for ranks that do not reach them by loads and stores?
  bool is_served() const { return served_.load(std::memory_order_acquire); }
  /// Orders this thread and the agent in terms of the language: what the agent has done so far happens before the
  /// return, and what this thread has done happens before what the agent does from now on. Messages order them
  /// already, but by way of a peer in another process: the processor keeps that order, the C++ memory model and
  /// ThreadSanitizer do not know of it. So there is a word for each direction. One side stores it after its work
  /// (release); the other loads it before its own (acquire), and reads that store, since a message came between. No
  /// side waits for the other, as it would at the lock under which the agent copies.
  void synchronize() {
    if (!is_served()) return;
    by_rank_.store(1, std::memory_order_release);
    (void)by_agent_.load(std::memory_order_acquire);
  }
  /// That rank's stream has ended: all that it has asked for has been carried out.
  bool has_ended(Rank rank);

  // ---- for the agent
  /// A stream of that rank begins. False: it has one already, or there is nothing to serve any more.
  bool admit(Rank rank);
  /// Its stream has ended.
  void end(Rank rank);
  /// It offers a queue pair to the device's memory; the answer. Throws Error with the reason why there is none.
  std::string accept(Rank rank, const std::string& offer);
  /// Calls work(part) while the part is sure to stay; false if there is no such window (any more).
  template <class Work>
  bool with(uint64_t window, Work&& work) {
    const std::lock_guard lock(mutex_);
    const auto found = parts_.find(window);
    if (found == parts_.end()) return false;
    (void)by_rank_.load(std::memory_order_acquire);  // synchronize()
    work(found->second);
    by_agent_.store(1, std::memory_order_release);
    return true;
  }

 private:
  Target() = default;
  transports::Wireup::Reply answer(const std::string& request);

  alignas(128) std::atomic<uint32_t> by_rank_{0};   // processors fetch lines in pairs (rma/part.hpp)
  alignas(128) std::atomic<uint32_t> by_agent_{0};  // likewise
  alignas(128) std::mutex mutex_;
  std::map<uint64_t, Exposed> parts_;
  std::set<Rank> admitted_, ended_;
  std::atomic<bool> served_{false};  // some rank was admitted
  transports::RemoteMemory* device_ = nullptr;
  bool closed_ = false;
};

/// What a peer of this host asks for to map a region: the answer brings its descriptor.
struct MapRequest {
  uint64_t window = 0, region = 0;
};
struct MapReply {
  static constexpr uint64_t kMagic = 0x3170616d616d72;
  uint64_t magic = kMagic;
  uint64_t bytes = 0;
};
inline constexpr const char* kMapService = "rma-map";
inline constexpr const char* kStreamLabel = "rma";

}  // namespace tutti::rma
