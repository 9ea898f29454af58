// Registers the transport `verbs`: InfiniBand and RoCE, by libibverbs.
#include "base/env.hpp"
#include "transports/verbs/engine.hpp"
#include "transports/verbs/ibv_nic.hpp"
#include "transports/verbs/ibv_port.hpp"
#include "transports/verbs/rdma_memory.hpp"

namespace tutti::transports {
namespace {

const TransportRegistration verbs_entry({.name = "verbs",
                                         .summary = "hosts, over InfiniBand or RoCE; reliable queue pairs",
                                         .preference = 40,
                                         .make = [](const Context& context) -> std::unique_ptr<Transport> {
                                           return std::make_unique<verbs::Engine>(
                                               context, verbs::make_ibv_nic(place_on_host(*context.wireup)),
                                               static_cast<uint32_t>(env().verbs_queues), "verbs");
                                         },
                                         .why_not = verbs::why_not,
                                         .between_hosts = true,
                                         .remote_memory = [](Wireup& wireup) -> std::unique_ptr<RemoteMemory> {
                                           const topo::HostPlace place = place_on_host(wireup);
                                           return std::make_unique<verbs::RdmaMemory>(
                                               "verbs", verbs::make_ibv_nic(place), verbs::make_ibv_nic(place));
                                         }});

}  // namespace
}  // namespace tutti::transports
