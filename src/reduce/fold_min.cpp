#define TUTTI_FOLDED Min
#include "reduce/fold_kernel-inl.hpp"
