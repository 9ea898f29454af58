// From the C interface's codes to exceptions.
#pragma once

#include "tutti/error.hpp"
#include "tutti/tutti.h"

namespace tutti {

/// Throws Error with the library's words unless `result` is tuttiSuccess.
inline void check(tuttiResult_t result) {
  if (result != tuttiSuccess) throw Error(static_cast<Code>(result), tuttiGetLastError());
}

/// "0.1.0": the library that is loaded. TUTTI_VERSION_MAJOR, … are those of the header that was compiled.
inline const char* library_version() { return tuttiGetVersion(); }

}  // namespace tutti
