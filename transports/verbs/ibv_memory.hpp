// Objects of libibverbs that end with their owner, and registered memory.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>

#include "transports/verbs/nic.hpp"

namespace tutti::transports::verbs {

template <auto kDestroy>
struct Destroy {
  template <class T>
  void operator()(T* object) const {
    kDestroy(object);
  }
};
using Domain = std::unique_ptr<ibv_pd, Destroy<ibv_dealloc_pd>>;
using Channel = std::unique_ptr<ibv_comp_channel, Destroy<ibv_destroy_comp_channel>>;
using CompletionQueue = std::unique_ptr<ibv_cq, Destroy<ibv_destroy_cq>>;
using QueuePair = std::unique_ptr<ibv_qp, Destroy<ibv_destroy_qp>>;
using MemoryRegion = std::unique_ptr<ibv_mr, Destroy<ibv_dereg_mr>>;

class IbvRegion final : public Region {
 public:
  explicit IbvRegion(MemoryRegion region) : region_(std::move(region)) {
    address = reinterpret_cast<uint64_t>(region_->addr);
    bytes = region_->length;
    local_key = region_->lkey;
    remote_key = region_->rkey;
  }

 private:
  MemoryRegion region_;
};

/// Throws Error(OutOfMemory) with the limit. RegionUse::Window with atomic steps if the device has them.
MemoryRegion register_host(ibv_pd* domain, void* data, uint64_t bytes, RegionUse use, bool atomics);
/// Null: it cannot be registered (errno).
MemoryRegion register_device(ibv_pd* domain, const DmaBuf& memory, RegionUse use);
/// Does the device register dmabufs?
bool has_dmabuf(ibv_pd* domain);

}  // namespace tutti::transports::verbs
