// Small kernels that use what exec/cuda/device.hpp has: compiled for devices, and as twins for the tests of the fake
// driver.
#include "sample_kernels.hpp"

#include "exec/cuda/fold.hpp"
#include "exec/cuda/multimem_access.hpp"

using namespace tutti;

TUTTI_KERNEL(sample_fill, SampleFill, 256) {
  const uint32_t first = ptx::block_index() * ptx::block_size() + ptx::thread_index();
  for (uint32_t i = first; i < arguments.count; i += ptx::grid_size() * ptx::block_size()) {
    arguments.to[i] = arguments.value + i;
  }
}

TUTTI_KERNEL(sample_wait, SampleWait, 1024) {
  while (ptx::load_acquire(arguments.flag) < arguments.value) ptx::poll_pause();
  ptx::fetch_add<ptx::Scope::System>(arguments.counter, 1);
}

TUTTI_KERNEL(sample_sum, SampleSum, 512, 2) {
  TUTTI_SHARED(uint64_t[16], sums_of_warps);
  uint64_t sum = 0;
  for (uint32_t i = ptx::thread_index(); i < arguments.count; i += ptx::block_size()) sum += arguments.in[i];
  for (uint32_t distance = ptx::kWarp / 2; distance > 0; distance /= 2) {
    const uint64_t other = ptx::shuffle(ptx::kWholeWarp, sum, ptx::lane_index() ^ distance);
    sum += other;
  }
  if (ptx::lane_index() == 0) sums_of_warps[ptx::thread_index() / ptx::kWarp] = sum;
  if (arguments.without_barrier == 0) ptx::sync_block();
  if (ptx::thread_index() != ptx::block_size() - 1) return;
  uint64_t total = 0;
  for (uint32_t i = 0; i < ptx::block_size() / ptx::kWarp; ++i) total += sums_of_warps[i];
  ptx::store_release(arguments.sums + ptx::block_index(), total);
}

TUTTI_KERNEL(sample_lines, SampleLines, 32) {
  ptx::Words* const mine = arguments.mine + ptx::thread_index();
  ptx::Words* const peers = arguments.peers + ptx::thread_index();
  const auto flag_of = [](uint64_t word) { return static_cast<uint32_t>(word >> 32); };
  uint64_t received = 0;
  for (uint32_t round = 1; round <= arguments.rounds; ++round) {
    const uint64_t flag = uint64_t{round} << 32;
    ptx::store_words(peers, {flag | round * 2, flag | round * 3});
    ptx::Words line = ptx::load_words(mine);
    while (flag_of(line.low) < round || flag_of(line.high) < round) {
      ptx::poll_pause();
      line = ptx::load_words(mine);
    }
    // The peer may be a round ahead, in one word or in both.
    const bool right = static_cast<uint32_t>(line.low) == flag_of(line.low) * 2 &&
                       static_cast<uint32_t>(line.high) == flag_of(line.high) * 3;
    received += right ? 1 : 0;
  }
  ptx::fetch_add<ptx::Scope::Device>(arguments.received, received);
}

TUTTI_KERNEL(sample_multicast, SampleMulticast, 32) {
  if (arguments.without_multimem != 0) ptx::store_pack(arguments.all, ptx::load_pack(arguments.out));
  const uint32_t value = arguments.value;
  exec::cuda::store_to_all(arguments.all, {{value, value, value, value}});
  ptx::store_pack(arguments.out, exec::cuda::Multimem_add_32::load(arguments.all));
}

TUTTI_KERNEL(sample_stuck, SampleStuck, 64) {
  if (ptx::thread_index() == 0) {
    arguments.to[0] = ptx::shuffle(ptx::kWholeWarp, 1U, 1);
  } else {
    ptx::sync_block();
  }
}

template <class T>
TUTTI_DEVICE void fold_sample(const SampleFold& arguments) {
  const exec::Arithmetic how{.op = static_cast<Op>(arguments.op)};
  exec::Instruction op{};
  op.sources = 2;
  exec::Segment segment{};
  segment.bytes = uint64_t{arguments.count} * sizeof(uint32_t);
  segment.raw = -1;
  const unsigned char* const operands[2] = {reinterpret_cast<const unsigned char*>(arguments.from[0]),
                                            reinterpret_cast<const unsigned char*>(arguments.from[1])};
  using Reduce = exec::cuda::BlockReduce<exec::cuda::Plain<T>, exec::gpu::KernelKind::Slots>;
  Reduce::run(0, how, op, segment, reinterpret_cast<unsigned char*>(arguments.to), nullptr, operands);
}

TUTTI_KERNEL(sample_fold, SampleFold, 32) {
  if (arguments.floats != 0) return fold_sample<float>(arguments);
  fold_sample<uint32_t>(arguments);
}

TUTTI_KERNEL(sample_order, SampleOrder, 32) {
  const uint32_t number = ptx::fetch_add<ptx::Scope::Device>(arguments.count, 1);
  arguments.order[number] = ptx::block_index() * ptx::block_size() + ptx::thread_index();
}

TUTTI_KERNEL(sample_votes, SampleVotes, 64) {
  const bool vote = (arguments.bits >> ptx::thread_index() & 1) != 0;
  const uint32_t of_warp = ptx::ballot(ptx::kWholeWarp, vote);
  const bool any = ptx::sync_block_or(vote);
  arguments.out[ptx::thread_index()] = any ? of_warp : 0;
  auto* const shared = reinterpret_cast<ptx::Pack*>(ptx::dynamic_shared());
  // Within a warp, each lane reads what its neighbour has stored.
  for (uint32_t i = ptx::thread_index(); i < arguments.packs; i += ptx::block_size()) {
    shared[i] = ptx::load_pack(arguments.from + i);
    ptx::sync_warp();
    const uint32_t neighbour = i ^ 1;
    ptx::store_pack(arguments.to + neighbour, shared[neighbour]);
    ptx::sync_warp();
  }
}
