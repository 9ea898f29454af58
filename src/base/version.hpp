#pragma once

namespace tutti {

/// "major.minor.patch" of this library.
const char* version();

}  // namespace tutti
