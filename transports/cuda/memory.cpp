#include "transports/cuda/memory.hpp"

#include <utility>
#include <vector>

#include "base/format.hpp"
#include "link/link.hpp"

namespace tutti::cuda {
namespace {

CUmemAllocationProp properties_of(const Device& device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device.number()};
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

CUmemAccessDesc access_of(const Device& device) {
  return {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device.number()},
          .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
}

uint64_t whole_granules(const CUmemAllocationProp& properties, uint64_t bytes) {
  size_t granule = 0;
  check(driver().cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
        "memory that peers can map is not supported");
  return (bytes + granule - 1) / granule * granule;
}

}  // namespace

std::shared_ptr<PeerMemory> PeerMemory::create(const Device& device, uint64_t wanted) {
  const WithContext with(device.context());
  const CUmemAllocationProp properties = properties_of(device);
  std::shared_ptr<PeerMemory> made(new PeerMemory(device, whole_granules(properties, wanted)));
  check(driver().cuMemCreate(&made->handle_, made->bytes_, &properties, 0), "memory for links on the GPU");
  made->has_handle_ = true;
  made->map();
  std::vector<CUmemAccessDesc> access;
  int devices = 0;
  check(driver().cuDeviceGetCount(&devices), "GPUs cannot be counted");
  for (int i = 0; i < devices; ++i) {
    CUdevice other = 0;
    int can = i == device.number() ? 1 : 0;
    if (can == 0 && driver().cuDeviceGet(&other, i) == CUDA_SUCCESS) {
      driver().cuDeviceCanAccessPeer(&can, other, device.handle());
    }
    CUmemAccessDesc desc = access_of(device);
    desc.location.id = i;
    if (can != 0) access.push_back(desc);
  }
  check(driver().cuMemSetAccess(made->base_, made->bytes_, access.data(), access.size()),
        "memory for links on the GPU cannot be made accessible");
  device.stream().zero(made->base_, made->bytes_);
  return made;
}

std::shared_ptr<PeerMemory> PeerMemory::import(const Device& device, const Fd& fd, uint64_t bytes) {
  const WithContext with(device.context());
  std::shared_ptr<PeerMemory> made(new PeerMemory(device, bytes));
  const auto fails = [&](CUresult result) {
    if (result == CUDA_SUCCESS) return;
    throw_error(Code::Unsupported, "{} cannot reach the peer's GPU: {}", device.name(), driver().describe(result));
  };
  fails(driver().cuMemImportFromShareableHandle(&made->handle_, reinterpret_cast<void*>(uintptr_t(fd.get())),
                                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  made->has_handle_ = true;
  made->map();
  const CUmemAccessDesc access = access_of(device);
  fails(driver().cuMemSetAccess(made->base_, bytes, &access, 1));
  return made;
}

void PeerMemory::map() {
  check(driver().cuMemAddressReserve(&base_, bytes_, 0, 0, 0), "no addresses are left for memory of the GPU");
  check(driver().cuMemMap(base_, bytes_, 0, handle_, 0), "memory of the GPU cannot be mapped");
  mapped_ = true;
}

PeerMemory::~PeerMemory() {
  try {
    const WithContext with(device_.context());
    if (mapped_) driver().cuMemUnmap(base_, bytes_);
    if (base_ != 0) driver().cuMemAddressFree(base_, bytes_);
    if (has_handle_) driver().cuMemRelease(handle_);
  } catch (const Error&) {  // the driver has gone already: the process ends
  }
}

Fd PeerMemory::export_fd() const {
  const WithContext with(device_.context());
  int fd = -1;
  const CUresult result =
      driver().cuMemExportToShareableHandle(&fd, handle_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (result != CUDA_SUCCESS) {
    throw_error(Code::Unsupported, "{} cannot give its memory to another process: {}", device_.name(),
                driver().describe(result));
  }
  return Fd(fd);
}

LinkArena::LinkArena(const Device& device, uint64_t bytes, uint64_t push_bytes,
                     std::function<uint64_t(uint32_t)> line_slot)
    : device_(device),
      push_bytes_(push_bytes),
      line_slot_(std::move(line_slot)),
      memory_(PeerMemory::create(device, bytes)) {}

uint64_t LinkArena::ring_bytes(uint32_t link_lane) const {
  if (link_lane >= link::kLineLanes) return link::kLineSlots * line_slot_(link_lane);
  return link::kCapacity * link::kLine + link::kPushSlots * push_bytes_;
}

uint64_t LinkArena::ring(Rank writer, uint32_t link_lane) {
  return reserve(rings_, {writer, link_lane}, ring_bytes(link_lane));
}

uint64_t LinkArena::counter(Rank reader, uint32_t link_lane) {
  return reserve(counters_, {reader, link_lane}, link::kStride);
}

uint64_t LinkArena::reserve(std::map<Key, uint64_t>& known, const Key& key, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  if (bytes > memory_->bytes() - used_) {
    throw_error(Code::OutOfMemory, "the {} bytes for links on {} are used up; lower TUTTI_MAX_BLOCKS", memory_->bytes(),
                device_.name());
  }
  const uint64_t offset = used_;
  used_ += (bytes + link::kStride - 1) / link::kStride * link::kStride;
  return known[key] = offset;
}

}  // namespace tutti::cuda
