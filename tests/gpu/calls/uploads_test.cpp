// What a call uploads before it runs (exec/cuda/uploads.hpp), where it is more than the pinned memory that it goes by.
#include <numeric>

#include "calls/gpu_program.hpp"
#include "exec/cuda/cuda_gpu.hpp"
#include "exec/cuda/uploads.hpp"

namespace tutti::exec::cuda {
namespace {

/// A part of the pinned memory is used again when the call has ended that used it last: never this very call, which
/// cannot end before it is launched.
TEST(Uploads, NoCallWaitsForItself) {
  use_gpu(0);
  const tutti::cuda::Device& device = tutti::cuda::Device::get(0);
  const CudaGpu gpu(device);
  const gpu::HostRecord record;
  std::atomic<uint32_t> failed{0};
  gpu::CallCount calls(record, failed);
  Uploads uploads(gpu, device, calls);
  const GpuStream stream;
  constexpr size_t kMost = 300000;  // floats
  const GpuBuffer there(kMost * 4);
  std::vector<float> values(kMost);
  std::iota(values.begin(), values.end(), 0.0F);
  // A call that waited for itself would be ended by this failure, and throw: the test fails, and does not hang.
  std::thread ends_waits([&] {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    failed = 1;
  });
  for (const size_t count : {size_t{100}, size_t{20000}, size_t{30000}, size_t{40000}, kMost}) {
    SCOPED_TRACE(count);
    const uint64_t call = calls.next();
    uploads.add(reinterpret_cast<CUdeviceptr>(there.get()), values.data(), count * 4);
    EXPECT_NO_THROW(uploads.send(stream.get(), call));
    const float last = 7;
    EXPECT_NO_THROW(uploads.lend(&last, sizeof last, call));
    calls.add();
    stream.synchronize();
    const_cast<uint64_t&>(record.counted) = call;
    EXPECT_EQ(there.floats(count), std::vector<float>(values.begin(), values.begin() + static_cast<ptrdiff_t>(count)));
  }
  ends_waits.join();
}

}  // namespace
}  // namespace tutti::exec::cuda
