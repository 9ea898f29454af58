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

}  // namespace

uint64_t allocation_number(const void* data) {
  unsigned long long number = 0;
  CUpointer_attribute what = CU_POINTER_ATTRIBUTE_BUFFER_ID;
  void* value = &number;
  const auto at = reinterpret_cast<CUdeviceptr>(data);
  return driver().cuPointerGetAttributes(1, &what, &value, at) == CUDA_SUCCESS ? number : 0;
}

OwnBuffer::OwnBuffer(const Device& device, const void* data, uint64_t bytes) : device_(device) {
  const WithContext with(device_.context());
  try {
    add_pieces(data, bytes);
  } catch (...) {
    release();
    throw;
  }
}

void OwnBuffer::add_pieces(const void* data, uint64_t bytes) {
  const auto first = reinterpret_cast<CUdeviceptr>(data);
  for (CUdeviceptr next = first; next < first + bytes;) {
    CUdeviceptr begin = 0;
    size_t extent = 0;
    const CUresult result = driver().cuMemGetAddressRange(&begin, &extent, next);
    if (result == CUDA_ERROR_NOT_FOUND && device_of(next) == device_.number()) {
      throw_error(Code::Unsupported, "the driver does not tell how long the allocation at byte {} of the buffer is",
                  next - first);
    }
    if (result != CUDA_SUCCESS || device_of(next) != device_.number()) {
      throw_error(Code::InvalidArgument, "at byte {} of {} the buffer is no memory of {}", next - first, bytes,
                  device_.name());
    }
    if (pieces_.empty()) shape_.address = begin;
    add_piece(begin, extent);
    next = begin + extent;
  }
}

void OwnBuffer::add_piece(CUdeviceptr begin, uint64_t bytes) {
  if (shape_.pieces == BufferShape::kMaxPieces) {
    throw_error(Code::Unsupported, "the buffer has more than {} allocations", BufferShape::kMaxPieces);
  }
  Piece piece{.bytes = bytes, .number = allocation_number(reinterpret_cast<const void*>(begin))};
  if (was_allocated(begin)) {
    CUipcMemHandle handle{};
    const CUresult result = driver().cuIpcGetMemHandle(&handle, begin);
    if (result != CUDA_SUCCESS) {
      throw_error(Code::Unsupported, "the buffer cannot be given to other processes: {}", driver().describe(result));
    }
    piece.handle.assign(reinterpret_cast<const char*>(&handle), sizeof handle);
    shape_.has_handles = true;
  } else {
    const CUresult result = driver().cuMemRetainAllocationHandle(&piece.mapped, reinterpret_cast<void*>(begin));
    if (result != CUDA_SUCCESS) {
      throw_error(Code::Unsupported, "the buffer's memory is neither allocated (cudaMalloc) nor mapped (cuMemMap): {}",
                  driver().describe(result));
    }
  }
  pieces_.push_back(std::move(piece));  // from now on the handle is released
  ++shape_.pieces;
  shape_.bytes += bytes;
}

void OwnBuffer::open_to(const Device& other) const {
  const WithContext with(device_.context());
  const CUmemAccessDesc access = access_of(other.number());
  uint64_t begin = shape_.address;
  for (const Piece& piece : pieces_) {
    if (piece.handle.empty() && other.reaches(device_)) {
      check(driver().cuMemSetAccess(begin, piece.bytes, &access, 1), "the buffer, for another GPU");
    }
    begin += piece.bytes;
  }
}

OwnBuffer::~OwnBuffer() {
  try {
    const WithContext with(device_.context());
    release();
  } catch (const Error&) {  // the driver has gone already: the process ends
  }
}

void OwnBuffer::release() {
  for (const Piece& piece : pieces_) {
    if (piece.handle.empty()) driver().cuMemRelease(piece.mapped);
  }
}

bool OwnBuffer::holds(const void* data, uint64_t bytes) const {
  const uint64_t at = reinterpret_cast<uint64_t>(data) - shape_.address;
  return at <= shape_.bytes && bytes <= shape_.bytes - at;
}

bool OwnBuffer::was_freed(const void* data, uint64_t bytes) const {
  const auto from = reinterpret_cast<uint64_t>(data);
  uint64_t begin = shape_.address;
  for (size_t i = 0; i < pieces_.size() && begin < from + bytes; ++i) {
    const uint64_t end = begin + pieces_[i].bytes;
    if (end > from && allocation_number(reinterpret_cast<const void*>(begin)) != pieces_[i].number) return true;
    begin = end;
  }
  return false;
}

BufferPiece OwnBuffer::piece(uint64_t number) const {
  if (number >= pieces_.size()) throw_error(Code::InvalidArgument, "the buffer has no piece {}", number);
  const Piece& piece = pieces_[number];
  if (!piece.handle.empty()) return {piece.bytes, piece.handle};
  const WithContext with(device_.context());
  int fd = -1;
  const CUresult result =
      driver().cuMemExportToShareableHandle(&fd, piece.mapped, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (result == CUDA_SUCCESS) return {.bytes = piece.bytes, .fd = Fd(fd)};
  throw_error(Code::Unsupported,
              "the buffer cannot be given to other processes: its memory was made without descriptors "
              "(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR; tuttiMemAllocWithFlags makes it with them): {}",
              driver().describe(result));
}

MappedBuffer::MappedBuffer(const Device& device, const BufferShape& shape, const Ask& ask, const std::string& whose)
    : device_(device), bytes_(shape.bytes) {
  const WithContext with(device.context());
  if (shape.pieces == 0 || shape.pieces > BufferShape::kMaxPieces) {
    throw_error(Code::ProtocolError, "{} states a buffer of {} pieces", whose, shape.pieces);
  }
  try {
    shape.pieces == 1 && shape.has_handles ? open(ask(0), whose) : map(shape.pieces, ask, whose);
  } catch (...) {
    unmap();
    throw;
  }
}

void MappedBuffer::check_import(CUresult result, const std::string& whose) const {
  if (result == CUDA_SUCCESS) return;
  throw_error(Code::Unsupported, "{} cannot read the buffer of {}: {}", device_.name(), whose,
              driver().describe(result));
}

/// An allocation that has a handle.
void MappedBuffer::open(const BufferPiece& piece, const std::string& whose) {
  CUipcMemHandle handle{};
  if (piece.handle.size() != sizeof handle) {
    throw_error(Code::ProtocolError, "{} states a handle of {} bytes", whose, piece.handle.size());
  }
  std::memcpy(&handle, piece.handle.data(), sizeof handle);
  check_import(driver().cuIpcOpenMemHandle(&opened_, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), whose);
  base_ = opened_;
  CUdeviceptr begin = 0;
  size_t extent = 0;
  check(driver().cuMemGetAddressRange(&begin, &extent, opened_), "the extent of a peer's buffer");
  if (bytes_ > extent) throw_error(Code::ProtocolError, "{} states {} bytes, of {}", whose, bytes_, extent);
}

/// Allocations with descriptors, one behind the other.
void MappedBuffer::map(uint64_t pieces, const Ask& ask, const std::string& whose) {
  check(driver().cuMemAddressReserve(&base_, bytes_, 0, 0, 0), "no addresses are left for a peer's buffer");
  reserved_ = true;
  for (uint64_t i = 0; i < pieces; ++i) {
    const BufferPiece piece = ask(i);
    if (!piece.handle.empty()) {
      throw_error(Code::Unsupported, "the buffer of {} has allocations of two kinds, or of several handles", whose);
    }
    if (piece.bytes > bytes_ - mapped_) {
      throw_error(Code::ProtocolError, "{} states {} bytes, and a piece of {} at byte {}", whose, bytes_, piece.bytes,
                  mapped_);
    }
    CUmemGenericAllocationHandle handle = 0;
    check_import(driver().cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(uintptr_t(piece.fd.get())),
                                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                 whose);
    const CUresult result = driver().cuMemMap(base_ + mapped_, piece.bytes, 0, handle, 0);
    driver().cuMemRelease(handle);  // the mapping keeps it
    check_import(result, whose);
    mapped_ += piece.bytes;
  }
  if (mapped_ != bytes_) throw_error(Code::ProtocolError, "{} states {} bytes, of {}", whose, bytes_, mapped_);
  const CUmemAccessDesc access = access_of(device_.number());
  check_import(driver().cuMemSetAccess(base_, bytes_, &access, 1), whose);
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
