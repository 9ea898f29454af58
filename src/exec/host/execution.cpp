#include "exec/host/execution.hpp"

#include "base/format.hpp"

namespace tutti::exec {
namespace {

std::vector<uint32_t> connect_all(const std::vector<LinkId>& links, uint32_t replica, const auto& connect) {
  std::vector<uint32_t> numbers;
  for (const LinkId& link : links) {
    if (replica > 0 && link.link_lane >= link::kThreadLinkLanes) {
      throw_error(Code::Unsupported, "a plan with {} lanes runs on one thread only: set TUTTI_THREADS=1",
                  link.link_lane + 1);
    }
    numbers.push_back(connect(LinkId{link.peer, link.link_lane + replica * link::kThreadLinkLanes}));
  }
  return numbers;
}

}  // namespace

void Replica::Connected::connect(const WindowProgram& program, const std::vector<uint32_t>& ins,
                                 const std::vector<uint32_t>& links) {
  for (const uint32_t in : program.arrivals) arrivals.push_back(ins[in]);
  for (const Out& out : program.outs) outs.push_back({links[out.link], out.delivery});
  tables = {program.lanes.data(),   program.ops.data(), program.segments.data(),
            program.sources.data(), arrivals.data(),    outs.data()};
}

Replica::Replica(const Program& program, uint32_t index, uint32_t versions, const Arithmetic& arithmetic,
                 Links& links) {
  outs = connect_all(program.out_links, index, [&](const LinkId& link) { return links.out(link); });
  const auto ins = connect_all(program.in_links, index, [&](const LinkId& link) { return links.in(link); });
  full_.connect(program.full, ins, outs);
  last_.connect(program.last, ins, outs);
  state.full = full_.tables;
  state.last = last_.tables;
  state.rounds = program.rounds_of(index);
  const bool has_last = (program.rounds - 1) % program.width == index;
  state.full_rounds = state.rounds - (has_last ? 1 : 0);
  state.versions = versions;
  state.scratch_bytes = program.scratch_bytes;
  state.offers = program.offers;
  state.fenced = program.fenced;
  state.advance_bytes = program.window_bytes * program.width;
  state.arithmetic = arithmetic;
  first_bytes_ = program.window_bytes * index;
  const size_t count = program.last.lanes.size();
  lanes.resize(count);
  host_lanes_.resize(count);
  arrivals_.resize(count * program.max_arrivals);
  operands_.resize(count * program.max_sources);
  for (size_t i = 0; i < count; ++i) {
    lanes[i].lane = lanes[i].row = static_cast<uint32_t>(i);
    lanes[i].arrivals = arrivals_.data() + i * program.max_arrivals;
    lanes[i].operands = operands_.data() + i * program.max_sources;
    lanes[i].host = &host_lanes_[i];
  }
  state.lanes = lanes.data();
  state.lane_count = static_cast<uint32_t>(count);
}

HostExecution::HostExecution(Program made, uint32_t versions, const Arithmetic& arithmetic, Links& links)
    : Execution(std::move(made)), scratch_bytes(program().scratch_bytes * versions) {
  for (uint32_t i = 0; i < program().width; ++i) {
    replicas.push_back(std::make_unique<Replica>(program(), i, versions, arithmetic, links));
  }
}

void HostExecution::own_stages(Links& all) {
  for (const auto& replica : replicas) {
    std::vector<Stage*> stages;
    for (const StageNeed& need : program().stages) {
      std::vector<uint32_t> links;
      for (const uint32_t out : need.outs) links.push_back(replica->outs[out]);
      StoreChoice& stores = all.stores(links);
      stages_.push_back(&owned_.emplace_back(need.slot_bytes, std::move(links), &stores));
      stages.push_back(&stages_.back()->stage);
    }
    replica->use(std::move(stages));
  }
}

}  // namespace tutti::exec
