// Registers the transport `ucx`: whatever network UCX finds.
#include "transports/ucx/engine.hpp"
#include "transports/ucx/settings.hpp"

namespace tutti::transports {
namespace {

const TransportRegistration ucx_entry({.name = "ucx",
                                       .summary = "hosts, over what UCX finds; active messages and rendezvous",
                                       .preference = 60,
                                       .make = [](const Context& context) -> std::unique_ptr<Transport> {
                                         return std::make_unique<ucx::Engine>(context);
                                       },
                                       .why_not = ucx::why_not,
                                       .between_hosts = true,
                                       .why_no_rdma = ucx::why_no_rdma});

}  // namespace
}  // namespace tutti::transports
