#pragma once

// Marks a function that is compiled for the host by any compiler and, by nvcc, for the device too.
#if defined(__CUDACC__)
#define TUTTI_HD __host__ __device__
#else
#define TUTTI_HD
#endif
