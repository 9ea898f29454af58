// A module whose transport cannot be made: the library must catch the module's Error as its own.
#include "base/format.hpp"
#include "transports/transport.hpp"

namespace tutti::transports {
namespace {

const TransportRegistration thrower({.name = "thrower",
                                     .summary = "throws",
                                     .preference = 90,
                                     .make = [](const Context& context) -> std::unique_ptr<Transport> {
                                       throw_error(Code::OutOfMemory, "thrower has no room for rank {}",
                                                   context.wireup->rank());
                                     }});

}  // namespace
}  // namespace tutti::transports
