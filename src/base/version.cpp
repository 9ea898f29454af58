#include "base/version.hpp"

namespace tutti {

const char* version() { return TUTTI_VERSION; }

}  // namespace tutti
