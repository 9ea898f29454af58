// nccl.h compiles as C++ too, with the headers of CUDA where they are found, and says the same.
#include "abi.c"  // NOLINT(bugprone-suspicious-include)
