// Which instruction sets Highway compiles kernels for. Include before any Highway header.
//
// Highway numbers the targets of a platform so that better ones have smaller bits: "all better than X" is X − 1. x86:
// SSE4.2 as the minimum, AVX2, AVX-512. The minimum saves a scalar build of every kernel; newer variants of AVX-512
// would only add compile time, because no kernel uses their instructions. ARM: Neon. Vectors of unknown size (SVE, RVV)
// cannot be members of a struct, which the kernels need. Sanitizers multiply the compile time: their builds have the
// minimum only.
#pragma once

#if defined(__x86_64__)
#define HWY_BASELINE_TARGETS HWY_SSE4
#define HWY_DISABLED_TARGETS (HWY_AVX3 - 1)
#elif defined(__aarch64__)
#define HWY_DISABLED_TARGETS (HWY_NEON - 1)
#elif defined(__riscv)
#define HWY_DISABLED_TARGETS HWY_RVV
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HWY_COMPILE_ONLY_STATIC
#endif

// GCC 11 and 12 warn about their own AVX-512 intrinsics, which start from an undefined register (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
