#include "exec/cuda/launches.hpp"

#include <algorithm>

#include "base/counted.hpp"
#include "base/format.hpp"

namespace tutti::exec::cuda {

using tutti::cuda::check;
using tutti::cuda::driver;

namespace {

/// Has the blocks run the call's items in shared memory, if those of a block fit there.
void choose_memory(gpu::LanesCall& call, uint32_t blocks) {
  const uint64_t most = (call.items + blocks - 1) / blocks;
  call.in_shared = most * (uint64_t{call.image.bytes} + call.image.table_bytes) <= gpu::kSharedBytes;
}

}  // namespace

Launches::Launches(const tutti::cuda::Device& device, uint32_t threads) : device_(device), threads_(threads) {
  load_kernels(device_);
  resident_ = resident_blocks(device_, threads_);
  if (resident_ == 0) throw_error(Code::Unsupported, "{} runs no block of {} threads", device_.name(), threads_);
  held_.reserve(gpu::kMaxBatch);
}

void Launches::share(uint32_t ranks, uint32_t max_blocks) {
  sharers_ = ranks;
  max_blocks_ = std::clamp(resident_ / ranks, 1U, max_blocks);
}

/// So many blocks run at the same time, as they wait for each other: of a green context only some.
uint32_t Launches::blocks_for(uint32_t items, const UserStream& on) const {
  const uint32_t most = std::clamp(items, 1U, max_blocks_);
  if (on.multiprocessors == 0) return most;
  const uint64_t all = static_cast<uint64_t>(device_.multiprocessors()) * sharers_;
  const uint64_t fit = uint64_t{resident_} * on.multiprocessors / all;
  if (fit == 0) {
    throw_error(Code::Unsupported,
                "the stream's green context has {}, on which a block of {} threads for each of {} does not fit",
                counted(on.multiprocessors, "multiprocessor"), threads_, counted(sharers_, "rank"));
  }
  return static_cast<uint32_t>(std::min<uint64_t>(most, fit));
}

void Launches::start(const LoadedKernel& kernel, uint32_t items, void* parameter, const UserStream& on) {
  launch(kernel, {.blocks = blocks_for(items, on), .threads = threads_, .shared = 0}, parameter, on);
}

void Launches::start(const LoadedKernel& kernel, gpu::LanesCall& call, const UserStream& on) {
  const Grid grid{.blocks = blocks_for(call.items, on), .threads = threads_for(call)};
  choose_memory(call, grid.blocks);
  launch(kernel, grid, &call, on);
}

uint32_t Launches::threads_for(const gpu::LanesCall& call) const {
  return call.threads == 0 ? threads_ : std::min<uint32_t>(threads_, call.threads);
}

void Launches::launch(const LoadedKernel& kernel, const Grid& grid, void* parameter, const UserStream& on) {
  void* parameters[] = {parameter};
  const CUfunction function = on.multiprocessors == 0 ? kernel.function : kernel.of_any_context();
  const CUresult result = driver().cuLaunchKernel(function, grid.blocks, 1, 1, grid.threads, 1, 1, grid.shared,
                                                  on.stream, parameters, nullptr);
  if (result == CUDA_SUCCESS) return;
  // After a fault every use of the device gives the fault's error: a launch may see it before the watcher does.
  const bool device_failed = driver().cuStreamQuery(on.stream) == result;
  check(result, device_failed ? fmt::format("{} has failed", device_.name()).c_str() : "the kernel cannot be launched");
}

void Launches::hold(const LoadedKernel& kernel, const LoadedKernel& batch, const gpu::LanesCall& call,
                    const UserStream& on) {
  held_.push_back({kernel, batch, call});
  held_on_ = on;
}

bool Launches::must_start_before(const UserStream& on) const {
  return !held_.empty() && (is_full() || on.stream != held_on_.stream || on.context != held_on_.context);
}

UserStream Launches::start_held() {
  for (size_t first = 0, end = 0; first < held_.size(); first = end) {
    const Held& one = held_[first];
    uint32_t items = 0;
    batch_->count = 0;
    for (end = first; end < held_.size() && held_[end].batch.function == one.batch.function; ++end) {
      batch_->calls[batch_->count++] = held_[end].call;
      items = std::max(items, held_[end].call.items);
    }
    try {
      if (batch_->count == 1) {
        start(one.kernel, held_[first].call, held_on_);
      } else {
        Grid grid{.blocks = blocks_for(items, held_on_)};
        for (uint32_t i = 0; i < batch_->count; ++i) {
          choose_memory(batch_->calls[i], grid.blocks);
          grid.threads = std::max(grid.threads, threads_for(batch_->calls[i]));
        }
        launch(one.batch, grid, batch_.get(), held_on_);
      }
    } catch (...) {
      held_.clear();
      throw;
    }
  }
  held_.clear();
  return held_on_;
}

}  // namespace tutti::exec::cuda
