#define TUTTI_FOLDED Prod
#include "reduce/fold_kernel-inl.hpp"
