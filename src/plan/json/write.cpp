// From plans to text.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "plan/json.hpp"
#include "plan/names.hpp"

namespace tutti::plan {
namespace {

/// Appends to one text, a step a line.
class Writer {
 public:
  std::string write(std::span<const RankPlan> plans, std::string_view name) {
    put("{{\"format\": \"{}\", \"version\": {}", kFormat, kVersion);
    if (!name.empty()) put(", \"name\": {}", nlohmann::json(name).dump());
    const Shape shape = plans.empty() ? Shape{} : plans.front().shape;
    put(",\n \"collective\": \"{}\", \"ranks\": {}, \"grain\": {},\n \"plans\": [", name_of(shape.collective),
        shape.ranks, plans.empty() ? 1 : plans.front().grain);
    each(plans.size(), ",", [&](size_t i) { write(plans[i]); });
    put("\n ]}}\n");
    return std::move(text_);
  }

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> text, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), text, std::forward<Args>(args)...);
  }

  /// one(i) for each i below `count`, with `between` between them.
  template <class One>
  void each(size_t count, const char* between, One&& one) {
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) text_ += between;
      one(i);
    }
  }

  void write(const RankPlan& plan) {
    put("\n  {{\"rank\": {}, \"scratch\": {}, \"partitions\": [", plan.rank, plan.scratch_blocks);
    each(plan.partitions.size(), ", ", [&](size_t i) { write(plan, plan.partitions[i]); });
    put("], \"lanes\": [");
    each(plan.lanes.size(), ",", [&](size_t lane) {
      const Range steps = plan.lanes[lane].steps;
      text_ += "\n   [";
      each(steps.size(), ",", [&](size_t i) { write(plan, plan.steps[steps.begin + i]); });
      text_ += "]";
    });
    put("\n  ]}}");
  }

  void write(const RankPlan& plan, const Partition& partition) {
    if (partition.bounds == kNone) return put("{}", partition.parts);
    text_ += "[";
    each(partition.parts + 1, ", ", [&](size_t i) {
      const Fraction bound = plan.fractions[partition.bounds + i];
      put("[{}, {}]", bound.num, bound.den);
    });
    text_ += "]";
  }

  void write(const RankPlan& plan, const Step& step) {
    put("\n    {{\"do\": \"{}\"", kKinds[static_cast<int>(step.kind)]);
    text_ += ", \"pieces\": ";
    write(plan, step.pieces);
    if (step.peers.size() > 0) {
      put(", \"peers\": [");
      each(step.peers.size(), ", ", [&](size_t i) { put("{}", plan.peers[step.peers.begin + i]); });
      text_ += "]";
    }
    if (step.operands.size() > 0) {
      put(", \"operands\": [");
      each(step.operands.size(), ", ", [&](size_t i) { write(plan, plan.operands[step.operands.begin + i]); });
      text_ += "]";
    }
    if (step.shape != FoldShape::Left) put(", \"shape\": \"{}\"", kShapes[static_cast<int>(step.shape)]);
    if (step.completes) text_ += ", \"completes\": true";
    if (step.lend != Lend::Never) put(", \"lend\": \"{}\"", kLends[static_cast<int>(step.lend)]);
    if (step.after != kNone) write_after(plan, step.after);
    text_ += "}";
  }

  void write(const RankPlan& plan, const Operand& operand) {
    if (operand.peer != kNoRank) return put("{}", operand.peer);
    write(plan, operand.pieces);
  }

  void write(const RankPlan& plan, Range pieces) {
    text_ += "[";
    each(pieces.size(), ", ", [&](size_t i) {
      const Piece& p = plan.pieces[pieces.begin + i];
      put("[\"{}\", {}, {}, {}, {}]", kBufferNames[static_cast<int>(p.buffer)], p.block, p.partition, p.first, p.last);
    });
    text_ += "]";
  }

  void write_after(const RankPlan& plan, uint32_t step) {
    const auto holds = [step](const Lane& lane) { return step >= lane.steps.begin && step < lane.steps.end; };
    const auto lane = std::find_if(plan.lanes.begin(), plan.lanes.end(), holds);
    put(", \"after\": [{}, {}]", lane - plan.lanes.begin(), step - lane->steps.begin);
  }

  std::string text_;
};

}  // namespace

std::string to_json(std::span<const RankPlan> plans, std::string_view name) { return Writer().write(plans, name); }

}  // namespace tutti::plan
