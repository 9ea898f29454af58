// The device as a rank uses it for its own accesses to peers' memory: one completion queue for all peers, and the cache
// of registrations of users' memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "transports/remote_memory.hpp"
#include "transports/verbs/memory.hpp"
#include "transports/verbs/nic.hpp"

namespace tutti::transports::verbs {

class RdmaQueue;

class RdmaDevice {
 public:
  explicit RdmaDevice(std::unique_ptr<Nic> nic);
  RdmaDevice(const RdmaDevice&) = delete;
  RdmaDevice& operator=(const RdmaDevice&) = delete;

  Nic& nic() { return *nic_; }
  const NicInfo& info() const { return nic_->info(); }
  Memory& memory() { return memory_; }

  /// A number that a queue's completions have in the upper half of their ids.
  uint64_t next_number() { return ++last_number_; }
  void add(uint64_t number, RdmaQueue& queue) { queues_[number] = &queue; }
  void remove(const RdmaQueue& queue);

  /// Gives completions to their queues; true if there was one. Throws Error(SystemError) if the device has failed.
  bool poll();
  /// One turn of a wait, after poll().
  void pause(uint32_t turn, RemoteWait& wait);

  /// Where atomic steps and flushes bring the word that was there: waited for, or not needed.
  uint64_t* result() const { return words(); }
  uint64_t* unused_result() const { return words() + 1; }
  uint32_t result_key() const { return words_.region->local_key; }

 private:
  uint64_t* words() const { return reinterpret_cast<uint64_t*>(words_.data.get()); }
  void check_events();

  const std::unique_ptr<Nic> nic_;
  Memory memory_;
  Buffer words_;
  std::map<uint64_t, RdmaQueue*> queues_;
  uint64_t last_number_ = 0;
};

}  // namespace tutti::transports::verbs
