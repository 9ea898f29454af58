#include "exec/cuda/regions.hpp"

#include <algorithm>
#include <vector>

#include "base/format.hpp"
#include "transports/cuda/retired.hpp"

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

GpuRegions::~GpuRegions() {
  while (!own_.empty()) take_out(own_.begin()->first);
}

link::SharedRegion GpuRegions::find(const void* data, uint64_t bytes) const {
  if (all_on_one_gpu_) return {.id = link::kAddressRegion};
  const std::lock_guard lock(mutex_);
  for (const auto& [id, own] : own_) {
    if (data != nullptr && own.number != 0 && own.buffer->holds(data, bytes)) return {id, own.buffer->base()};
  }
  return {};
}

const BufferReport& GpuRegions::offer(const void* data, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  uint64_t id = link::kFirstUserRegion;
  while (own_.count(id) != 0) ++id;
  if (id >= link::kRegions) {
    throw_error(Code::Unsupported, "{} buffers are registered, which is the maximum: deregister some", own_.size());
  }
  const auto buffer = std::make_shared<OwnBuffer>(device_, data, bytes, id);
  own_[id] = {buffer};
  transport_.share(id, buffer);
  return buffer->report();
}

void GpuRegions::add(Rank peer, const BufferReport& report, Deadline deadline) {
  if (report.id < link::kFirstUserRegion || report.id >= link::kRegions || report.pieces.empty()) {
    throw_error(Code::ProtocolError, "what rank {} states of its buffer is invalid", peer);
  }
  const auto entry = reinterpret_cast<CUdeviceptr>(of(peer) + report.id);
  const link::MappedRegion none;
  device_.stream().upload(entry, &none, sizeof none);  // what was there before goes
  const link::MappedRegion region = transport_.map_buffer(peer, report, deadline);
  device_.stream().upload(entry, &region, sizeof region);
}

uint64_t GpuRegions::use(uint64_t id) {
  const std::lock_guard lock(mutex_);
  own_.at(id).number = ++last_number_;
  generation_.fetch_add(1, std::memory_order_acq_rel);
  return last_number_;
}

/// Letting go of a buffer may free its memory, which waits for kernels: another thread does it.
void GpuRegions::take_out(uint64_t id) {
  transport_.share(id, nullptr);
  tutti::cuda::Retired::instance().put(device_, std::move(own_.at(id).buffer));
  own_.erase(id);
  generation_.fetch_add(1, std::memory_order_acq_rel);
}

void GpuRegions::drop(uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto is_it = [number](const auto& own) { return own.second.number == number; };
  const auto found = std::find_if(own_.begin(), own_.end(), is_it);
  if (found != own_.end()) take_out(found->first);
}

void GpuRegions::withdraw(uint64_t id) {
  const std::lock_guard lock(mutex_);
  take_out(id);
}

void GpuRegions::drop_freed(const void* data, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  for (auto next = own_.begin(); next != own_.end();) {
    const auto& [id, own] = *next++;
    if (own.number != 0 && own.buffer->holds(data, 1) && own.buffer->was_freed(data, bytes)) take_out(id);
  }
}

}  // namespace tutti::exec::cuda
