#include "exec/gpu/slices.hpp"

#include <algorithm>
#include <iterator>

#include "base/format.hpp"

namespace tutti::exec::gpu {
namespace {

/// The place of `number` in the list, which gets it if it has not.
uint32_t place_of(std::vector<uint32_t>& list, uint32_t number) {
  const auto found = std::find(list.begin(), list.end(), number);
  const auto place = static_cast<uint32_t>(std::distance(list.begin(), found));
  if (found == list.end()) list.push_back(number);
  return place;
}

/// One window of a lane. A table's entries are copied in the order of the instructions that refer to them.
class Cut {
 public:
  Cut(const WindowProgram& from, LaneSlice& slice, WindowProgram& to) : from_(from), slice_(slice), to_(to) {}

  void lane(const Range& ops) {
    for (uint32_t i = ops.begin; i < ops.end; ++i) add(from_.ops[i]);
    to_.lanes = {{0, static_cast<uint32_t>(to_.ops.size())}};
  }

 private:
  void add(Instruction op) {
    const uint32_t push_to = op.push_to == kNone ? kNone : op.push_to - op.outs.begin;
    op.segments = moved(op.segments, to_.segments, [&](uint32_t s) { return segment(op, from_.segments[s]); });
    op.arrivals = moved(op.arrivals, to_.arrivals, [&](uint32_t i) { return place_of(slice_.ins, from_.arrivals[i]); });
    op.outs = moved(op.outs, to_.outs, [&](uint32_t i) {
      return Out{place_of(slice_.outs, from_.outs[i].link), from_.outs[i].delivery};
    });
    if (push_to != kNone) op.push_to = op.outs.begin + push_to;
    if (op.stage != kNone) op.stage = place_of(slice_.stages, op.stage);
    to_.ops.push_back(op);
  }

  Segment segment(const Instruction& op, Segment segment) {
    const auto first = from_.sources.begin() + segment.sources;
    segment.sources = static_cast<uint32_t>(to_.sources.size());
    to_.sources.insert(to_.sources.end(), first, first + op.sources);
    return segment;
  }

  template <class T, class Make>
  static Range moved(const Range& range, std::vector<T>& to, Make&& make) {
    const auto begin = static_cast<uint32_t>(to.size());
    for (uint32_t i = range.begin; i < range.end; ++i) to.push_back(make(i));
    return {begin, static_cast<uint32_t>(to.size())};
  }

  const WindowProgram& from_;
  LaneSlice& slice_;
  WindowProgram& to_;
};

}  // namespace

std::vector<LaneSlice> slices_of(const Program& program) {
  std::vector<LaneSlice> slices(program.last.lanes.size());
  std::vector<bool> staged(program.stages.size());
  for (size_t lane = 0; lane < slices.size(); ++lane) {
    LaneSlice& slice = slices[lane];
    if (lane < program.full.lanes.size()) Cut(program.full, slice, slice.full).lane(program.full.lanes[lane]);
    Cut(program.last, slice, slice.last).lane(program.last.lanes[lane]);
    for (const uint32_t stage : slice.stages) {
      if (staged[stage]) throw_error(Code::InternalError, "two lanes of a program use the same stage");
      staged[stage] = true;
      for (const uint32_t out : program.stages[stage].outs) place_of(slice.outs, out);
    }
  }
  return slices;
}

}  // namespace tutti::exec::gpu
