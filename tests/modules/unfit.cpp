// A module that this machine has no device for.
#include "base/env.hpp"
#include "base/format.hpp"
#include "topo/constants.hpp"
#include "transports/transport.hpp"

namespace tutti::transports {
namespace {

const TransportRegistration unfit(
    {.name = "unfit", .summary = "needs a device", .preference = 90, .make = nullptr, .why_not = []() -> std::string {
       throw_error(Code::Unsupported, "no device (TUTTI_MODULES is {}, an empty message takes {} s)", env().modules,
                   machine_constants().tcp_alpha);
     }});

}  // namespace
}  // namespace tutti::transports
