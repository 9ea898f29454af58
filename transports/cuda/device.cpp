#include "transports/cuda/device.hpp"

#include <map>
#include <memory>
#include <mutex>

#include "base/format.hpp"

namespace tutti::cuda {

const Device& Device::get(int number) {
  static auto* const kMutex = new std::mutex;  // never destroyed: threads may outlive main()
  static auto* const kDevices = new std::map<int, std::unique_ptr<const Device>>;
  const std::lock_guard lock(*kMutex);
  auto& device = (*kDevices)[number];
  if (device == nullptr) device.reset(new Device(number));
  return *device;
}

Device::Device(int number) : number_(number) {
  const Driver& cuda = driver();
  int count = 0;
  check(cuda.cuDeviceGetCount(&count), "GPUs cannot be counted");
  if (number < 0 || number >= count) {
    throw_error(Code::InvalidArgument, "there is no GPU {}: this process sees {}", number, count);
  }
  check(cuda.cuDeviceGet(&handle_, number), "a GPU cannot be used");
  char name[96] = "";
  check(cuda.cuDeviceGetName(name, sizeof name, handle_), "a GPU has no name");
  CUuuid id{};
  check(cuda.cuDeviceGetUuid(&id, handle_), "a GPU has no id");
  for (const char byte : id.bytes) id_ += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  name_ = fmt::format("GPU {} ({})", number, name);
  check(cuda.cuDeviceGetAttribute(&multiprocessors_, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, handle_), name_.c_str());
  check(cuda.cuDevicePrimaryCtxRetain(&context_, handle_), name_.c_str());
  stream_ = std::make_unique<OwnStream>(*this);
}

int Device::current() {
  if (!is_loaded() || !why_no_driver().empty()) return -1;
  CUcontext context = nullptr;
  CUdevice handle = 0;
  if (driver().cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == nullptr) return -1;
  return driver().cuCtxGetDevice(&handle) == CUDA_SUCCESS ? handle : -1;
}

bool Device::reaches(const Device& other) const {
  if (handle_ == other.handle_) return true;
  int can = 0;
  return driver().cuDeviceCanAccessPeer(&can, handle_, other.handle_) == CUDA_SUCCESS && can != 0;
}

OwnStream::OwnStream(const Device& device) : device_(device) {
  const WithContext with(device.context());
  check(driver().cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "a stream cannot be made");
}

void OwnStream::upload(CUdeviceptr to, const void* from, uint64_t bytes) const {
  const WithContext with(device_.context());
  check(driver().cuMemcpyHtoDAsync(to, from, bytes, stream_), "memory of the GPU cannot be written");
  wait();
}

void OwnStream::download(void* to, CUdeviceptr from, uint64_t bytes) const {
  const WithContext with(device_.context());
  check(driver().cuMemcpyDtoHAsync(to, from, bytes, stream_), "memory of the GPU cannot be read");
  wait();
}

void OwnStream::zero(CUdeviceptr at, uint64_t bytes) const {
  const WithContext with(device_.context());
  check(driver().cuMemsetD8Async(at, 0, bytes, stream_), "memory of the GPU cannot be set");
  wait();
}

void OwnStream::wait() const { check(driver().cuStreamSynchronize(stream_), "work on the GPU has failed"); }

}  // namespace tutti::cuda
