#include "exec/cuda/uploads.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "exec/gpu/pinned.hpp"

namespace tutti::exec::cuda {
namespace {

constexpr uint64_t kPartBytes = 64 << 10;

}  // namespace

Uploads::Uploads(const gpu::Gpu& gpu, const tutti::cuda::Device& device, const gpu::CallCount& calls)
    : device_(device),
      calls_(calls),
      pinned_(gpu::pinned(gpu, std::tuple_size_v<decltype(parts_)> * kPartBytes)),
      for_gpu_(gpu.device_address(pinned_.get())) {}

void Uploads::add(CUdeviceptr to, const void* from, uint64_t bytes) {
  const auto* const begin = static_cast<const unsigned char*>(from);
  pending_.push_back({to, {begin, begin + bytes}});
}

void Uploads::send(CUstream stream, uint64_t call) {
  uint64_t all = 0;
  for (const Upload& upload : pending_) all += upload.bytes.size();
  // More would come to a part that this call itself has filled, and wait for it.
  if (all > (parts_.size() - 2) * kPartBytes) return send_now();
  for (const Upload& upload : std::exchange(pending_, {})) send(upload, stream, call);
}

void Uploads::send_now() {
  for (const Upload& upload : std::exchange(pending_, {})) {
    device_.stream().upload(upload.to, upload.bytes.data(), upload.bytes.size());
  }
}

void Uploads::send(const Upload& upload, CUstream stream, uint64_t call) {
  for (uint64_t done = 0; done < upload.bytes.size();) {
    if (parts_[part_].used == kPartBytes) next_part();
    Part& part = parts_[part_];
    const uint64_t bytes = std::min(upload.bytes.size() - done, kPartBytes - part.used);
    unsigned char* const from = pinned_.get() + part_ * kPartBytes + part.used;
    std::memcpy(from, upload.bytes.data() + done, bytes);
    tutti::cuda::check(tutti::cuda::driver().cuMemcpyHtoDAsync(upload.to + done, from, bytes, stream),
                       "memory of the GPU cannot be written");
    done += bytes;
    part.used += bytes;
    part.call = call;
  }
}

const unsigned char* Uploads::lend(const void* from, uint64_t bytes, uint64_t call) {
  constexpr uint64_t kAlignment = 16;
  uint64_t begin = (parts_[part_].used + kAlignment - 1) / kAlignment * kAlignment;
  if (begin + bytes > kPartBytes) {
    next_part();
    begin = 0;
  }
  const uint64_t offset = part_ * kPartBytes + begin;
  std::memcpy(pinned_.get() + offset, from, bytes);
  parts_[part_] = {.used = begin + bytes, .call = call};
  return for_gpu_ + offset;
}

void Uploads::next_part() {
  part_ = (part_ + 1) % parts_.size();
  calls_.wait_for(parts_[part_].call);
  parts_[part_].used = 0;
}

}  // namespace tutti::exec::cuda
