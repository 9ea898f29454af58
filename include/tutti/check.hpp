// Converts the C interface's codes to exceptions.
#pragma once

#include "tutti/error.hpp"
#include "tutti/tutti.h"

namespace tutti {

/// Throws Error with the library's text unless `result` is tuttiSuccess.
inline void check(tuttiResult_t result) {
  if (result != tuttiSuccess) throw Error(static_cast<Code>(result), tuttiGetLastError());
}

/// The version of the loaded library, "0.1.0". TUTTI_VERSION_MAJOR, … are those of the header that was compiled.
inline const char* library_version() { return tuttiGetVersion(); }

}  // namespace tutti
