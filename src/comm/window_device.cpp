#include "comm/window_device.hpp"

#include <map>
#include <utility>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "comm/window.hpp"

namespace tutti::comm {
namespace {

using transports::TransportEntry;
using transports::UnusableModule;

constexpr const char* kWithRdma = "verbs";  // the transport of this library that has devices for windows

std::string why_none(const std::vector<UnusableModule>& unusable) {
  std::string why = "no transport here has RDMA whose bounds a device checks";
  for (const UnusableModule& module : unusable) {
    if (module.name == kWithRdma) why += fmt::format("; {} cannot be used: {}", module.name, module.why_not);
  }
  return why;
}

}  // namespace

WindowRdma window_rdma(const TransportEntry& messages, const std::string& forced,
                       const std::vector<TransportEntry>& usable, const std::vector<UnusableModule>& unusable) {
  if (messages.remote_memory != nullptr) return {.transport = &messages, .why_not = ""};
  if (messages.why_no_rdma == nullptr && !forced.empty()) {
    return {.why_not = fmt::format("TUTTI_TRANSPORT is {}: windows use no RDMA either", forced)};
  }
  std::string why_not = messages.why_no_rdma == nullptr ? why_none(unusable) : messages.why_no_rdma();
  if (!why_not.empty()) return {.why_not = std::move(why_not)};
  for (const TransportEntry& entry : usable) {
    if (entry.remote_memory != nullptr) return {.transport = &entry, .why_not = ""};
  }
  return {.why_not = why_none(unusable)};
}

void WindowServices::find_device(const Fabric& fabric) {
  const transports::Wireup& wireup = connections.wireup();
  const Rank me = wireup.rank();
  std::vector<std::string> why_not(static_cast<size_t>(wireup.ranks()), "it is of this host");
  std::map<const TransportEntry*, WindowRdma> by_messages;
  const TransportEntry* opened = nullptr;
  std::string failure;
  for (Rank peer = 0; peer < wireup.ranks(); ++peer) {
    if (wireup.process_id(peer).host == wireup.process_id(me).host) continue;
    std::string& why = why_not[static_cast<size_t>(peer)];
    const TransportEntry& messages = fabric.entry_to(peer);
    const auto [known, is_new] = by_messages.try_emplace(&messages);
    WindowRdma& rdma = known->second;
    if (is_new) {
      rdma = window_rdma(messages, env().transport, transports::transports(), transports::unusable_modules());
    }
    why = rdma.why_not;
    if (rdma.transport == nullptr) continue;
    if (opened == nullptr) {
      opened = rdma.transport;
      try {
        device = opened->remote_memory(connections.wireup());
      } catch (const Error& error) {
        failure = error.what();
        log_warn("rank {}: windows of other hosts are reached by requests, not by RDMA: {}", me, failure);
      }
    }
    why = rdma.transport == opened ? failure : fmt::format("windows of this rank use {}'s device", opened->name);
  }
  if (device != nullptr) target->use(*device);
  connections.use_rdma(device.get(), std::move(why_not));
}

}  // namespace tutti::comm
