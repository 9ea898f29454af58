#include "exec/cuda/regions.hpp"

#include <algorithm>
#include <vector>

#include "base/format.hpp"

namespace tutti::exec::cuda {

using tutti::cuda::BufferReport;
using tutti::cuda::OwnBuffer;

void GpuRegions::meet(Rank me, Rank ranks, Pool& pool) {
  std::vector<link::MappedRegion> all(static_cast<uint64_t>(ranks) * link::kRegions);
  all_on_one_gpu_ = ranks > 1;
  for (Rank peer = 0; peer < ranks; ++peer) {
    if (peer == me) continue;
    if (!transport_.probe(peer).ok) {
      all_on_one_gpu_ = false;
      continue;
    }
    const auto theirs = transport_.regions_of(peer);
    std::copy(theirs.begin(), theirs.end(), all.begin() + static_cast<int64_t>(peer) * int64_t{link::kRegions});
    all_on_one_gpu_ = all_on_one_gpu_ && theirs[link::kAddressRegion].bytes > 0;
  }
  const uint64_t bytes = all.size() * sizeof(link::MappedRegion);
  const CUdeviceptr there = pool.take(bytes).at;
  device_.stream().upload(there, all.data(), bytes);
  table_ = reinterpret_cast<const link::MappedRegion*>(there);
  generation_.fetch_add(1, std::memory_order_acq_rel);
}

const GpuRegions::Own* GpuRegions::holder(const void* data, uint64_t bytes) const {
  for (const auto& [id, own] : own_) {
    if (own.used && own.buffer->holds(data, bytes)) return &own;
  }
  return nullptr;
}

link::SharedRegion GpuRegions::find(const void* data, uint64_t bytes) const {
  if (all_on_one_gpu_) return {.id = link::kAddressRegion};
  const std::lock_guard lock(mutex_);
  const Own* const own = data == nullptr ? nullptr : holder(data, bytes);
  if (own == nullptr) return {};
  return {.id = own->buffer->report().id, .base = own->buffer->base()};
}

const BufferReport& GpuRegions::offer(const void* data, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  uint64_t id = link::kFirstUserRegion;
  while (own_.count(id) != 0) ++id;
  if (id >= link::kRegions) {
    throw_error(Code::Unsupported, "{} buffers are registered, which is the maximum: deregister some", own_.size());
  }
  const auto buffer = std::make_shared<const OwnBuffer>(device_, data, bytes, id);
  own_[id] = {buffer};
  transport_.share(id, buffer);
  return buffer->report();
}

void GpuRegions::add(Rank peer, const BufferReport& report, Deadline deadline) {
  if (report.id < link::kFirstUserRegion || report.id >= link::kRegions || report.pieces.empty()) {
    throw_error(Code::ProtocolError, "what rank {} states of its buffer is invalid", peer);
  }
  const link::MappedRegion region = transport_.map_buffer(peer, report, deadline);
  const link::MappedRegion* const entry = of(peer) + report.id;
  device_.stream().upload(reinterpret_cast<CUdeviceptr>(entry), &region, sizeof region);
}

void GpuRegions::use(uint64_t id) {
  const std::lock_guard lock(mutex_);
  own_.at(id).used = true;
  generation_.fetch_add(1, std::memory_order_acq_rel);
}

void GpuRegions::drop(uint64_t id) {
  const std::lock_guard lock(mutex_);
  if (own_.erase(id) == 0) return;
  transport_.share(id, nullptr);
  generation_.fetch_add(1, std::memory_order_acq_rel);
}

void GpuRegions::drop_if_freed(const void* data) {
  uint64_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    const Own* const own = own_.empty() ? nullptr : holder(data, 1);
    if (own != nullptr && own->buffer->was_freed()) id = own->buffer->report().id;
  }
  if (id != 0) drop(id);
}

}  // namespace tutti::exec::cuda
