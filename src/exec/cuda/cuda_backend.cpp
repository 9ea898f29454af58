#include "exec/cuda/cuda_backend.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <mutex>
#include <new>
#include <utility>

#include "base/env.hpp"
#include "base/format.hpp"
#include "exec/cuda/allocations.hpp"
#include "exec/cuda/kernels.hpp"
#include "exec/gpu/pinned.hpp"
#include "exec/method.hpp"
#include "exec/wait.hpp"

namespace tutti::exec::cuda {
namespace {

using tutti::cuda::check;
using tutti::cuda::driver;
using tutti::cuda::WithContext;

constexpr size_t kMaxLinks = 4096;  // in each direction
constexpr double kEndWithin = 2;    // seconds in which kernels notice that they are to end

uint64_t load(const uint64_t& word) {
  return std::atomic_ref<uint64_t>(const_cast<uint64_t&>(word)).load(std::memory_order_acquire);
}

template <class T>
T* at(const Pool::Block& block) {
  return reinterpret_cast<T*>(block.at);
}

}  // namespace

PinnedRecord::PinnedRecord(const gpu::Gpu& gpu) : memory_(gpu::pinned(gpu, sizeof(gpu::HostRecord))) {
  host_ = new (memory_.get()) gpu::HostRecord;
  device_record_ = reinterpret_cast<gpu::HostRecord*>(gpu.device_address(memory_.get()));
}

struct CudaBackend::DeferredFree {
  std::mutex mutex;
  std::vector<Pool::Block> blocks;
};

CudaBackend::CudaBackend(const BackendContext& context)
    : context_(context),
      device_(tutti::cuda::Device::get(context.processor)),
      gpu_(device_),
      record_(gpu_),
      pool_(std::make_shared<Pool>(device_)),
      deferred_free_(std::make_shared<DeferredFree>()),
      sizes_(tutti::cuda::link_sizes(context.wireup->ranks(), static_cast<uint32_t>(env().max_blocks))),
      transport_(*context.wireup, device_, sizes_),
      links_(*this),
      copies_(!context.network->has_other_hosts() && context.wireup->ranks() > 1
                  ? std::make_unique<Copies>(context, device_)
                  : nullptr),
      watcher_(context, gpu_, record_.host(), copies_.get()) {
  if (context.network->has_other_hosts()) proxy_.emplace(context, gpu_, record_.host(), sizes_.message);
  load_kernels(device_);
  threads_ = static_cast<uint32_t>(env().block_threads);
  resident_ = cuda::resident_blocks(device_, threads_);
  if (resident_ == 0) throw_error(Code::Unsupported, "{} runs no block of {} threads", device_.name(), threads_);
  out_ = at<link::OutLink>(pool_->take(kMaxLinks * sizeof(link::OutLink)));
  in_ = at<link::InLink>(pool_->take(kMaxLinks * sizeof(link::InLink)));
  counters_ = at<gpu::Counters>(pool_->take(sizeof(gpu::Counters)));
  const gpu::Counters zero;
  device_.stream().upload(reinterpret_cast<CUdeviceptr>(counters_), &zero, sizeof zero);
  const WithContext with(device_.context());
  check(driver().cuEventCreate(&last_, CU_EVENT_DISABLE_TIMING), "an event cannot be made");
}

CudaBackend::~CudaBackend() {
  watcher_.end_kernels();
  try {
    for (const Deadline deadline = Deadline::in(kEndWithin); runs() && !deadline.passed();) nap(100e-6);
    const WithContext with(device_.context());
    driver().cuEventDestroy(last_);
  } catch (const Error&) {  // the driver has gone already: the process ends
  }
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
  return transport_.connect_in(peer, link_lane, Deadline::in(context_.init_timeout));
}

std::unique_ptr<Execution> CudaBackend::compile(const plan::RankPlan& plan, const Geometry& geometry,
                                                const Reduction* reduction) {
  if (*geometry.method == methods::copy_engine) return copies_->compile(plan, geometry);
  if (*geometry.method == methods::nvls) return multimem_->compile(plan, geometry, *reduction, max_blocks_);
  PeerTraits traits;
  for (Rank peer = 0; peer < context_.wireup->ranks(); ++peer) traits.push_back(this->traits(peer));
  return place(lower(plan, geometry, traits), word_of(geometry.element_bytes), reduction);
}

std::unique_ptr<Execution> CudaBackend::compile(const Direct& direct, const Reduction* reduction) {
  const transports::Wireup& wireup = *context_.wireup;
  const PeerTraits traits(static_cast<size_t>(wireup.ranks()), this->traits(0));  // without lines they are alike
  return place(lower_direct(direct, wireup.rank(), wireup.ranks(), traits), word_of(1), reduction);
}

/// Connects the program's links and puts it into the memory of the GPU.
std::unique_ptr<Execution> CudaBackend::place(Program program, const std::string& type, const Reduction* reduction) {
  const std::vector<gpu::ReplicaLinks> links = gpu::connect_links(program, links_);
  upload_links();
  Arithmetic arithmetic;
  if (reduction != nullptr) {
    arithmetic = {.op = reduction->op,
                  .element_bytes = static_cast<uint32_t>(size_of(reduction->type)),
                  .divide_by = reduction->divide_by,
                  .round_each = reduction->round_each};
  }
  const gpu::Surroundings around{.out = out_, .in = in_, .workspace = workspace_for(program), .threads = threads_};
  const uint64_t bytes = gpu::make_image(program, links, arithmetic, around, nullptr).bytes.size();
  reuse_memory();
  const Pool::Block block = pool_->take(bytes);
  const gpu::Image image = gpu::make_image(program, links, arithmetic, around, at<unsigned char>(block));
  upload_later(block.at, image.bytes.data(), image.bytes.size());
  auto made = std::make_unique<CudaExecution>(std::move(program));
  made->call = {.head = {},
                .ranks = image.ranks,
                .states = image.lanes,
                .items = image.items,
                .lanes = static_cast<uint32_t>(made->program().last.lanes.size()),
                .window_bytes = made->program().window_bytes};
  made->kernel = lanes_kernel(device_, reduction != nullptr ? kernel_type(*reduction) : type, kind_of(made->program()));
  made->blocks = std::clamp(image.items, 1U, max_blocks_);
  made->memory = std::shared_ptr<void>(nullptr, [freed = deferred_free_, pool = pool_, block](void*) {
    const std::lock_guard lock(freed->mutex);
    freed->blocks.push_back(block);
  });
  return made;
}

/// When nothing runs, what executions have left can be used again.
void CudaBackend::reuse_memory() {
  const std::lock_guard lock(deferred_free_->mutex);
  if ((deferred_free_->blocks.empty() && under_way_.empty()) || runs()) return;
  under_way_.clear();
  for (const Pool::Block& block : deferred_free_->blocks) pool_->give(block);
  deferred_free_->blocks.clear();
}

bool CudaBackend::runs() const {
  const WithContext with(device_.context());
  const gpu::HostRecord& record = record_.host();
  const CUresult last = driver().cuEventQuery(last_);
  if (last != CUDA_SUCCESS) return last == CUDA_ERROR_NOT_READY;  // else the device has failed: nothing runs there
  return load(record.started) > load(record.ended) || (copies_ != nullptr && copies_->runs());
}

/// One workspace serves all programs, since calls follow each other. Older, smaller ones stay: graphs may use them.
unsigned char* CudaBackend::workspace_for(const Program& program) {
  const uint64_t bytes = gpu::workspace_of(program);
  if (workspace_.bytes < bytes) workspace_ = pool_->take(std::max(bytes, 2 * workspace_.bytes));
  return at<unsigned char>(workspace_);
}

void CudaBackend::upload_links() {
  const auto upload = [this](auto* there, const auto& links, size_t& uploaded) {
    if (links.size() > kMaxLinks) throw_error(Code::Unsupported, "more than {} links between GPUs", kMaxLinks);
    if (links.size() == uploaded) return;
    upload_later(reinterpret_cast<CUdeviceptr>(there + uploaded), links.data() + uploaded,
                 (links.size() - uploaded) * sizeof *there);
    uploaded = links.size();
  };
  upload(out_, links_.outs(), outs_there_);
  upload(in_, links_.ins(), ins_there_);
}

/// Before the next launch.
void CudaBackend::upload_later(CUdeviceptr to, const void* from, uint64_t bytes) {
  const auto copy = gpu::pinned(gpu_, bytes);
  std::memcpy(copy.get(), from, bytes);
  pending_.push_back({to, copy, bytes});
}

/// On the call's own stream: on another one it could wait, in a hardware queue, behind a kernel that waits for this
/// call. But a graph must not repeat it.
void CudaBackend::upload_pending(CUstream stream, bool captured) {
  for (const Upload& upload : pending_) {
    if (captured) {
      device_.stream().upload(upload.to, upload.from.get(), upload.bytes);
    } else {
      check(driver().cuMemcpyHtoDAsync(upload.to, upload.from.get(), upload.bytes, stream),
            "memory of the GPU cannot be written");
      under_way_.push_back(upload.from);
    }
  }
  pending_.clear();
}

Pending* CudaBackend::enqueue(Execution& execution, const Binding& binding) {
  const WithContext with(device_.context());
  const auto stream = static_cast<CUstream>(binding.stream);
  auto status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUgraph graph = nullptr;
  check(driver().cuStreamGetCaptureInfo(stream, &status, nullptr, &graph, nullptr, nullptr, nullptr),
        "the stream cannot be used");
  const bool captured = status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
  order_after_last(stream, captured);
  const bool copied = *execution.program().method == methods::copy_engine;
  std::shared_ptr<void> used;
  if (copied) {
    copies_->launch(static_cast<CopyExecution&>(execution), binding, stream, ++copied_);
    if (captured) used = copies_->keep();
  } else {
    used = launch_kernel(execution, binding, stream, captured);
  }
  if (captured) {
    has_captured_ = true;
    keep_for_graph(graph, used);
  } else {
    check(driver().cuEventRecord(last_, stream), "an event cannot be recorded");
    last_stream_ = stream;
    has_last_ = true;
  }
  watcher_.called(!captured && !copied);
  if (proxy_) proxy_->called(captured);
  return nullptr;
}

/// What a graph keeps for the call.
std::shared_ptr<void> CudaBackend::launch_kernel(Execution& execution, const Binding& binding, CUstream stream,
                                                 bool captured) {
  if (*execution.program().method == methods::nvls) {
    const auto& made = static_cast<MultimemExecution&>(execution);
    MultimemCall call = made.call;
    call.head = head_of(binding);
    call.in = static_cast<const unsigned char*>(binding.in);
    call.out = static_cast<unsigned char*>(binding.out);
    start(made.kernel, made.blocks, &call, stream);
    return multimem_->keep();
  }
  const auto& made = static_cast<CudaExecution&>(execution);  // compile() makes no others
  gpu::LanesCall call = made.call;
  call.head = head_of(binding);
  call.in = static_cast<unsigned char*>(const_cast<void*>(binding.in));
  call.out = static_cast<unsigned char*>(binding.out);
  call.scaled = binding.scale == nullptr ? 0 : binding.scale_by_address ? 2 : 1;
  if (binding.scale != nullptr)
    std::copy_n(static_cast<const unsigned char*>(binding.scale), sizeof call.scale, call.scale);
  upload_pending(stream, captured);
  start(made.kernel, made.blocks, &call, stream);
  return made.memory;
}

gpu::CallHead CudaBackend::head_of(const Binding& binding) {
  return {.counters = counters_,
          .record = record_.device(),
          .salt = binding.tag,
          .numbered = binding.numbered ? 1U : 0U,
          .launch = ++launches_};
}

void CudaBackend::start(CUfunction kernel, uint32_t blocks, void* parameter, CUstream stream) {
  void* parameters[] = {parameter};
  const CUresult result = driver().cuLaunchKernel(kernel, blocks, 1, 1, threads_, 1, 1, 0, stream, parameters, nullptr);
  if (result == CUDA_SUCCESS) return;
  // After a fault every use of the device gives the fault's error: a launch may see it before the watcher does.
  const bool device_failed = driver().cuStreamQuery(stream) == result;
  check(result, device_failed ? fmt::format("{} has failed", device_.name()).c_str() : "the kernel cannot be launched");
}

/// Calls on several streams run in the order in which they were made. A graph's calls are ordered by who launches it.
void CudaBackend::order_after_last(CUstream stream, bool captured) {
  if (captured || !has_last_ || stream == last_stream_) return;
  check(driver().cuStreamWaitEvent(stream, last_, CU_EVENT_WAIT_DEFAULT), "the stream cannot wait for another");
}

/// What a captured call uses is kept until its graph, and all made from it, are gone. When the communicator is
/// gone, its record still says that calls must end: they touch nothing else, least of all links.
void CudaBackend::keep_for_graph(CUgraph graph, const std::shared_ptr<void>& memory) {
  using Kept = std::pair<std::shared_ptr<void>, std::shared_ptr<unsigned char>>;
  auto* const kept = new Kept(memory, record_.memory());
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
  const std::optional<Allocation> in = allocation_of(data);
  const auto begin = reinterpret_cast<uint64_t>(data);
  if (!in) return "is not device memory, or was freed";
  if (in->device != device_.number()) {
    return fmt::format("lies on device {}, but this rank uses {}", in->device, device_.name());
  }
  if (begin % unit != 0) return fmt::format("is not aligned to its elements of {} bytes", unit);
  const uint64_t left = in->bytes - (begin - in->begin);
  if (bytes <= left) return "";
  return fmt::format("has {} bytes, and its allocation ends after {}", bytes, left);
}

void CudaBackend::copy(void* to, const void* from, uint64_t bytes, void* stream) {
  const WithContext with(device_.context());
  check(driver().cuMemcpyDtoDAsync(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from), bytes,
                                   static_cast<CUstream>(stream)),
        "memory of the GPU cannot be copied");
}

void CudaBackend::order(void* before, void* after) {
  const WithContext with(device_.context());
  CUevent event = nullptr;
  check(driver().cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "an event cannot be made");
  const CUresult recorded = driver().cuEventRecord(event, static_cast<CUstream>(before));
  const CUresult waits = driver().cuStreamWaitEvent(static_cast<CUstream>(after), event, CU_EVENT_WAIT_DEFAULT);
  driver().cuEventDestroy(event);  // the driver keeps it until it is recorded
  check(recorded, "an event cannot be recorded");
  check(waits, "the stream cannot wait for another");
}

void CudaBackend::check_stream(void* handle) {
  const auto stream = static_cast<CUstream>(handle);
  const WithContext with(device_.context());
  CUcontext context = nullptr;
  auto status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUresult result = driver().cuStreamGetCtx(stream, &context);
  if (result != CUDA_SUCCESS) {
    throw_error(Code::InvalidArgument, "the stream is not a stream of CUDA, or was destroyed: {}",
                driver().describe(result));
  }
  if (context != device_.context()) {
    throw_error(Code::InvalidArgument, "the stream is not one of {}, which this rank uses", device_.name());
  }
  result = driver().cuStreamGetCaptureInfo(stream, &status, nullptr, nullptr, nullptr, nullptr, nullptr);
  if (result != CUDA_SUCCESS || status == CU_STREAM_CAPTURE_STATUS_INVALIDATED) {
    throw_error(Code::InvalidUsage, "the stream's capture was invalidated by an earlier call that cannot be captured");
  }
}

uint64_t CudaBackend::finish(double seconds) {
  const gpu::HostRecord& record = record_.host();
  const Deadline deadline = Deadline::in(seconds);
  while (launches_ + copied_ > 0 && runs() && !deadline.passed()) {
    if (context_.failed->load(std::memory_order_acquire) != 0) watcher_.end_kernels();
    nap(100e-6);
  }
  // A peer may still wait for what ended calls have sent, and nobody relays it when this rank has left.
  while (proxy_ && !proxy_->flushed() && !deadline.passed()) nap(100e-6);
  watcher_.poll_again(deadline);  // the last kernel may have reported a fault
  return load(record.collectives);
}

}  // namespace tutti::exec::cuda
