// The parameters of the sample kernels.
#pragma once

#include "exec/cuda/device.hpp"

/// to[i] = value + i
struct SampleFill {
  uint32_t* to;
  uint32_t count, value;
};

/// Waits until *flag >= value, then adds 1 to *counter for each thread.
struct SampleWait {
  const uint64_t* flag;
  uint64_t value;
  uint64_t* counter;
};

/// sums[block] = the sum of in[0, count), by all threads of the block: shuffles in warps, then shared memory.
struct SampleSum {
  const uint32_t* in;
  uint32_t count;
  uint64_t* sums;
  uint32_t without_barrier;  ///< a mutant: another thread reads what it did not wait for
};

/// Sends `rounds` lines to the peer, and receives as many from it. In each word are 4 bytes of data, and a flag above.
struct SampleLines {
  tutti::ptx::Words* mine;
  tutti::ptx::Words* peers;
  uint32_t rounds;
  uint64_t* received;
};

/// Stores `value`, in four words, to all that `all` stands for; then out[0, 4) = the sums of these words on all GPUs.
struct SampleMulticast {
  unsigned char* all;
  uint32_t value;
  uint32_t* out;
  uint32_t without_multimem;  ///< a mutant: ordinary accesses
};

/// All threads wait at barriers, but thread 0 at a shuffle that the others do not make.
struct SampleStuck {
  uint32_t* to;
};

/// to[i] = from[0][i] folded with from[1][i] by operator number `op`, `count` words of 32 bits, or floats.
struct SampleFold {
  const uint32_t* from[2];
  uint32_t* to;
  uint32_t count, op, floats;
};

/// order[i] = the thread of the grid that counted as number i.
struct SampleOrder {
  uint32_t* count;
  uint32_t* order;
};

/// Each thread's bit of `bits`: out[thread] has the votes of its warp, or 0 where nobody of the block voted; then the
/// block copies `packs` packs through its dynamic shared memory.
struct SampleVotes {
  uint64_t bits;
  uint32_t* out;
  const tutti::ptx::Pack* from;
  tutti::ptx::Pack* to;
  uint32_t packs;
};
