#pragma once

// Marks a function that any compiler compiles for the host, nvcc also for the device. TUTTI_HD_APART: on a host it is
// a function of its own, so that its callers stay short. On a device a call costs the caller its registers; so does a
// loop of which several turns run at a time, hence TUTTI_HD_ROLLED before the interpreter's loops.
// TUTTI_HD_UNROLLED before a loop over an array that is to lie in registers: registers have no index.
#if defined(__CUDACC__)
#define TUTTI_HD __host__ __device__
#define TUTTI_HD_APART __host__ __device__
#define TUTTI_HD_ROLLED _Pragma("unroll 1")
#define TUTTI_HD_UNROLLED _Pragma("unroll")
#else
#define TUTTI_HD
#define TUTTI_HD_APART [[gnu::noinline]]
#define TUTTI_HD_ROLLED
#define TUTTI_HD_UNROLLED
#endif
