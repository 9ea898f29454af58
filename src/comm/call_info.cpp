#include "comm/call_info.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>

#include "exec/compile/delivery.hpp"
#include "exec/method.hpp"

namespace tutti::comm {
namespace {

/// As the program was compiled.
void collect_deliveries(const exec::WindowProgram& window, std::map<std::string, std::string>& deliveries) {
  for (const exec::Instruction& op : window.ops) {
    for (uint32_t i = op.outs.begin; i < op.outs.end; ++i) {
      const char* name = exec::name_of(window.outs[i].delivery);
      if (!deliveries.contains(name)) deliveries[name] = exec::describe(window.decisions[i], op.bytes);
    }
    if ((op.remote & exec::kStoresDirect) != 0)
      deliveries.emplace("direct-store", "results are folded straight into the receiver's buffer");
  }
}

}  // namespace

CallInfo call_info(const Prepared& prepared, const std::function<std::string(Rank)>& transport_to) {
  std::map<std::string, std::string> deliveries;  // by name: why
  const exec::Program& program = prepared.execution->program();
  collect_deliveries(program.full, deliveries);
  collect_deliveries(program.last, deliveries);
  std::set<std::string> transports;
  for (const exec::LinkId& link : program.out_links) transports.insert(transport_to(link.peer));
  for (const exec::LinkId& link : program.in_links) transports.insert(transport_to(link.peer));
  const exec::Method& method = *prepared.row.method;
  if (*method.delivery != '\0') deliveries = {{method.name, method.delivery}};
  CallInfo info{.algorithm = prepared.algorithm,
                .method = prepared.row.method->name,
                .window = program.window_bytes,
                .width = program.width,
                .transport = fmt::format("{}", fmt::join(transports, "+"))};
  for (const auto& [name, why] : deliveries) {
    info.delivery += fmt::format("{}{}", info.delivery.empty() ? "" : "+", name);
    info.why += fmt::format("{}{}: {}", info.why.empty() ? "" : "; ", name, why);
  }
  if (transports.empty()) info.transport = "none";
  if (deliveries.empty()) info.delivery = "none";
  return info;
}

}  // namespace tutti::comm
