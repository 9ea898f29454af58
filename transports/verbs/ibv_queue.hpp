// Queue, by libibverbs: one end of a reliable queue pair.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "transports/verbs/ibv_memory.hpp"
#include "transports/verbs/ibv_port.hpp"
#include "transports/verbs/nic.hpp"

namespace tutti::transports::verbs {

class IbvQueue;
/// By the upper half of their receive ids.
using Queues = std::map<uint64_t, IbvQueue*>;

class IbvQueue final : public Queue {
 public:
  /// `atomics`: the device does atomic steps; others may refuse a queue pair whose peer may ask for them.
  IbvQueue(const Port& port, ibv_pd* domain, Queues& all, QueuePair pair, const QueueNeeds& needs, bool atomics);
  ~IbvQueue() override;

  QueueAddress address() const override { return {pair_->qp_num, first_}; }
  void connect(const NicAddress& nic, const QueueAddress& peer, uint32_t reads) override;
  int post(const Work& work) override;
  int post_receives(uint32_t count) override;
  void stop() override { pair_.reset(); }

  /// The notice that a SEND has brought to the receive of this id.
  uint32_t sent_notice(uint64_t id) const { return notices_[static_cast<uint32_t>(id) % receives_]; }

 private:
  void modify(ibv_qp_attr& to, int what, const char* purpose);

  const Port& port_;
  Queues& all_;
  QueuePair pair_;
  const uint64_t receive_id_;
  const uint32_t receives_;
  std::unique_ptr<uint32_t[]> notices_;
  MemoryRegion notices_region_;
  const uint32_t first_;
  uint64_t posted_ = 0;
};

}  // namespace tutti::transports::verbs
