#include "exec/cuda/cuda_backend.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <mutex>
#include <new>
#include <utility>

#include "base/counted.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "exec/cuda/allocations.hpp"
#include "exec/cuda/kernels.hpp"
#include "exec/gpu/pinned.hpp"
#include "exec/gpu/transfers.hpp"
#include "exec/method.hpp"
#include "exec/wait.hpp"

namespace tutti::exec::cuda {
namespace {

using tutti::cuda::check;
using tutti::cuda::driver;
using tutti::cuda::SharedBuffers;
using tutti::cuda::WithContext;

/// A peer that reads this rank's memory where it is mapped, and whose memory this rank reads.
constexpr link::LinkTraits kReadable{{.mapped = true}, {.mapped = true}};
constexpr double kEndWithin = 2;  // seconds in which kernels notice that they are to end
/// Seconds. Peers' threads map a buffer in milliseconds, unless their drivers wait for kernels: calls do without then.
constexpr double kMappedWithin = 2;

uint64_t load(const uint64_t& word) {
  return std::atomic_ref<uint64_t>(const_cast<uint64_t&>(word)).load(std::memory_order_acquire);
}

}  // namespace

PinnedRecord::PinnedRecord(const gpu::Gpu& gpu) : memory_(gpu::pinned(gpu, sizeof(gpu::HostRecord))) {
  host_ = new (memory_.get()) gpu::HostRecord;
  device_record_ = reinterpret_cast<gpu::HostRecord*>(gpu.device_address(memory_.get()));
}

CudaBackend::CudaBackend(const BackendContext& context)
    : context_(context),
      device_(tutti::cuda::Device::get(context.processor)),
      gpu_(device_),
      record_(gpu_),
      sizes_(tutti::cuda::link_sizes(context.wireup->ranks(), static_cast<uint32_t>(env().max_blocks))),
      transport_(*context.wireup, device_, sizes_, tutti::cuda::staging_for(device_)),
      links_(*this),
      calls_(record_.host(), *context.failed),
      regions_(device_, transport_, *context.wireup, calls_),
      streams_(device_),
      programs_(device_, gpu_, links_, calls_, {transport_.staging(), transport_.staging_bytes()},
                [this] { return runs(); }),
      starts_(device_, static_cast<uint32_t>(env().block_threads)),
      copies_(
          !context.network->has_other_hosts() && context.wireup->ranks() > 1
              ? std::make_unique<Copies>(context, device_, reinterpret_cast<CUdeviceptr>(&record_.device()->counted))
              : nullptr),
      window_waits_(std::make_shared<WindowWaits>(gpu_, record_)),
      stream_waits_(context, copies_.get(), *window_waits_),
      windows_(context, device_, window_waits_, around_windows()),
      watcher_(context, gpu_, record_.host(), &stream_waits_, [this] { close_calls(); }) {
  if (context.network->has_other_hosts()) proxy_.emplace(context, gpu_, record_.host(), sizes_.message);
  counters_ = reinterpret_cast<gpu::Counters*>(programs_.pool()->take(sizeof(gpu::Counters)).at);
  const gpu::Counters zero;
  device_.stream().upload(reinterpret_cast<CUdeviceptr>(counters_), &zero, sizeof zero);
}

CudaBackend::~CudaBackend() {
  regions_.buffers().end();  // its thread writes to memory of the pool
  watcher_.end_kernels();
  try {
    for (const Deadline deadline = Deadline::in(kEndWithin); runs() && !deadline.passed();) nap(100e-6);
    if (has_captured_) close_calls();
  } catch (const Error&) {  // the driver has gone already: the process ends
  }
}

/// Kernels that begin from now on do nothing.
void CudaBackend::close_calls() const {
  const uint64_t yes = 1;
  device_.stream().upload(reinterpret_cast<CUdeviceptr>(&counters_->closed), &yes, sizeof yes);
}

/// Is the peer reached by the proxy alone? Both ends of a link see the same.
bool CudaBackend::is_far(Rank peer) const { return proxy_ && !transport_.probe(peer).ok; }

link::LinkTraits CudaBackend::traits(Rank peer) {
  const link::Access pushed{.push_bytes = sizes_.message};
  if (is_far(peer)) return {pushed, pushed};
  const transports::Capabilities can = transport_.capabilities(peer, {});
  return {can.out, can.in};
}

link::OutLink CudaBackend::connect_out(Rank peer, uint32_t link_lane) {
  if (is_far(peer)) return proxy_->connect_out(peer, link_lane);
  return transport_.connect_out(peer, link_lane, Deadline::in(context_.init_timeout));
}

link::InLink CudaBackend::connect_in(Rank peer, uint32_t link_lane) {
  if (is_far(peer)) return proxy_->connect_in(peer, link_lane);
  link::InLink in = transport_.connect_in(peer, link_lane, Deadline::in(context_.init_timeout));
  in.regions = regions_.of(peer);
  return in;
}

std::unique_ptr<Execution> CudaBackend::compile(const plan::RankPlan& plan, const Geometry& geometry,
                                                const Reduction* reduction) {
  start_held();  // there may be no memory for the program before they have ended
  if (*geometry.method == methods::copy_engine) return copies_->compile(plan, geometry);
  if (*geometry.method == methods::nvls) return multimem_->compile(plan, geometry, reduction);
  PeerTraits traits;
  for (Rank peer = 0; peer < context_.wireup->ranks(); ++peer) {
    traits.push_back(geometry.method->reads_in_place ? kReadable : this->traits(peer));
  }
  auto made = std::make_unique<CudaExecution>(lower(plan, geometry, traits));
  made->placed = programs_.place(made->program(), word_of(geometry.element_bytes), reduction);
  return made;
}

/// Between hosts a transfer has one replica: the proxy's thread passes all of them on. So has a fold that takes
/// messages of other hosts' ranks, and what is sent to it.
std::unique_ptr<Execution> CudaBackend::compile(const Direct& wanted, const Reduction* reduction) {
  start_held();
  const Rank me = context_.wireup->rank(), ranks = context_.wireup->ranks();
  const auto far = [this](Rank peer) { return is_far(peer); };
  const Direct direct = proxy_ ? gpu::with_far_apart(wanted, far) : wanted;
  const bool single = proxy_ && !direct.folds.empty();
  const uint32_t width = sizes_.slots_width;
  const PeerTraits traits(static_cast<size_t>(ranks), this->traits(0));  // without lines they are alike
  auto made = std::make_unique<CudaExecution>(lower_direct(direct, me, ranks, traits));
  made->placed = programs_.transfers(direct, me, traits, reduction, width, far);
  gpu::LanesCall& call = made->placed.call;
  made->parts = gpu::parts_of(direct, [&](const std::vector<Rank>& peers) {
    return single || (!peers.empty() && far(peers.front())) ? 1 : width;
  });
  call.items = call.lanes * gpu::width_of(made->parts);
  if (made->parts.size() > gpu::kNearParts) return made;
  std::copy(made->parts.begin(), made->parts.end(), call.transfers.near);
  made->parts.clear();
  return made;
}

bool CudaBackend::runs() const {
  const gpu::HostRecord& record = record_.host();
  const bool counted = calls_.ended() < calls_.enqueued() || load(record.started) > load(record.ended);
  return (counted || (copies_ != nullptr && copies_->runs())) && device_.stream().failure().empty();
}

/// That captures what is enqueued on the stream; null if none does.
CUgraph CudaBackend::graph_of(CUstream stream) const {
  auto status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUgraph graph = nullptr;
  check(driver().cuStreamGetCaptureInfo(stream, &status, nullptr, &graph, nullptr, nullptr),
        "the stream cannot be used");
  return status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? graph : nullptr;
}

Pending* CudaBackend::enqueue(Execution& execution, const Binding& binding) {
  const WithContext with(device_.context());
  const UserStream on = streams_.get(static_cast<CUstream>(binding.stream));
  const CUgraph graph = graph_of(on.stream);
  const bool captured = graph != nullptr;
  if (starts_.must_start_before(on) || captured != held_is_captured_) start_held();
  held_is_captured_ = captured;
  if (!captured) streams_.follow_last(on);  // a graph's calls are ordered by who launches it
  const bool copied = *execution.program().method == methods::copy_engine;
  const uint64_t items = copied ? static_cast<const CopyExecution&>(execution).items : 1;
  const uint64_t counted = captured ? 0 : calls_.next(std::max<uint64_t>(1, gpu::kMaxCallsAhead / items));
  std::shared_ptr<void> used;
  if (copied) {
    start_held();
    copies_->launch(static_cast<CopyExecution&>(execution), binding, on.stream, ++copied_, counted);
    if (captured) used = copies_->keep();
  } else {
    used = launch_kernel(execution, binding, on, counted);
  }
  if (captured) {
    has_captured_ = true;
    keep_for_graph(graph, used, binding);
    calls_.end_plan();
  } else {
    calls_.add();
    if (!starts_.holds()) streams_.called(on);
  }
  watcher_.called(!captured && !copied);
  if (proxy_) proxy_->called(captured);
  return nullptr;
}

/// `counted`: its number in calls_; 0: it is captured. Returns what a graph keeps for the call.
std::shared_ptr<void> CudaBackend::launch_kernel(Execution& execution, const Binding& binding, const UserStream& on,
                                                 uint64_t counted) {
  if (*execution.program().method == methods::nvls) {
    const auto& made = static_cast<MultimemExecution&>(execution);
    MultimemCall call = made.call;
    call.head = head_of(binding, counted);
    call.in = static_cast<const unsigned char*>(binding.in);
    call.out = static_cast<unsigned char*>(binding.out);
    start_held();
    starts_.start(made.kernel, made.call.layout.items, &call, on);
    return multimem_->keep();
  }
  const auto& made = static_cast<CudaExecution&>(execution);  // compile() makes no others
  std::shared_ptr<void> kept = made.placed.memory;
  gpu::LanesCall call = made.placed.call;
  call.head = head_of(binding, counted);
  call.in = static_cast<unsigned char*>(const_cast<void*>(binding.in));
  call.out = static_cast<unsigned char*>(binding.out);
  call.in_region = *binding.in_region;
  call.out_region = *binding.out_region;
  call.scaled = binding.scale == nullptr ? 0 : binding.scale_by_address ? 2 : 1;
  if (binding.scale != nullptr)
    std::copy_n(static_cast<const unsigned char*>(binding.scale), sizeof call.scale, call.scale);
  programs_.write(on.stream, counted);
  const bool batches = made.placed.batch.function != nullptr && call.transfers.message == 0;
  if (batches && (binding.more_follow || starts_.holds())) {
    starts_.hold(made.placed.kernel, made.placed.batch, call, on);
    if (!binding.more_follow) start_held();
    return kept;
  }
  start_held();
  if (!made.parts.empty()) call.transfers.parts = programs_.parts(made.parts, on.stream, counted, kept);
  starts_.start(made.placed.kernel, call, on);
  return kept;
}

void CudaBackend::start_held() {
  if (!starts_.holds()) return;
  const WithContext with(device_.context());
  const UserStream on = starts_.start_held();
  if (!held_is_captured_) streams_.called(on);
}

gpu::CallHead CudaBackend::head_of(const Binding& binding, uint64_t counted) {
  return {.counters = counters_,
          .record = record_.device(),
          .salt = binding.tag,
          .numbered = binding.numbered ? 1U : 0U,
          .launch = ++launches_,
          .counted = counted};
}

/// What a captured call uses is kept until its graph, and all made from it, are gone. When the communicator is
/// gone, its counters still say so: calls touch nothing else, least of all links.
void CudaBackend::keep_for_graph(CUgraph graph, const std::shared_ptr<void>& memory, const Binding& binding) {
  using Kept = std::array<std::shared_ptr<void>, 5>;
  auto* const kept = new Kept{memory, record_.memory(), programs_.pool()};
  if (binding.in_region != nullptr) (*kept)[3] = regions_.buffers().hold(*binding.in_region);
  if (binding.out_region != nullptr) (*kept)[4] = regions_.buffers().hold(*binding.out_region);
  CUuserObject object = nullptr;
  const auto drop = [](void* gone) { delete static_cast<Kept*>(gone); };
  check(driver().cuUserObjectCreate(&object, kept, drop, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC), "the graph's memory");
  check(driver().cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE), "the graph's memory");
}

std::string CudaBackend::driver_version() const {
  std::string module;
  std::ifstream("/sys/module/nvidia/version") >> module;
  int version = 0;
  driver().cuDriverGetVersion(&version);
  return fmt::format("{}{}CUDA {}.{}", module, module.empty() ? "" : ", ", version / 1000, version % 1000 / 10);
}

std::string CudaBackend::why_not(const void* data, uint64_t bytes, uint64_t unit) const {
  regions_.buffers().withdraw_freed(data, bytes);
  const std::optional<Allocation> in = allocation_of(data);
  const auto begin = reinterpret_cast<uint64_t>(data);
  if (!in) return "is not device memory, or was freed";
  if (in->device != device_.number()) {
    return fmt::format("lies on device {}, but this rank uses {}", in->device, device_.name());
  }
  if (begin % unit != 0) return fmt::format("is not aligned to its elements of {} bytes", unit);
  return why_short(*in, begin, bytes);
}

WindowCalls::Surroundings CudaBackend::around_windows() {
  return {.gpu = gpu_,
          .streams = streams_,
          .calls = calls_,
          .start_held = [this] { start_held(); },
          .called = [this] { watcher_.called(false); },
          .has_atomics = [this](Rank peer) { return has_native_atomics(peer); },
          .before = programs_.pool()->take(sizeof(uint64_t)).at};
}

/// Are atomic operations of this GPU on memory of the peer's one step for all? NVLink alone has them, as far as this
/// process sees both.
bool CudaBackend::has_native_atomics(Rank peer) const {
  const std::vector<std::string> joined = device_.nvlink_peers();
  return std::find(joined.begin(), joined.end(), reports_[static_cast<size_t>(peer)].processor.id) != joined.end();
}

std::unique_ptr<BackendWindow> CudaBackend::make_window(uint64_t number, void* memory, uint64_t bytes) {
  return windows_.make(number, memory, bytes);
}

uint64_t CudaBackend::add_region(const void* data, uint64_t bytes) {
  if (proxy_) throw_error(Code::Unsupported, "the ranks are of several hosts");
  if (!reads_in_place()) return 0;
  const Deadline deadline = Deadline::in(kMappedWithin);
  const uint64_t number = regions_.buffers().offer(data, bytes, SharedBuffers::For::User, deadline);
  if (number != 0) regions_.buffers().wait(number, deadline, [this] { return is_stopped(); });
  return number;
}

bool CudaBackend::add_captured(void* stream, std::span<const Extent> memory) {
  if (!env().graph_register || !reads_in_place()) return false;
  const WithContext with(device_.context());
  if (graph_of(static_cast<CUstream>(stream)) == nullptr) return false;
  bool added = false;
  for (const Extent& one : memory) added = add_for_graphs(one) || added;
  return added;
}

/// The allocations that hold it: later calls with other parts of them find them added. What peers cannot read is not
/// offered again, and after peers have once let this rank wait, it does not wait for a while: many captured calls would
/// take long.
bool CudaBackend::add_for_graphs(const Extent& memory) {
  constexpr size_t kMaxRefused = 4096;  // that are remembered
  constexpr double kNoWaitFor = 10;     // seconds
  const uint64_t allocation = tutti::cuda::allocation_number(memory.data);
  if (refused_allocations_.count(allocation) != 0) return false;
  try {
    const Deadline deadline = Deadline::in(kMappedWithin);
    const uint64_t number = regions_.buffers().offer(memory.data, memory.bytes, SharedBuffers::For::Graphs, deadline);
    const Deadline until = waits_again_.passed() ? deadline : Deadline::in(0);
    const bool added = number != 0 && regions_.buffers().wait(number, until, [this] { return is_stopped(); });
    if (!added && waits_again_.passed()) waits_again_ = Deadline::in(kNoWaitFor);
    return added;
  } catch (const std::exception& error) {
    if (is_stopped()) throw;
    if (refused_allocations_.size() >= kMaxRefused) refused_allocations_.clear();
    refused_allocations_.insert(allocation);
    log_info("rank {}: memory of a captured call is not read in place: {}", context_.wireup->rank(), error.what());
    return false;
  }
}

void CudaBackend::copy(void* to, const void* from, uint64_t bytes, void* stream) {
  start_held();
  const WithContext with(device_.context());
  check(driver().cuMemcpyDtoDAsync(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from), bytes,
                                   static_cast<CUstream>(stream)),
        "memory of the GPU cannot be copied");
}

void CudaBackend::order(void* before, void* after) {
  start_held();
  const WithContext with(device_.context());
  streams_.order(static_cast<CUstream>(before), static_cast<CUstream>(after));
}

void CudaBackend::check_stream(void* handle) {
  const auto stream = static_cast<CUstream>(handle);
  const WithContext with(device_.context());
  streams_.check(stream);
  auto status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = driver().cuStreamGetCaptureInfo(stream, &status, nullptr, nullptr, nullptr, nullptr);
  if (result != CUDA_SUCCESS || status == CU_STREAM_CAPTURE_STATUS_INVALIDATED) {
    throw_error(Code::InvalidUsage, "{}", kSpoiltCapture);
  }
}

uint64_t CudaBackend::finish(double seconds) {
  const gpu::HostRecord& record = record_.host();
  const Deadline deadline = Deadline::in(seconds);
  regions_.buffers().leave();
  while (runs() && !deadline.passed()) {
    if (context_.failed->load(std::memory_order_acquire) != 0) watcher_.end_kernels();
    nap(100e-6);
  }
  // A peer may still wait for what ended calls have sent, and nobody relays it when this rank has left.
  while (proxy_ && !proxy_->flushed() && !deadline.passed()) nap(100e-6);
  while (!is_stopped() && !windows_.is_flushed() && !deadline.passed()) nap(100e-6);
  watcher_.poll_again(deadline);  // the last kernel may have reported a fault
  return load(record.collectives);
}

}  // namespace tutti::exec::cuda
