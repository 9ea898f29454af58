#include "exec/cuda/regions.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace tutti::exec::cuda {

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
  const auto changed = [this] { generation_.fetch_add(1, std::memory_order_seq_cst); };
  changed();
  tutti::cuda::SharedBuffers::Surroundings around{
      .peers = {},
      .set_region = [this](Rank peer, uint64_t id, const link::MappedRegion& region) { set(peer, id, region); },
      .changed = changed,
      .enqueued = [this] { return calls_.planned(); },
      .ended = [this] { return calls_.ended(); }};
  if (!all_on_one_gpu_) around.peers = transport_.peers();
  buffers_.start(std::move(around));
}

void GpuRegions::set(Rank peer, uint64_t id, const link::MappedRegion& region) const {
  device_.stream().upload(reinterpret_cast<CUdeviceptr>(of(peer) + id), &region, sizeof region);
}

bool GpuRegions::pin(uint64_t since) const {
  calls_.plan();
  return generation_.load(std::memory_order_seq_cst) == since;
}

link::SharedRegion GpuRegions::find(const void* data, uint64_t bytes) const {
  if (all_on_one_gpu_) return {.id = link::kAddressRegion};
  return buffers_.find(data, bytes);
}

}  // namespace tutti::exec::cuda
