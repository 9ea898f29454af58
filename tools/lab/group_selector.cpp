#include "tools/lab/group_selector.hpp"

#include <algorithm>
#include <cmath>

#include "base/format.hpp"
#include "select/explain.hpp"
#include "select/machine_view.hpp"
#include "tools/lab/report.hpp"

namespace tutti::tools {
namespace {

namespace planner = train::planner;
using planner::Call;
using planner::Group;

int64_t hosts_of(const Group& group) { return (group.ranks + group.in_host - 1) / group.in_host; }

Collective collective_of(Call call) {
  switch (call) {
    case Call::AllReduce:
      return Collective::AllReduce;
    case Call::AllGather:
      return Collective::AllGather;
    case Call::ReduceScatter:
      return Collective::ReduceScatter;
    case Call::AllToAll:
      return Collective::AllToAll;
    case Call::Message:
      break;
  }
  throw_error(Code::InternalError, "a message is no collective");
}

uint64_t block_of(Collective collective, const Group& group, double bytes) {
  const auto whole = static_cast<uint64_t>(std::llround(bytes));
  return std::max<uint64_t>(1, select::block_bytes(collective, whole, static_cast<Rank>(group.ranks)));
}

}  // namespace

const select::CostInputs& GroupSelector::all_of(int64_t hosts) {
  const auto [at, is_new] = all_.try_emplace(hosts);
  if (is_new) at->second = select::inputs_of(topology_(hosts), 0).inputs;
  return at->second;
}

const select::CostInputs& GroupSelector::inputs(Group group) {
  const auto [at, is_new] = inputs_.try_emplace(group);
  select::CostInputs& made = at->second;
  if (!is_new) return made;
  const int64_t hosts = hosts_of(group);
  const bool few = group.ranks <= select::MachineView::kMaxRanks;
  made = select::inputs_of(topology_(few ? hosts : 2), static_cast<Rank>(few ? group.ranks : 2 * group.in_host)).inputs;
  if (!few) {  // the hosts are alike, so two of them tell what links cost
    std::vector<Rank> labels;
    for (int64_t rank = 0; rank < group.ranks; ++rank) labels.push_back(static_cast<Rank>(rank / group.in_host));
    made.ranks = static_cast<Rank>(group.ranks);
    made.groups = std::make_shared<const plan::Grouping>(labels);
    made.order = {};
    made.own_orders.clear();
    made.view = nullptr;
  }
  if (hosts == 1) return made;
  constexpr double kAlike = 1.02;
  const double shared = all_of(2).between.beta;
  if (shared > kAlike * made.between.beta) {
    made.between.beta = shared;
    made.view = nullptr;  // which knows nothing of other groups
    if (!made.groups->has_two_levels()) made.inside = made.between;
  }
  return made;
}

select::Choices& GroupSelector::choices(Collective collective, Group group) {
  std::unique_ptr<select::Choices>& known = choices_[{collective, group}];
  if (known == nullptr) known = std::make_unique<select::Choices>(collective, inputs(group));
  return *known;
}

double GroupSelector::message(Group group, double bytes) {
  const select::CostInputs& all = all_of(group.in_host > 1 ? 1 : 2);
  const select::LinkCost& link = group.in_host > 1 ? all.inside : all.between;
  return link.alpha + bytes * link.beta;
}

GroupSelector::Selected GroupSelector::selected(Call call, Group group, double bytes) {
  if (call == Call::Message)
    return {.seconds = message(group, bytes), .algorithm = "message", .method = "", .links_alone = {}};
  const Collective collective = collective_of(call);
  const uint64_t block = block_of(collective, group, bytes);
  const select::Candidate best = choices(collective, group).rated(block, {}).front();
  if (!best.rejected.empty()) {
    throw_error(Code::Unsupported, "--topo: no algorithm can do {} on {} ranks: {}", name_of(collective), group.ranks,
                best.rejected);
  }
  return {.seconds = best.seconds,
          .algorithm = select::name_of_algorithm(best.row),
          .method = best.row.method->name,
          .links_alone = select::links_alone(best, block, inputs(group))};
}

planner::CallTimes::Curve GroupSelector::curve(Call call, Group group) {
  planner::CallTimes::Curve curve;
  for (int power = planner::CallTimes::kFirst; power <= planner::CallTimes::kLast; ++power) {
    const double bytes = std::exp2(power);
    if (call == Call::Message) {
      curve.push_back(message(group, bytes));
      continue;
    }
    const Collective collective = collective_of(call);
    const select::Candidate best = choices(collective, group).rated(block_of(collective, group, bytes), {}).front();
    if (!best.rejected.empty()) return selected(call, group, bytes), curve;  // throws
    curve.push_back(best.seconds);
  }
  return curve;
}

std::string calls_text(GroupSelector& selector, const std::vector<double>& values) {
  std::string text;
  for (const planner::StepCall& call : planner::calls_of(values)) {
    const GroupSelector::Selected by = selector.selected(call.call, call.group, call.bytes);
    const std::string how = by.method.empty() ? "" : fmt::format("{} by {}", by.algorithm, by.method);
    text += fmt::format("  {:<6}{:<15}{:>8}{:>7}{:>7}  {:<31}{:>8}{:>9}\n", call.row, name_of(call.call),
                        value_text(call.bytes, "B"), call.group.ranks, hosts_of(call.group), how,
                        value_text(by.seconds, "s"), by.links_alone ? value_text(*by.links_alone, "s") : "-");
  }
  if (text.empty()) return "";
  return fmt::format("\n{:<8}{:<15}{:>8}{:>7}{:>7}  {:<31}{:>8}{:>9}\n", "Calls,", "by the selector", "size", "ranks",
                     "hosts", "how", "time", "links") +
         text + "  links: what they take alone, without kernels; `tutti sim` replays that\n";
}

nlohmann::ordered_json calls_json(GroupSelector& selector, const std::vector<double>& values) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const planner::StepCall& call : planner::calls_of(values)) {
    const GroupSelector::Selected by = selector.selected(call.call, call.group, call.bytes);
    nlohmann::ordered_json one{{"row", call.row},           {"call", name_of(call.call)},    {"bytes", call.bytes},
                               {"ranks", call.group.ranks}, {"hosts", hosts_of(call.group)}, {"count", call.count},
                               {"algorithm", by.algorithm}, {"method", by.method},           {"seconds", by.seconds}};
    if (by.links_alone) one["links_alone"] = *by.links_alone;
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace tutti::tools
