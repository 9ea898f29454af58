// The transport `fakeverbs`: the engine of verbs over the device in this process. For the conformance table.
#include "transports/verbs/engine.hpp"
#include "verbs/fake_nic.hpp"

namespace tutti::transports {
namespace {

const TransportRegistration fakeverbs({.name = "fakeverbs",
                                       .summary = "threads of one process, over a device that reorders",
                                       .preference = 91,
                                       .make = [](const Context& context) -> std::unique_ptr<Transport> {
                                         return std::make_unique<verbs::Engine>(context, test::make_fake_nic(), 2,
                                                                                "fakeverbs");
                                       }});

}  // namespace
}  // namespace tutti::transports
