// OpenBLAS, loaded when the first host device is made. Its threads spin for some time after their start, so a program
// that only contains the training layer, such as `tutti perf`, must not start them.
#pragma once

#include <cblas.h>

namespace tutti::train {

struct Blas {
  decltype(&::cblas_sgemm) sgemm = nullptr;
  decltype(&::openblas_set_num_threads) set_num_threads = nullptr;
};

/// Throws Error(Unsupported), with the remedy, if it is not installed.
const Blas& blas();

}  // namespace tutti::train
