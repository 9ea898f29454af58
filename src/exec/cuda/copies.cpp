#include "exec/cuda/copies.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <thread>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/limits.hpp"
#include "base/log.hpp"
#include "exec/compile/lower.hpp"
#include "exec/cuda/copy_stream.hpp"
#include "topo/constants.hpp"

namespace tutti::exec::cuda {
namespace {

using tutti::cuda::CopyMemory;
using tutti::cuda::CopyPosition;
using tutti::cuda::kCopySlots;
using tutti::cuda::kTagSum;
using tutti::cuda::PeerWords;
using tutti::cuda::TagWords;

uint32_t load(const uint32_t& word) {
  return std::atomic_ref<uint32_t>(const_cast<uint32_t&>(word)).load(std::memory_order_acquire);
}

CopyPosition read(const CopyPosition& at) { return {load(at.program), load(at.launch), load(at.wait)}; }

uint32_t tag_of(uint64_t tag) { return static_cast<uint32_t>(1 + tag % (kTagSum - 1)); }

/// Why the copy engines cannot run this program; "" if they can.
std::string why_not(const Program& program, Rank ranks) {
  const auto others = static_cast<uint32_t>(ranks - 1);
  const WindowProgram& round = program.last;
  if (round.lanes.size() != 1) return "it has several lanes";
  if (program.scratch_bytes > 0) return "it uses scratch memory";
  if (program.out_links.size() != others || program.in_links.size() != others) {
    return "not every rank sends to every other";
  }
  if (round.outs.size() != others || round.arrivals.size() != others) return "a round has several messages to a rank";
  bool received = false;
  for (const Instruction& op : round.ops) {
    const uint32_t readers = op.outs.end - op.outs.begin;
    received = received || op.arrivals.begin != op.arrivals.end;
    if (op.sources != 1) return "it folds";
    if (readers > 0 && received) return "it sends after it has received";
    if (readers > 1 && readers != others) return "a message goes to some of the ranks";
  }
  return "";
}

/// The waits of a round, in the order in which they are enqueued: for all readers before anything is staged, since
/// another call may have parted the slot in another way.
std::vector<CopyWait> waits_of(const Program& program) {
  std::vector<CopyWait> waits;
  const WindowProgram& round = program.last;
  for (const Instruction& op : round.ops) {
    for (uint32_t i = op.outs.begin; i < op.outs.end; ++i) {
      waits.push_back({Await::Staging, program.out_links[round.outs[i].link].peer, op.step});
    }
  }
  for (const Instruction& op : round.ops) {
    for (uint32_t i = op.arrivals.begin; i < op.arrivals.end; ++i) {
      waits.push_back({Await::Message, program.in_links[round.arrivals[i]].peer, op.step});
    }
  }
  return waits;
}

/// The number of `rank` among the others of `among`.
uint64_t place(Rank rank, Rank among) { return static_cast<uint64_t>(rank < among ? rank : rank - 1); }

/// Writes a call out on a stream.
class Writer {
 public:
  Writer(const CopyExecution& execution, const Binding& binding, CopyMemory& own, Rank rank, CopyStream& stream)
      : execution_(execution), binding_(binding), own_(own), rank_(rank), stream_(stream) {}

  void write(uint32_t launch) {
    const Program& program = execution_.program();
    stream_.write(at(offsetof(CopyPosition, launch)), launch);
    stream_.write(at(offsetof(CopyPosition, wait)), 0);
    stream_.write(at(offsetof(CopyPosition, program)), execution_.waits->number);
    for (uint64_t round = 0; round < program.rounds; ++round) {
      begin_ = program.window_bytes * round;
      slot_ = round % kCopySlots;
      const WindowProgram& window = round + 1 < program.rounds ? program.full : program.last;
      for (const Out& out : window.outs) await_free(program.out_links[out.link].peer);
      for (const Instruction& op : window.ops) write(window, op);
    }
    stream_.write(at(offsetof(CopyPosition, program)), 0);
    stream_.flush();
  }

 private:
  void write(const WindowProgram& window, const Instruction& op) {
    const Program& program = execution_.program();
    const auto reader = [&](uint32_t i) { return program.out_links[window.outs[i].link].peer; };
    const bool sends = op.outs.begin != op.outs.end, receives = op.arrivals.begin != op.arrivals.end;
    const Rank writer = receives ? program.in_links[window.arrivals[op.arrivals.begin]].peer : kNoRank;
    if (receives) await_message(writer);
    const CUdeviceptr to = sends ? staged(own_staging(), rank_, reader(op.outs.begin)) : 0;
    const CUdeviceptr message = receives ? staged(peer(writer).staging, writer, rank_) : 0;
    for (uint32_t i = op.segments.begin; i < op.segments.end; ++i) {
      const Segment& segment = window.segments[i];
      const CUdeviceptr from = address(window.sources[segment.sources], message);
      if (sends) stream_.copy(to + segment.at, from, segment.bytes);
      if (segment.to.base != Base::None) stream_.copy(address(segment.to, 0), from, segment.bytes);
    }
    if (receives) stream_.write(peer(writer).words + offsetof(PeerWords, free) + slot_ * sizeof(uint32_t), 1);
    for (uint32_t i = op.outs.begin; i < op.outs.end; ++i) tell(reader(i));
  }

  void await_free(Rank reader) {
    begin_wait();
    const CUdeviceptr word = own_words(reader) + offsetof(PeerWords, free) + slot_ * sizeof(uint32_t);
    stream_.wait(word, 1);
    stream_.write(word, 0);
  }

  void await_message(Rank writer) {
    begin_wait();
    const CUdeviceptr words = own_words(writer) + arrived();
    stream_.wait(words + offsetof(TagWords, tag), tag());
    stream_.wait(words + offsetof(TagWords, rest), kTagSum - tag());
    stream_.write(words + offsetof(TagWords, tag), 0);
    stream_.write(words + offsetof(TagWords, rest), 0);
  }

  void tell(Rank reader) {
    const CUdeviceptr words = peer(reader).words + arrived();
    stream_.write(words + offsetof(TagWords, tag), tag());
    stream_.write(words + offsetof(TagWords, rest), kTagSum - tag());
  }

  void begin_wait() { stream_.write(at(offsetof(CopyPosition, wait)), ++waits_); }

  uint32_t tag() const { return tag_of(binding_.tag); }
  CUdeviceptr at(size_t offset) const { return reinterpret_cast<CUdeviceptr>(own_.words().base()) + offset; }
  CUdeviceptr own_words(Rank of) const { return at(CopyMemory::offset_of(of)); }
  CUdeviceptr own_staging() const { return reinterpret_cast<CUdeviceptr>(own_.staging().base()); }
  CUdeviceptr arrived() const { return offsetof(PeerWords, arrived) + slot_ * sizeof(TagWords); }
  const tutti::cuda::CopyPeers::Peer& peer(Rank rank) const { return execution_.peers[static_cast<size_t>(rank)]; }

  /// Where, in the staging memory of `writer`, its message to `reader` lies.
  CUdeviceptr staged(CUdeviceptr staging, Rank writer, Rank reader) const {
    return staging + slot_ * Copies::slot_bytes() + (execution_.shared ? 0 : place(reader, writer) * execution_.region);
  }

  CUdeviceptr address(const Ref& ref, CUdeviceptr message) const {
    switch (ref.base) {
      case Base::Input:
        return reinterpret_cast<CUdeviceptr>(binding_.in) + begin_ + ref.offset;
      case Base::Output:
        return reinterpret_cast<CUdeviceptr>(binding_.out) + begin_ + ref.offset;
      default:
        return message + ref.offset;
    }
  }

  const CopyExecution& execution_;
  const Binding& binding_;
  CopyMemory& own_;
  const Rank rank_;
  CopyStream& stream_;
  uint64_t begin_ = 0;  // of this round's part of the buffers
  uint64_t slot_ = 0;   // of this round
  uint32_t waits_ = 0;
};

/// After its communicator's end, graphs may still repeat calls, which must not wait: as long as there are such graphs,
/// a thread lets them go.
void release_for_graphs(const std::shared_ptr<CopyMemory>& memory) {
  constexpr auto kTurn = std::chrono::milliseconds(1);
  while (memory.use_count() > 1) {
    memory->release();
    std::this_thread::sleep_for(kTurn);
  }
}

}  // namespace

Copies::Copies(const DeviceContext& context, const tutti::cuda::Device& device)
    : context_(context), peers_(*context.wireup, device, machine_constants().cuda_copies_staging) {}

Copies::~Copies() {
  if (!peers_.own().is_used()) return;
  release();
  try {
    start_thread([own = peers_.own_memory()] { release_for_graphs(own); }).detach();
  } catch (const std::exception& error) {
    log_warn("cuda: rank {}: a graph that still repeats this communicator's copies would wait for ever: {}", rank(),
             error.what());
  }
}

uint64_t Copies::slot_bytes() { return machine_constants().cuda_copies_staging / kCopySlots; }

std::unique_ptr<CopyExecution> Copies::compile(const plan::RankPlan& plan, const Geometry& geometry) {
  const PeerTraits staged(static_cast<size_t>(ranks()));
  auto made = std::make_unique<CopyExecution>(lower(plan, geometry, staged));
  const Program& program = made->program();
  if (const std::string why = why_not(program, ranks()); !why.empty()) {
    throw_error(Code::Unsupported, "the copy engines cannot run a plan of this form: {}", why);
  }
  const auto others = static_cast<uint64_t>(ranks() - 1);
  const auto& ops = program.last.ops;
  made->shared =
      std::any_of(ops.begin(), ops.end(), [&](const Instruction& op) { return op.outs.end - op.outs.begin == others; });
  constexpr uint64_t kAlignment = 512;
  made->region = made->shared ? slot_bytes() : slot_bytes() / others / kAlignment * kAlignment;
  for (const WindowProgram* round : {&program.full, &program.last}) {
    for (const Instruction& op : round->ops) {
      if (op.outs.begin == op.outs.end || op.bytes <= made->region) continue;
      throw_error(Code::Unsupported, "a message of {} bytes for the copy engines, which have room for {}", op.bytes,
                  made->region);
    }
  }
  const Deadline deadline = Deadline::in(env().init_timeout);
  made->peers.resize(static_cast<size_t>(ranks()));
  for (Rank peer = 0; peer < ranks(); ++peer) {
    if (peer != rank()) made->peers[static_cast<size_t>(peer)] = peers_.peer(peer, deadline);
  }
  made->waits = std::make_shared<CopyWaits>();
  made->waits->rounds = program.rounds;
  made->waits->round = waits_of(program);
  const std::lock_guard lock(mutex_);
  made->waits->number = static_cast<uint32_t>(programs_.size() + 1);
  programs_[made->waits->number] = made->waits;
  return made;
}

void Copies::launch(CopyExecution& execution, const Binding& binding, CUstream stream, uint32_t launch) {
  execution.waits->tag.store(tag_of(binding.tag), std::memory_order_release);
  CopyStream to(stream);
  Writer(execution, binding, peers_.own(), rank(), to).write(launch);
}

/// The program that runs; null: none.
const CopyWaits* Copies::running(const CopyPosition& at) const {
  if (at.program == 0 || at.wait == 0) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto found = programs_.find(at.program);
  return found == programs_.end() ? nullptr : found->second.get();
}

bool Copies::runs() const { return peers_.own().is_used() && load(peers_.own().position().program) != 0; }

uint64_t Copies::progress() const {
  const CopyPosition at = read(peers_.own().position());
  return uint64_t{at.launch} << 32 | at.wait;
}

std::optional<Stall> Copies::wait() const {
  const CopyPosition at = read(peers_.own().position());
  const CopyWaits* const program = running(at);
  if (program == nullptr) return std::nullopt;
  const CopyWait& wait = program->round[(at.wait - 1) % program->round.size()];
  return Stall{.await = wait.await,
               .peer = wait.peer,
               .step = wait.step,
               .round = (at.wait - 1) / program->round.size(),
               .rounds = program->rounds,
               .call = kCopiedCall | at.launch};
}

std::optional<Fault> Copies::wrong() const {
  const std::optional<Stall> stall = wait();
  if (!stall || stall->await != Await::Message) return std::nullopt;
  const CopyWaits* const program = running(read(peers_.own().position()));
  const TagWords& words = peers_.own().of(stall->peer).arrived[stall->round % kCopySlots];
  const uint32_t tag = load(words.tag), rest = load(words.rest);
  const bool is_tag = tag != 0 && tag < kTagSum && tag + rest == kTagSum;
  if (program == nullptr || !is_tag || tag == program->tag.load(std::memory_order_acquire)) return std::nullopt;
  return Fault{.kind = FaultKind::OtherCall, .peer = stall->peer, .step = stall->step, .call = stall->call};
}

void Copies::release() const { peers_.own().release(); }

}  // namespace tutti::exec::cuda
