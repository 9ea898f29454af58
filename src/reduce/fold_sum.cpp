#define TUTTI_FOLDED Sum
#include "reduce/fold_kernel-inl.hpp"
