// Small kernels that use what exec/cuda/device.hpp has: compiled for devices, and as twins for the tests of the fake
// driver.
#include "sample_kernels.hpp"

#include "exec/cuda/multimem_access.hpp"

using namespace tutti;

TUTTI_KERNEL(sample_fill, SampleFill, 256) {
  const uint32_t first = gpu::block_index() * gpu::block_size() + gpu::thread_index();
  for (uint32_t i = first; i < arguments.count; i += gpu::grid_size() * gpu::block_size()) {
    arguments.to[i] = arguments.value + i;
  }
}

TUTTI_KERNEL(sample_wait, SampleWait, 1024) {
  while (gpu::load_acquire(arguments.flag) < arguments.value) gpu::poll_pause();
  gpu::fetch_add<gpu::Scope::System>(arguments.counter, 1);
}

TUTTI_KERNEL(sample_sum, SampleSum, 512, 2) {
  TUTTI_SHARED(uint64_t[16], sums_of_warps);
  uint64_t sum = 0;
  for (uint32_t i = gpu::thread_index(); i < arguments.count; i += gpu::block_size()) sum += arguments.in[i];
  for (uint32_t distance = gpu::kWarp / 2; distance > 0; distance /= 2) {
    const uint64_t other = gpu::shuffle(gpu::kWholeWarp, sum, gpu::lane_index() ^ distance);
    sum += other;
  }
  if (gpu::lane_index() == 0) sums_of_warps[gpu::thread_index() / gpu::kWarp] = sum;
  if (arguments.without_barrier == 0) gpu::sync_block();
  if (gpu::thread_index() != gpu::block_size() - 1) return;
  uint64_t total = 0;
  for (uint32_t i = 0; i < gpu::block_size() / gpu::kWarp; ++i) total += sums_of_warps[i];
  gpu::store_release(arguments.sums + gpu::block_index(), total);
}

TUTTI_KERNEL(sample_lines, SampleLines, 32) {
  gpu::Words* const mine = arguments.mine + gpu::thread_index();
  gpu::Words* const peers = arguments.peers + gpu::thread_index();
  const auto flag_of = [](uint64_t word) { return static_cast<uint32_t>(word >> 32); };
  uint64_t received = 0;
  for (uint32_t round = 1; round <= arguments.rounds; ++round) {
    const uint64_t flag = uint64_t{round} << 32;
    gpu::store_words(peers, {flag | round * 2, flag | round * 3});
    gpu::Words line = gpu::load_words(mine);
    while (flag_of(line.low) < round || flag_of(line.high) < round) {
      gpu::poll_pause();
      line = gpu::load_words(mine);
    }
    // The peer may be a round ahead, in one word or in both.
    const bool right = static_cast<uint32_t>(line.low) == flag_of(line.low) * 2 &&
                       static_cast<uint32_t>(line.high) == flag_of(line.high) * 3;
    received += right ? 1 : 0;
  }
  gpu::fetch_add<gpu::Scope::Device>(arguments.received, received);
}

TUTTI_KERNEL(sample_multicast, SampleMulticast, 32) {
  if (arguments.without_multimem != 0) gpu::store_pack(arguments.all, gpu::load_pack(arguments.out));
  const uint32_t value = arguments.value;
  exec::cuda::store_to_all(arguments.all, {{value, value, value, value}});
  gpu::store_pack(arguments.out, exec::cuda::Multimem_add_32::load(arguments.all));
}

TUTTI_KERNEL(sample_stuck, SampleStuck, 64) {
  if (gpu::thread_index() == 0) {
    arguments.to[0] = gpu::shuffle(gpu::kWholeWarp, 1U, 1);
  } else {
    gpu::sync_block();
  }
}

TUTTI_KERNEL(sample_order, SampleOrder, 32) {
  const uint32_t number = gpu::fetch_add<gpu::Scope::Device>(arguments.count, 1);
  arguments.order[number] = gpu::block_index() * gpu::block_size() + gpu::thread_index();
}

TUTTI_KERNEL(sample_votes, SampleVotes, 64) {
  const bool vote = (arguments.bits >> gpu::thread_index() & 1) != 0;
  const uint32_t of_warp = gpu::ballot(gpu::kWholeWarp, vote);
  const bool any = gpu::sync_block_or(vote);
  arguments.out[gpu::thread_index()] = any ? of_warp : 0;
  auto* const shared = reinterpret_cast<gpu::Pack*>(gpu::dynamic_shared());
  // Within a warp, each lane reads what its neighbour has stored.
  for (uint32_t i = gpu::thread_index(); i < arguments.packs; i += gpu::block_size()) {
    shared[i] = gpu::load_pack(arguments.from + i);
    gpu::sync_warp();
    const uint32_t neighbour = i ^ 1;
    gpu::store_pack(arguments.to + neighbour, shared[neighbour]);
    gpu::sync_warp();
  }
}
