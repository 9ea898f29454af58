#define TUTTI_FOLDED BitOr
#include "reduce/fold_kernel-inl.hpp"
