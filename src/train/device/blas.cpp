#include "train/device/blas.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string>

#include "tutti/error.hpp"

namespace tutti::train {
namespace {

template <class Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  if (function == nullptr) {
    throw Error(Code::Unsupported, fmt::format("{} has no function {}: is it OpenBLAS?", TUTTI_OPENBLAS, name));
  }
}

Blas load() {
  void* const library = ::dlopen(TUTTI_OPENBLAS, RTLD_NOW | RTLD_LOCAL);  // never closed: it has threads
  if (library == nullptr) {
    const char* const reason = ::dlerror();
    throw Error(Code::Unsupported,
                fmt::format("the training layer computes with OpenBLAS, which cannot be loaded ({}); "
                            "install it (Debian: libopenblas0)",
                            reason));
  }
  Blas blas;
  find(library, "cblas_sgemm", blas.sgemm);
  find(library, "openblas_set_num_threads", blas.set_num_threads);
  return blas;
}

}  // namespace

const Blas& blas() {
  static const Blas kLoaded = load();
  return kLoaded;
}

}  // namespace tutti::train
