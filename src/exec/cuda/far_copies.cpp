#include "exec/cuda/far_copies.hpp"

#include "exec/cuda/window_atomic.hpp"
#include "tutti/error.hpp"

namespace tutti::exec::cuda {
namespace {

using tutti::cuda::check;
using tutti::cuda::driver;
using tutti::cuda::WithContext;

/// Of the greatest priority: so it shares no hardware queue with the user's streams, which wait for what it does.
CUstream make_stream(const tutti::cuda::Device& device) {
  const WithContext with(device.context());
  int least = 0, greatest = 0;
  CUstream made = nullptr;
  check(driver().cuCtxGetStreamPriorityRange(&least, &greatest), "a stream cannot be made");
  check(driver().cuStreamCreateWithPriority(&made, CU_STREAM_NON_BLOCKING, greatest), "a stream cannot be made");
  return made;
}

}  // namespace

FarCopies::FarCopies(const tutti::cuda::Device& device, const LoadedKernel& atomic)
    : device_(device), atomic_(atomic), stream_(make_stream(device)), words_(stream_) {}

FarCopies::~FarCopies() {
  try {
    const WithContext with(device_.context());
    driver().cuStreamDestroy(stream_);
  } catch (const Error&) {  // the driver has gone already: the process ends
  }
}

void FarCopies::step(const gpu::FarRequest& request, uint64_t at, uint64_t before) {
  words_.flush();
  WindowAtomic arguments{.at = reinterpret_cast<uint64_t*>(at),
                         .before = reinterpret_cast<uint64_t*>(before),
                         .operand = request.operand,
                         .expected = request.expected,
                         .compares = request.what == WindowCall::What::CompareSwap ? 1U : 0U};
  void* parameters[] = {&arguments};
  check(driver().cuLaunchKernel(atomic_.function, 1, 1, 1, 1, 1, 1, 0, stream_, parameters, nullptr),
        "the kernel for an atomic step cannot be launched");
}

}  // namespace tutti::exec::cuda
