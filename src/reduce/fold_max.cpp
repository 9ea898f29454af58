#define TUTTI_FOLDED Max
#include "reduce/fold_kernel-inl.hpp"
