#include "transports/cuda/registered.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/format.hpp"

namespace tutti::cuda {
namespace {

CUmemAccessDesc access_of(int device) {
  return {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
}

/// The driver's number of the allocation, never used again in the process; 0: there is none.
uint64_t number_of(CUdeviceptr at) {
  unsigned long long number = 0;
  CUpointer_attribute what = CU_POINTER_ATTRIBUTE_BUFFER_ID;
  void* value = &number;
  return driver().cuPointerGetAttributes(1, &what, &value, at) == CUDA_SUCCESS ? number : 0;
}

int device_of(CUdeviceptr at) {
  int device = -1;
  CUpointer_attribute what = CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
  void* value = &device;
  return driver().cuPointerGetAttributes(1, &what, &value, at) == CUDA_SUCCESS ? device : -1;
}

bool was_allocated(CUdeviceptr at) {
  uint32_t allocated = 0;
  CUpointer_attribute what = CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE;
  void* value = &allocated;
  return driver().cuPointerGetAttributes(1, &what, &value, at) == CUDA_SUCCESS && (allocated & 1) != 0;
}

/// Makes memory that was mapped readable for all devices of this process that reach it.
void open_to_all(const Device& device, CUdeviceptr begin, uint64_t bytes) {
  int devices = 0;
  check(driver().cuDeviceGetCount(&devices), "GPUs cannot be counted");
  for (int i = 0; i < devices; ++i) {
    CUdevice other = 0;
    int can = 0;
    if (i == device.number() || driver().cuDeviceGet(&other, i) != CUDA_SUCCESS) continue;
    driver().cuDeviceCanAccessPeer(&can, other, device.handle());
    const CUmemAccessDesc access = access_of(i);
    if (can != 0) check(driver().cuMemSetAccess(begin, bytes, &access, 1), "the buffer, for another GPU");
  }
}

}  // namespace

uint64_t BufferReport::bytes() const {
  uint64_t bytes = 0;
  for (const BufferPiece& piece : pieces) bytes += piece.bytes;
  return bytes;
}

OwnBuffer::OwnBuffer(const Device& device, const void* data, uint64_t bytes, uint64_t id) : device_(device) {
  const WithContext with(device.context());
  const auto first = reinterpret_cast<CUdeviceptr>(data);
  report_.id = id;
  for (CUdeviceptr next = first; next < first + bytes;) {
    CUdeviceptr begin = 0;
    size_t extent = 0;
    const CUresult result = driver().cuMemGetAddressRange(&begin, &extent, next);
    if (result != CUDA_SUCCESS || device_of(next) != device.number()) {
      throw_error(Code::InvalidArgument, "at byte {} of {} the buffer is no memory of {}", next - first, bytes,
                  device.name());
    }
    if (report_.pieces.empty()) report_.address = begin;
    add_piece(begin, extent);
    next = begin + extent;
  }
}

void OwnBuffer::add_piece(CUdeviceptr begin, uint64_t bytes) {
  if (report_.pieces.size() == BufferReport::kMaxPieces) {
    throw_error(Code::Unsupported, "the buffer has more than {} allocations", BufferReport::kMaxPieces);
  }
  BufferPiece piece{.bytes = bytes};
  if (was_allocated(begin)) {
    CUipcMemHandle handle{};
    check(driver().cuIpcGetMemHandle(&handle, begin), "the buffer cannot be given to other processes");
    piece.handle.assign(reinterpret_cast<const char*>(&handle), sizeof handle);
  } else {
    CUmemGenericAllocationHandle handle = 0;
    const CUresult result = driver().cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(begin));
    if (result != CUDA_SUCCESS) {
      throw_error(Code::Unsupported, "the buffer's memory is neither allocated (cudaMalloc) nor mapped (cuMemMap): {}",
                  driver().describe(result));
    }
    handles_.push_back(handle);
    open_to_all(device_, begin, bytes);
  }
  report_.pieces.push_back(std::move(piece));
  numbers_.push_back(number_of(begin));
}

OwnBuffer::~OwnBuffer() {
  try {
    const WithContext with(device_.context());
    for (const CUmemGenericAllocationHandle handle : handles_) driver().cuMemRelease(handle);
  } catch (const Error&) {  // the driver has gone already: the process ends
  }
}

bool OwnBuffer::holds(const void* data, uint64_t bytes) const {
  const uint64_t at = reinterpret_cast<uint64_t>(data) - report_.address, all = report_.bytes();
  return at <= all && bytes <= all - at;
}

bool OwnBuffer::was_freed(const void* data, uint64_t bytes) const {
  const auto from = reinterpret_cast<uint64_t>(data);
  uint64_t begin = report_.address;
  for (size_t i = 0; i < numbers_.size() && begin < from + bytes; ++i) {
    const uint64_t end = begin + report_.pieces[i].bytes;
    if (end > from && number_of(begin) != numbers_[i]) return true;
    begin = end;
  }
  return false;
}

Fd OwnBuffer::piece(size_t number) const {
  if (number >= handles_.size()) throw_error(Code::Unsupported, "the buffer has no piece {}", number);
  const WithContext with(device_.context());
  int fd = -1;
  const CUresult result =
      driver().cuMemExportToShareableHandle(&fd, handles_[number], CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (result == CUDA_SUCCESS) return Fd(fd);
  throw_error(Code::Unsupported,
              "the buffer cannot be given to other processes: its memory was made without descriptors "
              "(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR; tuttiMemAllocWithFlags makes it with them): {}",
              driver().describe(result));
}

MappedBuffer::MappedBuffer(const Device& device, const BufferReport& report, const std::function<Fd(size_t)>& piece,
                           const std::string& whose)
    : device_(device), bytes_(report.bytes()) {
  const WithContext with(device.context());
  try {
    map(report, piece, whose);
  } catch (...) {
    unmap();
    throw;
  }
}

void MappedBuffer::map(const BufferReport& report, const std::function<Fd(size_t)>& piece, const std::string& whose) {
  const auto check_import = [&](CUresult result) {
    if (result == CUDA_SUCCESS) return;
    throw_error(Code::Unsupported, "{} cannot read the buffer of {}: {}", device_.name(), whose,
                driver().describe(result));
  };
  if (report.pieces.size() == 1 && !report.pieces.front().handle.empty()) {
    CUipcMemHandle handle{};
    if (report.pieces.front().handle.size() != sizeof handle) {
      throw_error(Code::ProtocolError, "{} states a handle of {} bytes", whose, report.pieces.front().handle.size());
    }
    std::memcpy(&handle, report.pieces.front().handle.data(), sizeof handle);
    check_import(driver().cuIpcOpenMemHandle(&opened_, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    base_ = opened_;
    CUdeviceptr begin = 0;
    size_t extent = 0;
    check(driver().cuMemGetAddressRange(&begin, &extent, opened_), "the extent of a peer's buffer");
    if (bytes_ > extent) throw_error(Code::ProtocolError, "{} states {} bytes, of {}", whose, bytes_, extent);
    return;
  }
  check(driver().cuMemAddressReserve(&base_, bytes_, 0, 0, 0), "no addresses are left for a peer's buffer");
  reserved_ = true;
  for (size_t i = 0; i < report.pieces.size(); ++i) {
    if (!report.pieces[i].handle.empty()) {
      throw_error(Code::Unsupported, "the buffer of {} has allocations of two kinds", whose);
    }
    const Fd fd = piece(i);
    CUmemGenericAllocationHandle handle = 0;
    check_import(driver().cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(uintptr_t(fd.get())),
                                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    const CUresult result = driver().cuMemMap(base_ + mapped_, report.pieces[i].bytes, 0, handle, 0);
    driver().cuMemRelease(handle);  // the mapping keeps it
    check_import(result);
    mapped_ += report.pieces[i].bytes;
  }
  const CUmemAccessDesc access = access_of(device_.number());
  check_import(driver().cuMemSetAccess(base_, bytes_, &access, 1));
}

void MappedBuffer::unmap() {
  try {
    const WithContext with(device_.context());
    if (opened_ != 0) driver().cuIpcCloseMemHandle(opened_);
    if (mapped_ != 0) driver().cuMemUnmap(base_, mapped_);
    if (reserved_) driver().cuMemAddressFree(base_, bytes_);
  } catch (const Error&) {  // the driver has gone already: the process ends
  }
  opened_ = mapped_ = 0;
  reserved_ = false;
}

}  // namespace tutti::cuda
