#include "exec/cuda/copies.hpp"

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
using tutti::cuda::kTagSum;
using tutti::cuda::PeerWords;
using tutti::cuda::TagWords;

uint32_t load(const uint32_t& word) {
  return std::atomic_ref<uint32_t>(const_cast<uint32_t&>(word)).load(std::memory_order_acquire);
}

CopyPosition read(const CopyPosition& at) { return {load(at.program), load(at.launch), load(at.wait)}; }

uint32_t tag_of(uint64_t tag) { return static_cast<uint32_t>(1 + tag % (kTagSum - 1)); }

/// The waits of a round; every round has the same.
std::vector<CopyWait> waits_of(const Program& program, const CopyLayout& layout) {
  std::vector<CopyWait> waits;
  for (const CopyItem& item : copy_items(program, layout, program.rounds - 1)) {
    if (item.kind == CopyItem::Kind::AwaitFree) waits.push_back({Await::Staging, item.peer, item.step});
    if (item.kind == CopyItem::Kind::AwaitMessage) waits.push_back({Await::Message, item.peer, item.step});
  }
  return waits;
}

/// Writes a call out on a stream.
class Writer {
 public:
  Writer(const CopyExecution& execution, const Binding& binding, CopyMemory& own, CopyStream& stream)
      : execution_(execution), binding_(binding), own_(own), stream_(stream) {}

  /// `counted`: a word, and what it becomes at the call's end; 0: nothing.
  void write(uint32_t launch, CUdeviceptr word, uint64_t counted) {
    const Program& program = execution_.program();
    stream_.write(at(offsetof(CopyPosition, launch)), launch);
    stream_.write(at(offsetof(CopyPosition, wait)), 0);
    stream_.write(at(offsetof(CopyPosition, program)), execution_.waits->number);
    for (uint64_t round = 0; round < program.rounds; ++round) {
      for (const CopyItem& item : copy_items(program, execution_.layout, round)) write(item);
    }
    stream_.write(at(offsetof(CopyPosition, program)), 0);
    if (counted != 0) stream_.write_long(word, counted);
    stream_.flush();
  }

 private:
  void write(const CopyItem& item) {
    switch (item.kind) {
      case CopyItem::Kind::AwaitFree:
        return await_free(own_words(item.peer) + free(item));
      case CopyItem::Kind::AwaitMessage:
        return await_message(own_words(item.peer) + arrived(item));
      case CopyItem::Kind::Stage:
        return stream_.copy(own_staging() + item.staged, address(item.from), item.bytes);
      case CopyItem::Kind::Store: {
        const bool comes = item.from.base == Base::Message;
        return stream_.copy(address(item.to), comes ? peer(item.peer).staging + item.staged : address(item.from),
                            item.bytes);
      }
      case CopyItem::Kind::TellFree:
        return stream_.write(peer(item.peer).words + free(item), 1);
      case CopyItem::Kind::TellMessage:
        return tell(peer(item.peer).words + arrived(item));
    }
  }

  void await_free(CUdeviceptr word) {
    begin_wait();
    stream_.wait(word, 1);
    stream_.write(word, 0);
  }

  void await_message(CUdeviceptr words) {
    begin_wait();
    stream_.wait(words + offsetof(TagWords, tag), tag());
    stream_.wait(words + offsetof(TagWords, rest), kTagSum - tag());
    stream_.write(words + offsetof(TagWords, tag), 0);
    stream_.write(words + offsetof(TagWords, rest), 0);
  }

  void tell(CUdeviceptr words) {
    stream_.write(words + offsetof(TagWords, tag), tag());
    stream_.write(words + offsetof(TagWords, rest), kTagSum - tag());
  }

  void begin_wait() { stream_.write(at(offsetof(CopyPosition, wait)), ++waits_); }

  uint32_t tag() const { return tag_of(binding_.tag); }
  CUdeviceptr at(size_t offset) const { return reinterpret_cast<CUdeviceptr>(own_.words().base()) + offset; }
  CUdeviceptr own_words(Rank of) const { return at(CopyMemory::offset_of(of)); }
  CUdeviceptr own_staging() const { return reinterpret_cast<CUdeviceptr>(own_.staging().base()); }
  static CUdeviceptr free(const CopyItem& item) { return offsetof(PeerWords, free) + item.slot * sizeof(uint32_t); }
  static CUdeviceptr arrived(const CopyItem& item) {
    return offsetof(PeerWords, arrived) + item.slot * sizeof(TagWords);
  }
  const tutti::cuda::CopyPeers::Peer& peer(Rank rank) const { return execution_.peers[static_cast<size_t>(rank)]; }
  CUdeviceptr address(const Ref& ref) const {
    return reinterpret_cast<CUdeviceptr>(ref.base == Base::Input ? binding_.in : binding_.out) + ref.offset;
  }

  const CopyExecution& execution_;
  const Binding& binding_;
  CopyMemory& own_;
  CopyStream& stream_;
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

Copies::Copies(const BackendContext& context, const tutti::cuda::Device& device, CUdeviceptr counted)
    : context_(context), peers_(*context.wireup, device, machine_constants().cuda_copies_staging), counted_(counted) {}

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

uint64_t Copies::slot_bytes() { return machine_constants().cuda_copies_staging / link::kCopySlots; }

void Copies::meet(Deadline deadline) {
  peers_.own().staging();
  peers_.own().words();
  for (Rank peer = 0; peer < ranks(); ++peer) {
    if (peer != rank()) peers_.peer(peer, deadline);
  }
}

std::unique_ptr<CopyExecution> Copies::compile(const plan::RankPlan& plan, const Geometry& geometry) {
  const PeerTraits staged(static_cast<size_t>(ranks()));
  auto made = std::make_unique<CopyExecution>(lower(plan, geometry, staged));
  const Program& program = made->program();
  made->layout = copy_layout(program, rank(), ranks(), slot_bytes());
  const Deadline deadline = Deadline::in(env().init_timeout);
  made->peers.resize(static_cast<size_t>(ranks()));
  for (Rank peer = 0; peer < ranks(); ++peer) {
    if (peer != rank()) made->peers[static_cast<size_t>(peer)] = peers_.peer(peer, deadline);
  }
  made->waits = std::make_shared<CopyWaits>();
  made->waits->rounds = program.rounds;
  made->waits->round = waits_of(program, made->layout);
  made->items = copy_items(program, made->layout, program.rounds - 1).size() * program.rounds;
  const std::lock_guard lock(mutex_);
  made->waits->number = static_cast<uint32_t>(programs_.size() + 1);
  programs_[made->waits->number] = made->waits;
  return made;
}

void Copies::launch(CopyExecution& execution, const Binding& binding, CUstream stream, uint32_t launch,
                    uint64_t counted) {
  execution.waits->tag.store(tag_of(binding.tag), std::memory_order_release);
  CopyStream to(stream);
  Writer(execution, binding, peers_.own(), to).write(launch, counted_, counted);
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
               .call = kCountedApart | at.launch};
}

std::optional<Fault> Copies::wrong() const {
  const std::optional<Stall> stall = wait();
  if (!stall || stall->await != Await::Message) return std::nullopt;
  const CopyWaits* const program = running(read(peers_.own().position()));
  const TagWords& words = peers_.own().of(stall->peer).arrived[stall->round % link::kCopySlots];
  const uint32_t tag = load(words.tag), rest = load(words.rest);
  const bool is_tag = tag != 0 && tag < kTagSum && tag + rest == kTagSum;
  if (program == nullptr || !is_tag || tag == program->tag.load(std::memory_order_acquire)) return std::nullopt;
  return Fault{.kind = FaultKind::OtherCall, .peer = stall->peer, .step = stall->step, .call = stall->call};
}

void Copies::release() const { peers_.own().release(); }

}  // namespace tutti::exec::cuda
