#define TUTTI_FOLDED BitAnd
#include "reduce/fold_kernel-inl.hpp"
