#include "transports/cuda/multicast.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/format.hpp"
#include "transports/pod_text.hpp"

namespace tutti::cuda {
namespace {

using transports::pack;
using transports::printable_reply;
using transports::unpack;
using transports::Wireup;

constexpr const char* kService = "cuda-multicast";
constexpr uint64_t kMagic = 0x3163636d'63697474;  // "ttcmcc1"

constexpr uint64_t kLargestGranule = 1 << 30;  // of the driver's

/// Any other answer is a refusal: text for the user.
struct Answer {
  uint64_t magic;
  uint64_t bytes;
};

/// Throws Error(Unsupported | OutOfMemory) with the remedy, unless the driver's call was successful.
void succeeds(CUresult result, const Device& device, const char* what) {
  if (result == CUDA_SUCCESS) return;
  throw_error(
      result == CUDA_ERROR_OUT_OF_MEMORY ? Code::OutOfMemory : Code::Unsupported,
      "{}: {}: {}; is the fabric manager of the NVLink switches running? (TUTTI_METHOD without nvls does without)",
      device.name(), what, driver().describe(result));
}

}  // namespace

std::string why_no_multicast(const Device& device) {
  int has = 0;
  const Driver& cuda = driver();
  const void* const needed[] = {
      reinterpret_cast<const void*>(cuda.cuMulticastGetGranularity),
      reinterpret_cast<const void*>(cuda.cuMulticastCreate), reinterpret_cast<const void*>(cuda.cuMulticastAddDevice),
      reinterpret_cast<const void*>(cuda.cuMulticastBindMem), reinterpret_cast<const void*>(cuda.cuMulticastUnbind)};
  if (std::find(std::begin(needed), std::end(needed), nullptr) != std::end(needed)) {
    return "NVIDIA's driver is too old for multicast memory, which came with CUDA 12.1";
  }
  if (driver().cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, device.handle()) != CUDA_SUCCESS ||
      has == 0) {
    return fmt::format("{} has no multicast memory, which takes NVLink switches and compute capability 9.0",
                       device.name());
  }
  return gives_descriptors(device) ? "" : fmt::format("{} gives no descriptors of its memory", device.name());
}

/// Shared with the service, which may answer when the rank has left.
struct Multicast::Object {
  Object(const Device& its_device, Rank its_ranks, uint64_t wanted)
      : device(its_device), ranks(its_ranks), bytes(wanted) {}
  ~Object() {
    try {
      const WithContext with(device.context());
      if (exists) driver().cuMemRelease(handle);
    } catch (const Error&) {  // the driver has gone already: the process ends
    }
  }

  /// On rank 0.
  void make() {
    const WithContext with(device.context());
    CUmulticastObjectProp properties{};
    properties.numDevices = static_cast<unsigned>(ranks);
    properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    properties.size = bytes;
    size_t granule = 0;
    succeeds(driver().cuMulticastGetGranularity(&granule, &properties, CU_MULTICAST_GRANULARITY_MINIMUM), device,
             "multicast memory");
    bytes = properties.size = (bytes + granule - 1) / granule * granule;
    succeeds(driver().cuMulticastCreate(&handle, &properties), device, "multicast memory cannot be made");
    exists = true;
  }

  /// On rank 0, of its control thread.
  Wireup::Reply answer() const {
    try {
      const WithContext with(device.context());
      int fd = -1;
      succeeds(driver().cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), device,
               "multicast memory cannot be given to other processes");
      return {pack(Answer{kMagic, bytes}), Fd(fd)};
    } catch (const std::exception& error) {
      return {error.what(), Fd()};
    }
  }

  const Device& device;
  const Rank ranks;
  uint64_t bytes;
  CUmemGenericAllocationHandle handle = 0;
  bool exists = false;
};

Multicast::Multicast(Wireup& wireup, const Device& device, uint64_t bytes)
    : wireup_(wireup), device_(device), object_(std::make_shared<Object>(device, wireup.ranks(), bytes)) {}

/// No kernel of any rank may use the memory now.
Multicast::~Multicast() {
  try {
    const WithContext with(device_.context());
    if (bound_) driver().cuMulticastUnbind(object_->handle, device_.handle(), 0, object_->bytes);
    if (mapped_) driver().cuMemUnmap(all_, object_->bytes);
    if (all_ != 0) driver().cuMemAddressFree(all_, object_->bytes);
  } catch (const Error&) {  // the driver has gone already: the process ends
  }
}

void Multicast::join(Deadline deadline) {
  if (wireup_.rank() == 0) {
    make();
  } else {
    take_from_first(deadline);
  }
  const WithContext with(device_.context());
  succeeds(driver().cuMulticastAddDevice(object_->handle, device_.handle()), device_,
           "it cannot have multicast memory with the other ranks' GPUs");
}

/// The others wait for an answer, so they get one in any case.
void Multicast::make() {
  try {
    object_->make();
  } catch (const Error& error) {
    wireup_.serve(kService, [why = std::string(error.what())](Rank, const std::string&) {
      return Wireup::Reply{why, Fd()};
    });
    throw;
  }
  wireup_.serve(kService, [object = object_](Rank, const std::string&) { return object->answer(); });
}

void Multicast::take_from_first(Deadline deadline) {
  Wireup::Reply reply = wireup_.ask(0, kService, "", deadline);
  Answer answer{};
  if (!unpack(reply.bytes, answer) || answer.magic != kMagic) {
    throw_error(Code::PeerFailed, "rank 0 gives no multicast memory: {}", printable_reply(reply.bytes));
  }
  if (answer.bytes < object_->bytes || answer.bytes - object_->bytes > kLargestGranule) {
    throw_error(Code::ProtocolError, "rank 0 states {} bytes of multicast memory, where {} are due", answer.bytes,
                object_->bytes);
  }
  const WithContext with(device_.context());
  succeeds(driver().cuMemImportFromShareableHandle(&object_->handle, reinterpret_cast<void*>(uintptr_t(reply.fd.get())),
                                                   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
           device_, "the multicast memory of rank 0 cannot be used");
  object_->exists = true;
  object_->bytes = answer.bytes;
}

void Multicast::bind() {
  own_ = PeerMemory::create_shareable(device_, object_->bytes);
  const auto own = reinterpret_cast<CUdeviceptr>(own_->base());
  device_.stream().zero(own, object_->bytes);
  const WithContext with(device_.context());
  succeeds(driver().cuMulticastBindMem(object_->handle, 0, own_->handle(), 0, object_->bytes, 0), device_,
           "memory cannot be bound to multicast memory");
  bound_ = true;
  map();
}

void Multicast::map() {
  check(driver().cuMemAddressReserve(&all_, object_->bytes, 0, 0, 0), "no addresses are left for memory of the GPU");
  succeeds(driver().cuMemMap(all_, object_->bytes, 0, object_->handle, 0), device_,
           "multicast memory cannot be mapped");
  mapped_ = true;
  const CUmemAccessDesc access{.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device_.number()},
                               .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  succeeds(driver().cuMemSetAccess(all_, object_->bytes, &access, 1), device_, "multicast memory cannot be used");
}

}  // namespace tutti::cuda
