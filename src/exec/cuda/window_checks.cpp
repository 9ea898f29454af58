// Which calls on windows are refused, before anything is done.
#include <optional>
#include <string>

#include "base/format.hpp"
#include "exec/cuda/allocations.hpp"
#include "exec/cuda/window_call.hpp"
#include "exec/cuda/windows.hpp"

namespace tutti::exec::cuda {
namespace {

using tutti::cuda::driver;
using What = WindowCall::What;

/// Does the driver know this memory of the host, so that copies on streams take it?
bool is_pinned(const void* data) {
  CUmemorytype type{};
  CUpointer_attribute what = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
  void* value = &type;
  return driver().cuPointerGetAttributes(1, &what, &value, reinterpret_cast<CUdeviceptr>(data)) == CUDA_SUCCESS &&
         type == CU_MEMORYTYPE_HOST;
}

}  // namespace

void WindowCalls::refuse_capture(CUstream stream) const {
  auto status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = driver().cuStreamGetCaptureInfo(stream, &status, nullptr, nullptr, nullptr, nullptr);
  if (result == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_NONE) return;
  if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) {
    refuse(Code::InvalidUsage,
           "another stream of this process is being captured in a graph, which work on the default stream would "
           "invalidate: use a stream that was made with cudaStreamNonBlocking, or end the capture before");
  }
  refuse(Code::InvalidUsage,
         "calls on windows cannot be captured in a graph, which would repeat the numbers of their signals");
}

void WindowCalls::check_call(const CudaWindow& window, const WindowCall& call) const {
  if (call.peer == WindowCall::kAllPeers) return;
  const PeerPart& part = window.of(call.peer);
  if (call.what != What::WaitSignal) refuse_if_closed(window, call.peer);  // what it has sent may be here
  const uint64_t bytes = bytes_there(call);
  if (is_use(call) && (call.offset > part.bytes || bytes > part.bytes - call.offset)) {
    throw_error(Code::InvalidArgument,
                "{} bytes at offset {} do not lie in rank {}'s part, of {} bytes, of the window of call {}", bytes,
                call.offset, call.peer, part.bytes, window.number_);
  }
  if (is_put(call)) check_local(call.source, call.bytes, "the source", call);
  if (call.what == What::Get) check_local(call.into, call.bytes, "the target", call);
  if (is_atomic(call)) {
    if ((part.memory + call.offset) % sizeof(uint64_t) != 0) {
      throw_error(Code::InvalidArgument,
                  "the 8 bytes at offset {} of rank {}'s part of the window of call {} do not lie at a multiple of 8",
                  call.offset, call.peer, window.number_);
    }
    if (!part.has_atomics) {
      throw_error(Code::InvalidUsage,
                  "{} makes no atomic steps in the memory of rank {}'s GPU: as far as this process sees, NVLink does "
                  "not join them",
                  device_.name(), call.peer);
    }
    if (call.into != nullptr) check_local(call.into, sizeof(uint64_t), "the word for what was there before", call);
  }
  if (call.what == What::WaitSignal &&
      call.count > kMaxTaken - window.taken_[static_cast<size_t>(call.peer) * kWindowSignals + call.signal]) {
    refuse(Code::InvalidArgument, "so many signals are never sent");
  }
}

/// Memory of any GPU of this process, or of the host: for a call on a stream it is pinned.
void WindowCalls::check_local(const void* data, uint64_t bytes, const char* what, const WindowCall& call) const {
  if (bytes == 0) return;
  if (const std::optional<Allocation> in = allocation_of(data)) {
    const std::string why = why_short(*in, reinterpret_cast<uint64_t>(data), bytes);
    if (!why.empty()) throw_error(Code::InvalidArgument, "{} {}", what, why);
    return;
  }
  if (owns(data)) throw_error(Code::InvalidArgument, "{} lies in memory of a GPU that was freed", what);
  const void* const last = static_cast<const unsigned char*>(data) + bytes - 1;
  const bool pinned = is_pinned(data);
  if (pinned != is_pinned(last)) throw_error(Code::InvalidArgument, "{} is pinned only in part", what);
  if (pinned || call.stream == nullptr) return;
  throw_error(Code::InvalidArgument,
              "{} is ordinary memory of the host, which copies on a stream cannot use: pin it (cudaHostRegister, "
              "cudaMallocHost), or pass no stream",
              what);
}

void WindowCalls::refuse_if_closed(const CudaWindow& window, Rank peer) const {
  const bool is_far = window.of(peer).is_far;
  const bool has_left = is_far && context_.observer->left(peer);
  const auto closed = is_far ? WindowEnd::No : static_cast<WindowEnd>(load(window.of(peer).line->closed));
  if (closed == WindowEnd::No && !has_left) return;
  if (has_left || closed == WindowEnd::Left) throw_error(Code::InvalidUsage, "rank {} has left the communicator", peer);
  throw_error(Code::InvalidUsage, "rank {} has deregistered the window of call {}", peer, window.number_);
}

}  // namespace tutti::exec::cuda
