// The GPUs of this process, each with its primary context, which CUDA's runtime and PyTorch use too.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transports/cuda/driver.hpp"

namespace tutti::cuda {

class Device;

/// The library's stream on a device, ordered with no other. Its work may run while the user's streams are captured.
/// There is one for all ranks of the process: a device has few hardware queues (CUDA_DEVICE_MAX_CONNECTIONS, 8),
/// streams share them, and a kernel that waits for another rank holds up all that comes after it in its queue. It has
/// the greatest priority, so that it shares no queue with those of normal priority (not seen on a GPU yet).
class OwnStream {
 public:
  explicit OwnStream(const Device& device);
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  /// These wait until it is done. Throw Error(SystemError).
  void upload(CUdeviceptr to, const void* from, uint64_t bytes) const;
  void download(void* to, CUdeviceptr from, uint64_t bytes) const;
  void zero(CUdeviceptr at, uint64_t bytes) const;
  /// Until all of the above is done.
  void wait() const;
  /// Why the device can do no more work for this process, in the driver's words; "" if it can. Does not wait.
  std::string failure() const;

 private:
  const Device& device_;
  CUstream stream_ = nullptr;
};

/// What network devices may do with a GPU's memory. Flushed: Device::flush_rdma() comes between what they have written
/// and a kernel that reads it.
enum class Rdma : uint8_t { None, Flushed, Ordered };

/// Lives as long as the process.
class Device {
 public:
  /// The device with this number. Throws what driver() throws, and Error(InvalidArgument | SystemError).
  static const Device& get(int number);
  /// The number of the device that the calling thread uses; −1 if it uses none. Loads nothing.
  static int current();

  int number() const { return number_; }
  CUcontext context() const { return context_; }
  CUdevice handle() const { return handle_; }
  /// "GPU 0 (NVIDIA H200)"
  const std::string& name() const { return name_; }
  /// "NVIDIA H200"
  const std::string& model() const { return model_; }
  /// The same in all processes.
  const std::string& id() const { return id_; }
  /// PCI, as "0000:18:00.0".
  std::string address() const;
  /// 90 for compute capability 9.0.
  int capability() const { return capability_; }
  int multiprocessors() const { return multiprocessors_; }
  uint64_t memory_bytes() const { return memory_bytes_; }
  const OwnStream& stream() const { return *stream_; }
  Rdma rdma() const { return rdma_; }
  void flush_rdma() const;
  /// Can this device load and store the memory of `other`?
  bool reaches(const Device& other) const;
  /// The ids of the GPUs that this process sees and that NVLink joins with this one, and its own.
  std::vector<std::string> nvlink_peers() const;

 private:
  explicit Device(int number);
  int number_;
  CUdevice handle_ = 0;
  CUcontext context_ = nullptr;
  std::string name_, model_, id_;
  int capability_ = 0;
  int multiprocessors_ = 0;
  size_t memory_bytes_ = 0;
  Rdma rdma_ = Rdma::None;
  std::unique_ptr<OwnStream> stream_;
};

}  // namespace tutti::cuda
