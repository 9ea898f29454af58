#include "transports/cuda/memory.hpp"

#include <fcntl.h>

#include <utility>
#include <vector>

#include "base/format.hpp"
#include "link/link.hpp"

namespace tutti::cuda {
namespace {

constexpr uint64_t kPage = 4096;

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

bool has(const Device& device, CUdevice_attribute what) {
  int value = 0;
  return driver().cuDeviceGetAttribute(&value, what, device.handle()) == CUDA_SUCCESS && value != 0;
}

/// Do all devices that this process sees reach each other?
bool all_reach() {
  int devices = 0;
  check(driver().cuDeviceGetCount(&devices), "GPUs cannot be counted");
  for (int from = 0; from < devices; ++from) {
    for (int to = 0; to < devices; ++to) {
      CUdevice a = 0, b = 0;
      int can = 0;
      if (from == to || driver().cuDeviceGet(&a, from) != CUDA_SUCCESS) continue;
      if (driver().cuDeviceGet(&b, to) != CUDA_SUCCESS) continue;
      if (driver().cuDeviceCanAccessPeer(&can, a, b) != CUDA_SUCCESS || can == 0) return false;
    }
  }
  return true;
}

bool gives_handles() {
  CUdeviceptr probe = 0;
  CUipcMemHandle handle;
  if (driver().cuMemAlloc(&probe, 1) != CUDA_SUCCESS) return false;
  const bool gives = driver().cuIpcGetMemHandle(&handle, probe) == CUDA_SUCCESS;
  driver().cuMemFree(probe);
  return gives;
}

}  // namespace

bool gives_descriptors(const Device& device) {
  return has(device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) &&
         has(device, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
}

CudaMemory PeerMemory::form_for(const Device& device) {
  if (env().cuda_memory != CudaMemory::Auto) return env().cuda_memory;
  if (!all_reach()) return CudaMemory::Host;
  if (gives_descriptors(device)) return CudaMemory::Fd;
  return gives_handles() ? CudaMemory::Ipc : CudaMemory::Host;
}

std::shared_ptr<PeerMemory> PeerMemory::create(const Device& device, uint64_t wanted) {
  const WithContext with(device.context());
  return create(device, wanted, form_for(device));
}

std::shared_ptr<PeerMemory> PeerMemory::create_on_host(const Device& device, uint64_t wanted) {
  const WithContext with(device.context());
  return create(device, wanted, CudaMemory::Host);
}

std::shared_ptr<PeerMemory> PeerMemory::create_shareable(const Device& device, uint64_t wanted) {
  const WithContext with(device.context());
  return create(device, wanted, CudaMemory::Fd);
}

std::shared_ptr<PeerMemory> PeerMemory::create(const Device& device, uint64_t wanted, CudaMemory form) {
  std::shared_ptr<PeerMemory> made(new PeerMemory(device, wanted, form));
  switch (made->form_) {
    case CudaMemory::Ipc:
      check(driver().cuMemAlloc(&made->base_, wanted), "memory for links on the GPU");
      break;
    case CudaMemory::Host:
      made->segment_ = link::Segment::create(wanted);
      made->register_host();
      break;
    default:
      made->create_mappable();
  }
  return made;
}

void PeerMemory::create_mappable() {
  const CUmemAllocationProp properties = properties_of(device_);
  bytes_ = whole_granules(properties, bytes_);
  check(driver().cuMemCreate(&handle_, bytes_, &properties, 0), "memory for links on the GPU");
  has_handle_ = true;
  map();
  grant_to_all();
}

void PeerMemory::grant_to_all() {
  std::vector<CUmemAccessDesc> access;
  int devices = 0;
  check(driver().cuDeviceGetCount(&devices), "GPUs cannot be counted");
  for (int i = 0; i < devices; ++i) {
    CUdevice other = 0;
    int can = i == device_.number() ? 1 : 0;
    if (can == 0 && driver().cuDeviceGet(&other, i) == CUDA_SUCCESS) {
      driver().cuDeviceCanAccessPeer(&can, other, device_.handle());
    }
    CUmemAccessDesc desc = access_of(device_);
    desc.location.id = i;
    if (can != 0) access.push_back(desc);
  }
  check(driver().cuMemSetAccess(base_, bytes_, access.data(), access.size()),
        "memory for links on the GPU cannot be made accessible");
}

void PeerMemory::register_host() {
  constexpr unsigned kFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
  bytes_ = segment_.bytes();
  check(driver().cuMemHostRegister(segment_.base(), bytes_, kFlags), "memory of the host cannot be used by the GPU");
  registered_ = true;
  check(driver().cuMemHostGetDevicePointer(&base_, segment_.base(), 0), "memory of the host");
}

std::shared_ptr<PeerMemory> PeerMemory::import(const Device& device, const Share& share, Fd fd,
                                               const std::string& whose) {
  const WithContext with(device.context());
  const auto fails = [&](CUresult result) {
    if (result == CUDA_SUCCESS) return;
    throw_error(
        Code::Unsupported,
        "{} cannot reach the GPU of {}: {}; with TUTTI_CUDA_MEMORY=host on all ranks they meet in memory of the "
        "host",
        device.name(), whose, driver().describe(result));
  };
  std::shared_ptr<PeerMemory> made(new PeerMemory(device, share.bytes, static_cast<CudaMemory>(share.form)));
  switch (made->form_) {
    case CudaMemory::Fd: {
      fails(driver().cuMemImportFromShareableHandle(&made->handle_, reinterpret_cast<void*>(uintptr_t(fd.get())),
                                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
      made->has_handle_ = true;
      made->map();
      const CUmemAccessDesc access = access_of(device);
      fails(driver().cuMemSetAccess(made->base_, share.bytes, &access, 1));
      break;
    }
    case CudaMemory::Ipc:
      fails(driver().cuIpcOpenMemHandle(&made->opened_, share.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
      made->base_ = made->opened_ + share.offset;
      made->check_extent(share, whose);
      break;
    case CudaMemory::Host:
      made->segment_ = link::Segment::map(std::move(fd), {0, share.bytes}, whose);
      made->register_host();
      break;
    default:
      throw_error(Code::ProtocolError, "cuda: {} states a form of memory that is unknown", whose);
  }
  return made;
}

/// The peer says where its memory lies within what was opened.
void PeerMemory::check_extent(const Share& share, const std::string& whose) const {
  CUdeviceptr begin = 0;
  size_t extent = 0;
  check(driver().cuMemGetAddressRange(&begin, &extent, opened_), "the extent of a peer's memory");
  if (share.bytes > extent || share.offset > extent - share.bytes) {
    throw_error(Code::ProtocolError, "cuda: {} states {} bytes at byte {} of an allocation of {}", whose, share.bytes,
                share.offset, extent);
  }
}

void PeerMemory::map() {
  check(driver().cuMemAddressReserve(&base_, bytes_, 0, 0, 0), "no addresses are left for memory of the GPU");
  check(driver().cuMemMap(base_, bytes_, 0, handle_, 0), "memory of the GPU cannot be mapped");
  mapped_ = true;
}

PeerMemory::~PeerMemory() {
  try {
    const WithContext with(device_.context());
    if (registered_) driver().cuMemHostUnregister(segment_.base());
    if (opened_ != 0) driver().cuIpcCloseMemHandle(opened_);
    if (form_ == CudaMemory::Ipc && opened_ == 0 && base_ != 0) driver().cuMemFree(base_);
    if (mapped_) driver().cuMemUnmap(base_, bytes_);
    if (form_ == CudaMemory::Fd && base_ != 0) driver().cuMemAddressFree(base_, bytes_);
    if (has_handle_) driver().cuMemRelease(handle_);
  } catch (const Error&) {  // the driver has gone already: the process ends
  }
}

void PeerMemory::open_to(const Device& other) const {
  if (form_ == CudaMemory::Host || &other == &device_) return;
  if (!other.reaches(device_)) {
    throw_error(Code::Unsupported,
                "{} cannot reach the memory of {}; with TUTTI_CUDA_MEMORY=host they meet in memory "
                "of the host",
                other.name(), device_.name());
  }
  if (form_ != CudaMemory::Ipc) return;  // granted when it was made
  const WithContext with(other.context());
  const CUresult result = driver().cuCtxEnablePeerAccess(device_.context(), 0);
  if (result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) check(result, "memory of another GPU");
}

Share PeerMemory::share() const {
  Share share{.form = static_cast<uint32_t>(form_), .bytes = bytes_};
  if (form_ != CudaMemory::Ipc) return share;
  const WithContext with(device_.context());
  CUdeviceptr begin = 0;
  size_t extent = 0;
  check(driver().cuMemGetAddressRange(&begin, &extent, base_), "the allocation of memory for links");
  share.offset = base_ - begin;
  const CUresult result = driver().cuIpcGetMemHandle(&share.handle, begin);
  if (result != CUDA_SUCCESS) {
    throw_error(Code::Unsupported, "{} cannot give its memory to another process: {}", device_.name(),
                driver().describe(result));
  }
  return share;
}

Fd PeerMemory::share_fd() const {
  if (form_ == CudaMemory::Ipc) return Fd();
  if (form_ == CudaMemory::Host) return Fd(::fcntl(segment_.file()->get(), F_DUPFD_CLOEXEC, 0));
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

LinkArena::LinkArena(const Device& device, uint64_t bytes, uint64_t staging,
                     std::function<uint64_t(uint32_t)> ring_bytes)
    : device_(device),
      links_((bytes + kPage - 1) / kPage * kPage),
      staging_(staging),
      ring_bytes_(std::move(ring_bytes)),
      memory_(PeerMemory::create(device, links_ + staging)) {
  if (memory_->form() == CudaMemory::Host) return;  // which the system has zeroed
  device.stream().zero(reinterpret_cast<CUdeviceptr>(memory_->base()), links_);
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
  if (bytes > links_ - used_) {
    throw_error(Code::OutOfMemory, "the {} bytes for links on {} are used up; lower TUTTI_MAX_BLOCKS", links_,
                device_.name());
  }
  const uint64_t offset = used_;
  used_ += (bytes + link::kStride - 1) / link::kStride * link::kStride;
  return known[key] = offset;
}

}  // namespace tutti::cuda
