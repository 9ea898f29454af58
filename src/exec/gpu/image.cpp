#include "exec/gpu/image.hpp"

#include <algorithm>

#include "base/format.hpp"
#include "exec/method.hpp"
#include "topo/constants.hpp"

namespace tutti::exec::gpu {
namespace {

constexpr uint32_t kScratchVersions = 4;
constexpr uint64_t kAlignment = 128;

uint64_t aligned(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Bytes that will lie at an address of the GPU.
class Builder {
 public:
  explicit Builder(unsigned char* base) : base_(base) {}

  /// Appends these objects; returns where they will lie.
  template <class T>
  T* add(const std::vector<T>& objects) {
    T* const at = room<T>(objects.size());
    std::copy(objects.begin(), objects.end(), here(at));
    return at;
  }
  /// Room for so many, zeroed.
  template <class T>
  T* room(size_t count) {
    const uint64_t begin = aligned(bytes_.size());
    bytes_.resize(begin + count * sizeof(T));  // NOLINT(bugprone-sizeof-expression): T may be a pointer
    return reinterpret_cast<T*>(base_ + begin);
  }
  /// The object that will lie at `at`.
  template <class T>
  T* here(T* at) {
    return reinterpret_cast<T*>(bytes_.data() + (reinterpret_cast<unsigned char*>(at) - base_));
  }
  std::vector<unsigned char> take() { return std::move(bytes_); }

 private:
  unsigned char* const base_;
  std::vector<unsigned char> bytes_;
};

void check_limits(const Program& program) {
  if (program.max_sources > kMaxOperands) {
    throw_error(Code::Unsupported, "a step folds {} operands, where a GPU's kernel folds {}: force another algorithm",
                program.max_sources, kMaxOperands);
  }
  const auto longest = [](const WindowProgram& window) {
    uint64_t bytes = 0;
    for (const Segment& segment : window.segments) bytes = std::max(bytes, segment.bytes);
    return bytes;
  };
  const uint64_t bytes = std::max(longest(program.full), longest(program.last));
  if (bytes > kMaxSegment) {
    throw_error(Code::Unsupported, "a step moves {} bytes at once, where a GPU's kernel moves {}", bytes, kMaxSegment);
  }
}

/// A send that another follows leaves the fence to that one, if copying the other's bytes takes no longer than a fence.
/// What is read in place is not copied.
std::vector<Instruction> with_fewer_fences(const WindowProgram& window) {
  const double longest = machine_constants().cuda_fence / machine_constants().cuda_block_local;
  std::vector<Instruction> ops = window.ops;
  const auto sends = [&](uint32_t i) {
    const Instruction& op = ops[i];
    const bool copies = op.slot != Slot::None || !op.only_sends || op.push_copies;
    return op.outs.begin != op.outs.end && op.arrivals.begin == op.arrivals.end && op.repeats == 1 && op.has_pieces &&
           (!op.publishes_first || op.only_sends) && (!copies || static_cast<double>(op.bytes) <= longest);
  };
  for (const Range& lane : window.lanes) {
    for (uint32_t i = lane.begin; i + 1 < lane.end; ++i) ops[i].defers_fence = sends(i) && sends(i + 1);
  }
  return ops;
}

/// The tables that all replicas share, or one of them alone.
Tables add_tables(Builder& builder, const WindowProgram& window, bool by_shape) {
  return {.lanes = builder.add(window.lanes),
          .ops = builder.add(by_shape ? window.ops : with_fewer_fences(window)),
          .segments = builder.add(window.segments),
          .sources = builder.add(window.sources)};
}

/// The tables of one replica: with its links' numbers.
Tables with_links(Builder& builder, Tables tables, const WindowProgram& window, const ReplicaLinks& links) {
  std::vector<uint32_t> arrivals;
  std::vector<Out> outs;
  for (const uint32_t in : window.arrivals) arrivals.push_back(links.ins[in]);
  for (const Out& out : window.outs) outs.push_back({links.outs[out.link], out.delivery});
  tables.arrivals = builder.add(arrivals);
  tables.outs = builder.add(outs);
  return tables;
}

/// Those of all replicas.
LaneState* add_lanes(Builder& builder, const Program& program) {
  const size_t each = program.last.lanes.size(), count = each * program.width;
  auto* const arrivals = builder.room<link::Arrival>(count * program.max_arrivals);
  std::vector<LaneState> lanes(count);
  for (size_t i = 0; i < count; ++i) {
    lanes[i].lane = static_cast<uint32_t>(i % each);
    lanes[i].arrivals = arrivals + i * program.max_arrivals;
  }
  return builder.add(lanes);
}

/// Where messages are pushed, all that a stage publishes is before the step ends. Elsewhere they lie there until they
/// are read: plans are verified for so many.
uint32_t slots_of(const Program& program) { return program.method->reads_in_place ? link::kFewestSlots : 1; }

Stage* const* add_stages(Builder& builder, const Program& program, const ReplicaLinks& links, unsigned char* memory) {
  std::vector<Stage*> stages;
  for (const StageNeed& need : program.stages) {
    std::vector<uint32_t> outs;
    for (const uint32_t out : need.outs) outs.push_back(links.outs[out]);
    const auto readers = static_cast<uint32_t>(outs.size());
    const Stage stage{.base = memory,
                      .slot_bytes = aligned(need.slot_bytes),
                      .slots = slots_of(program),
                      .readers = readers,
                      .held = builder.room<uint64_t>(size_t{slots_of(program)} * readers),
                      .outs = builder.add(outs)};
    memory += stage.slot_bytes * stage.slots;
    stages.push_back(builder.add(std::vector{stage}));
  }
  return builder.add(stages);
}

/// Of each lane, and of one more, the number of its first transfer: each has two instructions.
std::vector<uint32_t> firsts_of(const WindowProgram& window) {
  std::vector<uint32_t> firsts;
  for (const Range& lane : window.lanes) firsts.push_back(lane.begin / 2);
  firsts.push_back(static_cast<uint32_t>(window.ops.size() / 2));
  return firsts;
}

/// Does a lane wait for another?
bool is_watched(const Program& program) {
  const auto waits = [](const Instruction& op) { return op.after_lane != kNone; };
  const auto any = [&](const WindowProgram& window) {
    return std::any_of(window.ops.begin(), window.ops.end(), waits);
  };
  return program.fenced || any(program.full) || any(program.last);
}

uint64_t scratch_of(const Program& program) { return aligned(program.scratch_bytes * kScratchVersions); }

/// Of a replica.
uint64_t stages_of(const Program& program) {
  uint64_t bytes = 0;
  for (const StageNeed& need : program.stages) bytes += aligned(need.slot_bytes) * slots_of(program);
  return bytes;
}

uint64_t workspace_of_replica(const Program& program) {
  return scratch_of(program) + (program.method->reads_in_place ? 0 : stages_of(program));
}

}  // namespace

std::vector<ReplicaLinks> connect_links(const Program& program, Links& links, const std::function<bool(Rank)>& single) {
  std::vector<ReplicaLinks> replicas(program.width);
  for (uint32_t replica = 0; replica < program.width; ++replica) {
    const auto own = [&](const LinkId& id) {
      if (single(id.peer)) return id;
      const bool of_plan = id.link_lane < link::kTransferLinkLane || id.link_lane >= link::kLlLanes;
      if (replica > 0 && of_plan && id.link_lane >= link::kThreadLinkLanes) {
        throw_error(Code::Unsupported, "a plan with {} lanes has one replica only: set TUTTI_MAX_BLOCKS=1",
                    id.link_lane + 1);
      }
      return LinkId{id.peer, id.link_lane + replica * link::kThreadLinkLanes};
    };
    for (const LinkId& id : program.out_links) replicas[replica].outs.push_back(links.out(own(id)));
    for (const LinkId& id : program.in_links) replicas[replica].ins.push_back(links.in(own(id)));
  }
  return replicas;
}

uint64_t workspace_of(const Program& program) { return program.width * workspace_of_replica(program); }

uint64_t staging_of(const Program& program) {
  return program.method->reads_in_place ? program.width * stages_of(program) : 0;
}

Image make_image(const Program& program, const std::vector<ReplicaLinks>& links, const Arithmetic& arithmetic,
                 const Surroundings& around, unsigned char* base) {
  check_limits(program);
  if (staging_of(program) > around.staging.bytes) {
    throw_error(Code::Unsupported, "the call's messages need {} bytes of staging memory, of {}: raise TUTTI_CUDA_ARENA",
                staging_of(program), around.staging.bytes);
  }
  const bool in_place = program.method->reads_in_place;
  Builder builder(base);
  const Tables full = add_tables(builder, program.full, around.own_tables);
  Tables last = add_tables(builder, program.last, around.own_tables);
  std::vector<RankState> ranks;
  unsigned char* workspace = around.workspace;
  LaneState* const lanes = add_lanes(builder, program);
  for (uint32_t replica = 0; replica < program.width; ++replica) {
    RankState state;
    if (around.own_tables && replica > 0) last = add_tables(builder, program.last, around.own_tables);
    state.full = with_links(builder, full, program.full, links[replica]);
    state.last = with_links(builder, last, program.last, links[replica]);
    if (!around.own_tables) {  // else one round, whatever there is
      state.rounds = program.rounds_of(replica);
      state.full_rounds = state.rounds - ((program.rounds - 1) % program.width == replica ? 1 : 0);
    }
    state.lane_count = static_cast<uint32_t>(program.last.lanes.size());
    state.versions = kScratchVersions;
    state.scratch_bytes = program.scratch_bytes;
    state.fenced = program.fenced;
    state.watched = is_watched(program);
    state.advance_bytes = program.window_bytes * program.width;
    state.bases[2] = workspace;
    state.out = around.out;
    state.in = around.in;
    unsigned char* const stages =
        in_place ? around.staging.base + replica * stages_of(program) : workspace + scratch_of(program);
    state.stages = add_stages(builder, program, links[replica], stages);
    state.lanes = lanes + size_t{replica} * state.lane_count;
    state.arithmetic = arithmetic;
    state.drains = in_place;
    for (int i = 0; i < 3; ++i) state.shared[i] = nullptr;
    for (uint32_t lane = 0; lane < state.lane_count; ++lane) {
      if (in_place) {
        state.regions = builder.room<link::SharedRegion>(2);
        state.shared[0] = state.regions;
        state.shared[1] = state.regions + 1;
      }
      ranks.push_back(state);
    }
    workspace += workspace_of_replica(program);
  }
  Image image;
  if (around.own_tables) image.firsts = builder.add(firsts_of(program.last));
  image.items = static_cast<uint32_t>(ranks.size());
  image.ranks = builder.add(ranks);
  image.lanes = lanes;
  image.bytes = builder.take();
  return image;
}

}  // namespace tutti::exec::gpu
