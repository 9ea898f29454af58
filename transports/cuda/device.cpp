#include "transports/cuda/device.hpp"

#include <map>
#include <memory>
#include <mutex>

#include "base/format.hpp"

namespace tutti::cuda {

namespace {

std::string id_of(CUdevice handle) {
  CUuuid id{};
  check(driver().cuDeviceGetUuid(&id, handle), "a GPU has no id");
  std::string text;
  for (const char byte : id.bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

}  // namespace

std::string Device::address() const {
  const auto part = [this](CUdevice_attribute attribute) {
    int value = 0;
    check(driver().cuDeviceGetAttribute(&value, attribute, handle_), "a GPU has no address");
    return value;
  };
  return fmt::format("{:04x}:{:02x}:{:02x}.0", part(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
                     part(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID), part(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
}

const Device& Device::get(int number) {
  static auto* const kMutex = new std::mutex;  // never destroyed: threads may outlive main()
  static auto* const kDevices = new std::map<int, std::unique_ptr<const Device>>;
  const std::lock_guard lock(*kMutex);
  auto& device = (*kDevices)[number];
  if (device == nullptr) device.reset(new Device(number));
  return *device;
}

namespace {

Rdma rdma_of(CUdevice device) {
  const auto attribute = [device](CUdevice_attribute which) {
    int value = 0;
    return driver().cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
  };
  if (attribute(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED) == 0) return Rdma::None;
  if (attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING) >= CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER) {
    return Rdma::Ordered;
  }
  const int flushes = attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS);
  const bool by_host = (flushes & CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST) != 0;
  return by_host && driver().cuFlushGPUDirectRDMAWrites != nullptr ? Rdma::Flushed : Rdma::None;
}

}  // namespace

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
  id_ = id_of(handle_);
  model_ = name;
  name_ = fmt::format("GPU {} ({})", number, model_);
  check(cuda.cuDeviceTotalMem(&memory_bytes_, handle_), name_.c_str());
  int major = 0, minor = 0;
  check(cuda.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, handle_), name_.c_str());
  check(cuda.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, handle_), name_.c_str());
  capability_ = 10 * major + minor;
  check(cuda.cuDeviceGetAttribute(&multiprocessors_, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, handle_), name_.c_str());
  check(cuda.cuDevicePrimaryCtxRetain(&context_, handle_), name_.c_str());
  stream_ = std::make_unique<OwnStream>(*this);
  rdma_ = rdma_of(handle_);
}

void Device::flush_rdma() const {
  const WithContext with(context_);
  check(driver().cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                            CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER),
        "what the network has written to the GPU cannot be flushed");
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

std::vector<std::string> Device::nvlink_peers() const {
  std::vector<std::string> joined{id_};
  int count = 0;
  check(driver().cuDeviceGetCount(&count), "GPUs cannot be counted");
  for (int number = 0; number < count; ++number) {
    CUdevice other = 0;
    int atomics = 0;  // which NVLink alone has
    if (number == number_ || driver().cuDeviceGet(&other, number) != CUDA_SUCCESS) continue;
    if (driver().cuDeviceGetP2PAttribute(&atomics, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, handle_, other) ==
            CUDA_SUCCESS &&
        atomics != 0) {
      joined.push_back(id_of(other));
    }
  }
  return joined;
}

OwnStream::OwnStream(const Device& device) : device_(device) {
  const WithContext with(device.context());
  int least = 0, greatest = 0;
  check(driver().cuCtxGetStreamPriorityRange(&least, &greatest), "a stream cannot be made");
  check(driver().cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, greatest), "a stream cannot be made");
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

std::string OwnStream::failure() const try {
  const WithContext with(device_.context());
  const CUresult result = driver().cuStreamQuery(stream_);
  // A driver that ends with the process has not failed.
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY || result == CUDA_ERROR_DEINITIALIZED) return "";
  return driver().describe(result);
} catch (const Error& error) {  // its context is gone
  return error.what();
}

void OwnStream::wait() const { check(driver().cuStreamSynchronize(stream_), "work on the GPU has failed"); }

}  // namespace tutti::cuda
