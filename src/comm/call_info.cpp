#include "comm/call_info.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>

namespace tutti::comm {
namespace {

struct Delivery {
  const char* name;
  std::string why;
};

/// Mirrors the interpreter's decision when it publishes the message.
Delivery delivery_of(const exec::Instruction& op, const link::OutLink& out) {
  if (op.inlined) return {"inline", fmt::format("{} bytes fit into the message's descriptor", op.bytes)};
  if (op.mapped && op.bytes >= out.mapped_threshold)
    return {"mapped", "the buffer is tuttiMemAlloc's, and the peer maps it"};
  if (op.zcopy && op.bytes >= out.zcopy_threshold && !out.by_cma) {
    return {"zcopy", "the peer is a thread of this process and reads the buffer"};
  }
  if (op.zcopy && op.bytes >= out.zcopy_threshold && op.allow_cma) {
    return {"cma", "the peer's kernel copies straight out of the buffer, which is faster for such blocks"};
  }
  if (out.zcopy_threshold == link::kNever) return {"staged", "this link's peer cannot read a rank's buffers"};
  if (op.bytes < out.zcopy_threshold) {
    return {"staged", fmt::format("messages of {} bytes are shorter than the {} from which a buffer is read in place",
                                  op.bytes, out.zcopy_threshold)};
  }
  if (!op.zcopy) return {"staged", "the plan writes to the memory again before its readers are done"};
  return {"staged", "two copies through staging memory are faster here than one by the kernel"};
}

void collect_deliveries(const exec::Program& program, exec::Links& links,
                        std::map<std::string, std::string>& deliveries, std::set<Rank>& peers) {
  for (const uint32_t number : program.arrivals) peers.insert(links.ins()[number].peer);
  for (const exec::Instruction& op : program.ops) {
    for (uint32_t i = op.outs.begin; i < op.outs.end; ++i) {
      const link::OutLink& out = links.outs()[program.outs[i]];
      peers.insert(out.peer);
      const Delivery delivery = delivery_of(op, out);
      deliveries.emplace(delivery.name, delivery.why);
      if (op.stores_direct)
        deliveries.emplace("direct-store", "results are folded straight into the receiver's buffer");
    }
  }
}

}  // namespace

CallInfo call_info(const Prepared& prepared, exec::Links& links, const Fabric& fabric) {
  std::map<std::string, std::string> deliveries;  // by name: why
  std::set<Rank> peers;
  const exec::Lowered& lowered = prepared.program.lowered;
  collect_deliveries(lowered.full, links, deliveries, peers);
  collect_deliveries(lowered.last, links, deliveries, peers);
  std::set<std::string> transports;
  for (const Rank peer : peers) transports.insert(fabric.transport_to(peer));
  CallInfo info{.algorithm = prepared.algorithm, .transport = fmt::format("{}", fmt::join(transports, "+"))};
  for (const auto& [name, why] : deliveries) {
    info.delivery += fmt::format("{}{}", info.delivery.empty() ? "" : "+", name);
    info.why += fmt::format("{}{}: {}", info.why.empty() ? "" : "; ", name, why);
  }
  if (transports.empty()) info.transport = "none";
  if (deliveries.empty()) info.delivery = "none";
  return info;
}

}  // namespace tutti::comm
