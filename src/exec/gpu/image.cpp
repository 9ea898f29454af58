#include "exec/gpu/image.hpp"

#include <algorithm>

#include "base/format.hpp"
#include "exec/gpu/slices.hpp"
#include "exec/method.hpp"
#include "link/ll.hpp"
#include "topo/constants.hpp"

namespace tutti::exec::gpu {
namespace {

constexpr uint32_t kScratchVersions = 4;

uint64_t aligned(uint64_t bytes, uint64_t to = kAlignment) { return (bytes + to - 1) / to * to; }

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
  T* room(size_t count, uint64_t alignment = sizeof(link::Line)) {
    const uint64_t begin = aligned(bytes_.size(), alignment);
    bytes_.resize(begin + count * sizeof(T));  // NOLINT(bugprone-sizeof-expression): T may be a pointer
    return reinterpret_cast<T*>(base_ + begin);
  }
  /// The object that will lie at `at`.
  template <class T>
  T* here(T* at) {
    return reinterpret_cast<T*>(bytes_.data() + (reinterpret_cast<unsigned char*>(at) - base_));
  }
  /// Replaces what will lie at `at` by what another builder has made for there.
  void put(unsigned char* at, const std::vector<unsigned char>& bytes) {
    std::copy(bytes.begin(), bytes.end(), here(at));
  }
  uint64_t size() const { return bytes_.size(); }
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

Tables add_tables(Builder& builder, const WindowProgram& window, bool by_shape) {
  return {.lanes = builder.add(window.lanes),
          .ops = builder.add(by_shape ? window.ops : with_fewer_fences(window)),
          .segments = builder.add(window.segments),
          .sources = builder.add(window.sources),
          .arrivals = builder.add(window.arrivals),
          .outs = builder.add(window.outs)};
}

/// The tables of a lane, for rounds but the last, and for the last.
struct LaneTables {
  Tables full, last;
};
LaneTables add_tables(Builder& builder, const LaneSlice& slice, bool by_shape) {
  return {add_tables(builder, slice.full, by_shape), add_tables(builder, slice.last, by_shape)};
}
uint64_t table_bytes(const LaneSlice& slice, bool by_shape) {
  Builder builder(nullptr);
  add_tables(builder, slice, by_shape);
  return builder.size();
}

/// Where messages are pushed, all that a stage publishes is before the step ends. Elsewhere they lie there until they
/// are read: plans are verified for so many.
uint32_t slots_of(const Program& program) { return program.method->reads_in_place ? link::kFewestSlots : 1; }

/// Those of a lane. `memory`: of the replica's first stage.
Stage* const* add_stages(Builder& builder, const Program& program, const LaneSlice& slice, unsigned char* memory) {
  const uint32_t slots = slots_of(program);
  std::vector<Stage*> stages;
  for (const uint32_t number : slice.stages) {
    const StageNeed& need = program.stages[number];
    uint64_t before = 0;
    for (uint32_t i = 0; i < number; ++i) before += aligned(program.stages[i].slot_bytes) * slots;
    std::vector<uint32_t> outs;
    for (const uint32_t out : need.outs) {
      const auto place = std::find(slice.outs.begin(), slice.outs.end(), out);
      outs.push_back(static_cast<uint32_t>(place - slice.outs.begin()));
    }
    const auto readers = static_cast<uint32_t>(outs.size());
    const Stage stage{.base = memory + before,
                      .slot_bytes = aligned(need.slot_bytes),
                      .slots = slots,
                      .readers = readers,
                      .held = builder.room<uint64_t>(size_t{slots} * readers),
                      .outs = builder.add(outs)};
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

bool runs_straight(const Program& program) {
  const auto in_lines = [](const LinkId& link) { return link.link_lane >= link::kLlLanes; };
  return std::all_of(program.out_links.begin(), program.out_links.end(), in_lines) &&
         std::all_of(program.in_links.begin(), program.in_links.end(), in_lines) && program.width == 1 &&
         program.rounds == 1 && program.last.lanes.size() == 1 &&
         !(program.out_links.empty() && program.in_links.empty());
}

uint64_t workspace_of(const Program& program) { return program.width * workspace_of_replica(program); }

uint64_t staging_of(const Program& program) {
  return program.method->reads_in_place ? program.width * stages_of(program) : 0;
}

namespace {

/// An item at `at`: `rank` with the pointers that lie in it, and its links by number.
std::vector<unsigned char> item_at(unsigned char* at, const Program& program, const LaneSlice& slice, uint32_t lane,
                                   const RankState& rank, const ReplicaLinks& links, uint32_t uses) {
  Builder builder(at);
  auto* const item = builder.room<Item>(1);
  auto* const use = builder.room<LinkUse>(uses);
  auto* const arrivals = builder.room<link::Arrival>(program.max_arrivals);
  auto* const regions = builder.room<link::SharedRegion>(rank.drains ? 2 : 0);
  auto* const outs = builder.room<link::OutLink>(slice.outs.size());
  auto* const ins = builder.room<link::InLink>(slice.ins.size());
  RankState state = rank;
  state.out = outs;
  state.in = ins;
  for (int i = 0; i < 3; ++i) state.shared[i] = nullptr;
  if (rank.drains) {
    state.regions = regions;
    state.shared[0] = regions;
    state.shared[1] = regions + 1;
  }
  LaneState its;
  its.lane = lane;
  its.arrivals = arrivals;
  // Not by the member's name: `at` is null where only the size is wanted.
  its.tables = reinterpret_cast<const Tables*>(reinterpret_cast<uintptr_t>(item) + offsetof(RankState, last));
  if (runs_straight(program)) its.next = rank.last.ops;
  its.bases[2] = rank.bases[2];
  *builder.here(item) = {state, its};
  const auto place = [&](const void* there) {
    return static_cast<uint32_t>(static_cast<const unsigned char*>(there) - at);
  };
  std::vector<LinkUse> used(uses);
  auto next = used.begin();
  for (size_t i = 0; i < slice.outs.size(); ++i) *next++ = {.number = links.outs[slice.outs[i]], .at = place(outs + i)};
  for (size_t i = 0; i < slice.ins.size(); ++i) {
    *next++ = {.number = links.ins[slice.ins[i]] | LinkUse::kIn, .at = place(ins + i)};
  }
  std::copy(used.begin(), used.end(), builder.here(use));
  return builder.take();
}

/// How many bytes each item and each lane's tables get, and how many links.
Items sizes_of(const Program& program, const std::vector<LaneSlice>& slices, bool own_tables) {
  Items sizes{.own_tables = own_tables};
  for (const LaneSlice& slice : slices) {
    sizes.table_bytes = std::max(sizes.table_bytes, static_cast<uint32_t>(aligned(table_bytes(slice, own_tables))));
    sizes.links = std::max(sizes.links, static_cast<uint32_t>(slice.outs.size() + slice.ins.size()));
  }
  RankState state;
  state.drains = program.method->reads_in_place;
  for (const LaneSlice& slice : slices) {
    const ReplicaLinks none{std::vector<uint32_t>(program.out_links.size()),
                            std::vector<uint32_t>(program.in_links.size())};
    const uint64_t bytes = item_at(nullptr, program, slice, 0, state, none, sizes.links).size();
    sizes.bytes = std::max(sizes.bytes, static_cast<uint32_t>(aligned(bytes)));
  }
  return sizes;
}

/// What all lanes of a replica begin with.
RankState replica_state(const Program& program, const Arithmetic& arithmetic, const Surroundings& around,
                        uint32_t replica) {
  RankState state;
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
  state.bases[2] = around.workspace + replica * workspace_of_replica(program);
  state.arithmetic = arithmetic;
  state.drains = program.method->reads_in_place;
  return state;
}

}  // namespace

Image make_image(const Program& program, const std::vector<ReplicaLinks>& links, const Arithmetic& arithmetic,
                 const Surroundings& around, unsigned char* base) {
  check_limits(program);
  if (staging_of(program) > around.staging.bytes) {
    throw_error(Code::Unsupported, "the call's messages need {} bytes of staging memory, of {}: raise TUTTI_CUDA_ARENA",
                staging_of(program), around.staging.bytes);
  }
  const std::vector<LaneSlice> slices = slices_of(program);
  const size_t lanes = slices.size(), count = lanes * program.width;
  Image image{.where = sizes_of(program, slices, around.own_tables), .items = static_cast<uint32_t>(count)};
  Builder builder(base);
  const auto block = [&](uint64_t bytes) { return builder.room<unsigned char>(bytes, kAlignment); };
  image.where.at = block(count * image.where.bytes);
  image.where.tables = block((around.own_tables ? count : lanes) * image.where.table_bytes);
  std::vector<LaneTables> tables;
  for (size_t i = 0; i < (around.own_tables ? count : lanes); ++i) {
    unsigned char* const at = image.where.tables + i * image.where.table_bytes;
    Builder its(at);
    tables.push_back(add_tables(its, slices[i % lanes], around.own_tables));
    builder.put(at, its.take());
  }
  if (is_watched(program)) image.progress = builder.room<LaneState>(count, kAlignment);
  for (uint32_t item = 0; item < count; ++item) {
    const auto lane = static_cast<uint32_t>(item % lanes), replica = static_cast<uint32_t>(item / lanes);
    RankState state = replica_state(program, arithmetic, around, replica);
    unsigned char* const stages = program.method->reads_in_place ? around.staging.base + replica * stages_of(program)
                                                                 : state.bases[2] + scratch_of(program);
    state.stages = add_stages(builder, program, slices[lane], stages);
    if (image.progress != nullptr) state.lanes = image.progress + replica * lanes;
    const LaneTables& its = tables[around.own_tables ? item : lane];
    state.full = its.full;
    state.last = its.last;
    unsigned char* const at = image.where.at + uint64_t{item} * image.where.bytes;
    builder.put(at, item_at(at, program, slices[lane], lane, state, links[replica], image.where.links));
  }
  if (around.own_tables) image.firsts = builder.add(firsts_of(program.last));
  image.bytes = builder.take();
  return image;
}

}  // namespace tutti::exec::gpu
