// What single operations cost, each in a loop of one thread or block (unit_costs.py).
#include "base/hd.hpp"
#include "exec/cuda/clock.hpp"
#include "exec/cuda/device.hpp"
#include "exec/cuda/multimem_access.hpp"
#include "exec/cuda/packs.hpp"

namespace tutti::exec::cuda {
struct UnitCall {
  uint64_t* out = nullptr;      ///< nanoseconds of all rounds, and a value that depends on what was loaded
  unsigned char* at = nullptr;  ///< memory
  uint64_t apart = 0;           ///< bytes from one node of a chain to the next
  uint32_t nodes = 0;           ///< of a chain: a power of two
  uint32_t rounds = 0;
};

namespace {

using ptx::Scope;

constexpr uint32_t kThreads = 512, kPacks = 4;  // of a block; of 16 bytes, stored by each thread in a round

/// All threads: does it so often, and stores how long that took.
template <class Round>
TUTTI_DEVICE void time_rounds(const UnitCall& call, Round&& round) {
  ptx::sync_block();
  const uint64_t begin = ptx::nanoseconds();
  TUTTI_HD_ROLLED
  for (uint32_t i = 0; i < call.rounds; ++i) {
    ptx::forget(i);
    round(i);
  }
  if (ptx::thread_index() == 0) call.out[0] = ptx::nanoseconds() - begin;
}

/// The address that a node has is that of the next: a load cannot begin before the one before has ended.
template <class Load>
TUTTI_DEVICE void chase(const UnitCall& call, Load&& load) {
  uint64_t node = reinterpret_cast<uintptr_t>(call.at);
  time_rounds(call, [&](uint32_t) { node = load(reinterpret_cast<const uint64_t*>(node)); });
  call.out[1] = node;
}

/// Each thread stores packs of its own, other ones in the next rounds.
TUTTI_DEVICE void store_packs(const UnitCall& call, uint32_t round) {
  unsigned char* const at = call.at + (round % 8 * kPacks * kThreads + ptx::thread_index()) * sizeof(ptx::Pack);
  for (uint32_t i = 0; i < kPacks; ++i) ptx::store_pack(at + i * kThreads * sizeof(ptx::Pack), {{round, i, 0, 0}});
}

/// All threads store, and the leader fences when all have.
template <class Fence>
TUTTI_DEVICE void store_and(const UnitCall& call, Fence&& fence) {
  time_rounds(call, [&](uint32_t round) {
    store_packs(call, round);
    ptx::sync_block();
    if (ptx::thread_index() == 0) fence();
    ptx::sync_block();
  });
}

TUTTI_DEVICE void add_relaxed(uint64_t* at) {
#if defined(__CUDACC__)
  asm volatile("red.relaxed.sys.global.add.u64 [%0], 1;" : : "l"(at) : "memory");
#else
  ptx::host::word(at).fetch_add(1, std::memory_order_relaxed);
#endif
}

TUTTI_DEVICE uint64_t* word_of(const UnitCall& call) { return reinterpret_cast<uint64_t*>(call.at); }

}  // namespace

/// Makes a chain of all nodes, in an order that no prefetch follows.
TUTTI_KERNEL(tutti_unit_link, UnitCall, kThreads) {
  const auto node = [&](uint32_t i) { return arguments.at + (i * 7919 & (arguments.nodes - 1)) * arguments.apart; };
  for (uint32_t i = ptx::thread_index(); i < arguments.nodes; i += ptx::block_size()) {
    *reinterpret_cast<uint64_t*>(node(i)) = reinterpret_cast<uintptr_t>(node(i + 1));
  }
}

TUTTI_KERNEL(tutti_unit_clock, UnitCall, kThreads) {  // the least time between two different readings
  uint64_t least = ~uint64_t{0};
  for (uint32_t i = 0; i < arguments.rounds; ++i) {
    const uint64_t one = ptx::nanoseconds(), two = ptx::nanoseconds();
    if (one != two && two - one < least) least = two - one;
  }
  arguments.out[0] = least;
}
TUTTI_KERNEL(tutti_unit_fence_sys, UnitCall, kThreads) {
  time_rounds(arguments, [](uint32_t) { ptx::fence<Scope::System>(); });
}
TUTTI_KERNEL(tutti_unit_fence_gpu, UnitCall, kThreads) {
  time_rounds(arguments, [](uint32_t) { ptx::fence<Scope::Device>(); });
}
TUTTI_KERNEL(tutti_unit_stores, UnitCall, kThreads) {
  store_and(arguments, [] {});
}
TUTTI_KERNEL(tutti_unit_stores_fence_sys, UnitCall, kThreads) {
  store_and(arguments, [] { ptx::fence<Scope::System>(); });
}
TUTTI_KERNEL(tutti_unit_stores_fence_gpu, UnitCall, kThreads) {
  store_and(arguments, [] { ptx::fence<Scope::Device>(); });
}
TUTTI_KERNEL(tutti_unit_barrier, UnitCall, kThreads) {
  time_rounds(arguments, [](uint32_t) { ptx::sync_block(); });
}
TUTTI_KERNEL(tutti_unit_load, UnitCall, kThreads) {
  chase(arguments, [](const uint64_t* at) { return ptx::load_relaxed<Scope::System>(at); });
}
TUTTI_KERNEL(tutti_unit_acquire_sys, UnitCall, kThreads) {
  chase(arguments, [](const uint64_t* at) { return ptx::load_acquire<Scope::System>(at); });
}
TUTTI_KERNEL(tutti_unit_acquire_gpu, UnitCall, kThreads) {
  chase(arguments, [](const uint64_t* at) { return ptx::load_acquire<Scope::Device>(at); });
}
TUTTI_KERNEL(tutti_unit_store, UnitCall, kThreads) {
  time_rounds(arguments, [&](uint32_t i) { ptx::store_relaxed<Scope::System>(word_of(arguments), i); });
}
TUTTI_KERNEL(tutti_unit_release_sys, UnitCall, kThreads) {
  time_rounds(arguments, [&](uint32_t i) { ptx::store_release<Scope::System>(word_of(arguments), i); });
}
TUTTI_KERNEL(tutti_unit_red_sys, UnitCall, kThreads) {
  time_rounds(arguments, [&](uint32_t) { add_relaxed(word_of(arguments)); });
}
TUTTI_KERNEL(tutti_unit_exchange_gpu, UnitCall, kThreads) {
  uint64_t value = 0;
  time_rounds(arguments,
              [&](uint32_t) { value = ptx::exchange_relaxed<Scope::Device>(word_of(arguments), value + 1); });
  arguments.out[1] = value;
}
TUTTI_KERNEL(tutti_unit_fetch_add_sys, UnitCall, kThreads) {
  uint64_t value = 0;
  time_rounds(arguments, [&](uint32_t) { value = ptx::fetch_add<Scope::System>(word_of(arguments), value | 1); });
  arguments.out[1] = value;
}

/// At a multicast address: a switch answers, of however many GPUs. Each load waits for the one before.
TUTTI_KERNEL(tutti_unit_multicast_load, UnitCall, kThreads) {
  uint64_t from = 0;
  time_rounds(arguments, [&](uint32_t) {
    const ptx::Pack pack = Multimem_add_f32::load(arguments.at + from);
    from = pack.words[0] == 0x7fffffff ? 16 : 0;  // never; but the load must have ended
    arguments.out[1] = pack.words[0];
  });
}
TUTTI_KERNEL(tutti_unit_multicast_store, UnitCall, kThreads) {
  time_rounds(arguments, [&](uint32_t) { store_to_all(arguments.at, {{0x40000000, 0, 0, 0}}); });  // 2.0
}

/// Two blocks, of one thread each: a flag goes to and fro. Both are resident, or the first ends all (by its limit).
TUTTI_KERNEL(tutti_unit_flags, UnitCall, kThreads) {
  constexpr uint64_t kLimit = 1000000000;  // nanoseconds
  uint64_t* const flags[] = {word_of(arguments), word_of(arguments) + 64};
  const uint32_t me = ptx::block_index();
  const uint64_t begin = ptx::nanoseconds();
  for (uint64_t round = 1; round <= arguments.rounds; ++round) {
    if (me == 0) ptx::store_relaxed<Scope::System>(flags[1], round);
    while (ptx::load_relaxed<Scope::System>(flags[me]) < round) {
      ptx::poll_pause();
      if (ptx::nanoseconds() - begin > kLimit) return;
    }
    if (me == 1) ptx::store_relaxed<Scope::System>(flags[0], round);
  }
  if (me == 0) arguments.out[0] = ptx::nanoseconds() - begin;
}

}  // namespace tutti::exec::cuda
