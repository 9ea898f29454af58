#include "comm/call_info.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>

#include "exec/compile/delivery.hpp"

namespace tutti::comm {
namespace {

/// What is known of the message that an instruction sends; the program is compiled from the same.
exec::OutMessage message_of(const exec::Instruction& op, const ProgramKey& key) {
  const exec::Base base = op.message.base;
  return {.bytes = op.bytes,
          .stays = base != exec::Base::None,
          .shared = (base == exec::Base::Input && key.shared_in) || (base == exec::Base::Output && key.shared_out)};
}

void collect_deliveries(const exec::WindowProgram& window, const Prepared& prepared, const exec::Links& links,
                        std::map<std::string, std::string>& deliveries) {
  for (const exec::Instruction& op : window.ops) {
    for (uint32_t i = op.outs.begin; i < op.outs.end; ++i) {
      const exec::Out& out = window.outs[i];
      const char* name = exec::name_of(out.delivery);
      if (deliveries.contains(name)) continue;
      const Rank reader = prepared.execution->program().out_links[out.link].peer;
      deliveries[name] = exec::reason_for(message_of(op, prepared.key), links.traits(reader).out, prepared.rules);
    }
    if ((op.remote & exec::kStoresDirect) != 0)
      deliveries.emplace("direct-store", "results are folded straight into the receiver's buffer");
  }
}

}  // namespace

CallInfo call_info(const Prepared& prepared, const exec::Links& links, const Fabric& fabric) {
  std::map<std::string, std::string> deliveries;  // by name: why
  const exec::Program& program = prepared.execution->program();
  collect_deliveries(program.full, prepared, links, deliveries);
  collect_deliveries(program.last, prepared, links, deliveries);
  std::set<std::string> transports;
  for (const exec::LinkId& link : program.out_links) transports.insert(fabric.transport_to(link.peer));
  for (const exec::LinkId& link : program.in_links) transports.insert(fabric.transport_to(link.peer));
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
