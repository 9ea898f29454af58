#define TUTTI_FOLDED BitXor
#include "reduce/fold_kernel-inl.hpp"
