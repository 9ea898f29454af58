// The words that kernels and the host exchange.
#pragma once

#include <memory>

#include "exec/gpu/gpu.hpp"
#include "exec/gpu/lanes.hpp"

namespace tutti::exec::cuda {

class PinnedRecord {
 public:
  explicit PinnedRecord(const gpu::Gpu& gpu);
  gpu::HostRecord& host() const { return *host_; }
  gpu::HostRecord* device() const { return device_record_; }
  const std::shared_ptr<unsigned char>& memory() const { return memory_; }

 private:
  const std::shared_ptr<unsigned char> memory_;
  gpu::HostRecord *host_ = nullptr, *device_record_ = nullptr;
};

}  // namespace tutti::exec::cuda
