#include "exec/cuda/multimem_trial.hpp"

#include <atomic>
#include <new>
#include <utility>
#include <vector>

#include "base/env.hpp"
#include "base/format.hpp"
#include "exec/wait.hpp"

namespace tutti::exec::cuda {
namespace {

using tutti::cuda::check;
using tutti::cuda::driver;
using tutti::cuda::WithContext;

constexpr uint64_t kWindow = 4096, kRounds = 3;  // bytes; one round more than there are slots
constexpr uint64_t kElements = kRounds * kWindow / sizeof(float);
constexpr uint64_t kInput = 512, kOutput = kInput + kRounds * kWindow, kBytes = kOutput + kRounds * kWindow;
constexpr uint64_t kTag = 0x7121A1;
constexpr double kEndWithin = 2;  // seconds in which a kernel notices that it is to end
static_assert(sizeof(gpu::Counters) <= kInput);

/// Sums of these are exact.
float element(uint64_t i, uint32_t factor) { return static_cast<float>((1 + i % 7) * factor); }

}  // namespace

MultimemTrial::MultimemTrial(const gpu::Gpu& gpu, const tutti::cuda::Device& device, std::shared_ptr<Pool> pool,
                             MultimemCall call)
    : device_(device),
      pool_(std::move(pool)),
      record_(gpu),
      memory_(pool_->take(kBytes)),
      call_(call),
      kernel_(multimem_kernel(device, "add_f32")) {
  const auto at = [&](uint64_t offset) { return reinterpret_cast<unsigned char*>(memory_.at + offset); };
  call_.head = {
      .counters = reinterpret_cast<gpu::Counters*>(at(0)), .record = record_.device(), .salt = kTag, .launch = 1};
  call_.layout.bytes = kRounds * kWindow;
  call_.layout.window = kWindow;
  call_.layout.windows = kRounds;
  call_.layout.items = 1;
  call_.in = at(kInput);
  call_.out = at(kOutput);
  call_.unit = sizeof(float);
  std::vector<float> values(kElements);
  for (uint64_t i = 0; i < kElements; ++i) values[i] = element(i, call_.layout.rank + 1);
  device_.stream().zero(memory_.at, kBytes);
  device_.stream().upload(memory_.at + kInput, values.data(), kRounds * kWindow);
  const WithContext with(device_.context());
  check(driver().cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0), "a stream cannot be made");
}

MultimemTrial::~MultimemTrial() {
  const WithContext with(device_.context());
  driver().cuStreamDestroy(stream_);
  if (runs_on_) {  // nobody else may ever have the kernel's memory
    static_cast<void>(new (std::nothrow) std::shared_ptr<unsigned char>(record_.memory()));
  } else {
    pool_->give(memory_);
  }
}

void MultimemTrial::run(Deadline deadline) {
  {
    const WithContext with(device_.context());
    void* parameters[] = {&call_};
    check(driver().cuLaunchKernel(kernel_.function, 1, 1, 1, static_cast<unsigned>(env().block_threads), 1, 1, 0,
                                  stream_, parameters, nullptr),
          "the kernel cannot be launched");
  }
  if (!wait(deadline)) throw_error(Code::Unsupported, "the NVLink switch did not fold a few numbers in time");
  std::vector<float> sums(kElements);
  device_.stream().download(sums.data(), memory_.at + kOutput, kRounds * kWindow);
  const uint32_t ranks = call_.layout.ranks;
  for (uint64_t i = 0; i < kElements; ++i) {
    const float expected = element(i, ranks * (ranks + 1) / 2);
    if (sums[i] == expected) continue;
    throw_error(Code::Unsupported, "the NVLink switch folds wrongly: element {} is {}, not {}", i, sums[i], expected);
  }
}

/// In the device's context.
bool MultimemTrial::runs() const {
  const CUresult state = driver().cuStreamQuery(stream_);
  if (state != CUDA_ERROR_NOT_READY) check(state, "the NVLink switch cannot fold");
  return state == CUDA_ERROR_NOT_READY;
}

bool MultimemTrial::wait(Deadline deadline) {
  const WithContext with(device_.context());
  constexpr double kPause = 20e-6;
  while (runs() && !deadline.passed()) nap(kPause);
  if (!runs()) return true;
  std::atomic_ref(record_.host().abort).store(1, std::memory_order_release);
  for (const Deadline end = Deadline::in(kEndWithin); runs() && !end.passed();) nap(kPause);
  runs_on_ = runs();
  return false;
}

}  // namespace tutti::exec::cuda
