#pragma once

// Marks a function that any compiler compiles for the host, and nvcc for the device too.
#if defined(__CUDACC__)
#define TUTTI_HD __host__ __device__
#else
#define TUTTI_HD
#endif
