// Buffers of the user that other ranks' GPUs read where they lie: one of this rank's, as it is given away, and one of
// another process, as it is mapped. A buffer may consist of several allocations that were mapped one behind the other.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/env.hpp"
#include "base/fd.hpp"
#include "link/link.hpp"
#include "transports/cuda/device.hpp"

namespace tutti::cuda {

/// What the owner of a buffer tells its peers.
struct BufferShape {
  static constexpr uint64_t kMaxPieces = 1 << 14;
  uint64_t address = 0;      ///< in the owner's process, where the first piece begins
  uint64_t bytes = 0;        ///< of all pieces
  uint64_t pieces = 0;       ///< allocations, one behind the other
  bool has_handles = false;  ///< they were allocated, not mapped: other processes open handles
};

/// One allocation of a buffer, as another process maps it.
struct BufferPiece {
  uint64_t bytes = 0;
  std::string handle = "";  ///< CUipcMemHandle; "": there is a descriptor
  Fd fd = Fd();
};

/// The driver's number of the allocation that holds this address, never used again in the process; 0: there is none.
uint64_t allocation_number(const void* data);

/// A buffer of this rank that peers may map.
class OwnBuffer {
 public:
  /// All allocations that hold these bytes. Throws Error(Unsupported) with the reason if one cannot be given away,
  /// Error(InvalidArgument) if they are no memory of the device.
  OwnBuffer(const Device& device, const void* data, uint64_t bytes);
  ~OwnBuffer();
  OwnBuffer(const OwnBuffer&) = delete;
  OwnBuffer& operator=(const OwnBuffer&) = delete;
  const BufferShape& shape() const { return shape_; }
  const unsigned char* base() const { return reinterpret_cast<const unsigned char*>(shape_.address); }
  /// Lets another GPU of this process, if it reaches this one, read memory that was mapped.
  void open_to(const Device& other) const;
  bool holds(const void* data, uint64_t bytes) const;
  /// Has the user freed some of these bytes, and perhaps allocated other memory there?
  bool was_freed(const void* data, uint64_t bytes) const;
  /// Throws Error(InvalidArgument) if there is no such piece, Error(Unsupported) if it has no descriptor.
  BufferPiece piece(uint64_t number) const;

 private:
  void add_pieces(const void* data, uint64_t bytes);
  void add_piece(CUdeviceptr begin, uint64_t bytes);
  void release();
  const Device& device_;
  struct Piece {
    uint64_t bytes = 0;
    uint64_t number = 0;                      // the driver's
    std::string handle = "";                  // of memory that was allocated
    CUmemGenericAllocationHandle mapped = 0;  // of memory that was mapped
  };
  BufferShape shape_;
  std::vector<Piece> pieces_;
};

/// A buffer of another process, as this rank's GPU reads it.
class MappedBuffer {
 public:
  using Ask = std::function<BufferPiece(uint64_t number)>;
  /// `ask`: asks its owner, `whose` (for texts), for a piece. Throws Error(Unsupported | ProtocolError) and what `ask`
  /// throws.
  MappedBuffer(const Device& device, const BufferShape& shape, const Ask& ask, const std::string& whose);
  ~MappedBuffer() { unmap(); }
  MappedBuffer(const MappedBuffer&) = delete;
  MappedBuffer& operator=(const MappedBuffer&) = delete;
  link::MappedRegion region() const { return {reinterpret_cast<const unsigned char*>(base_), bytes_}; }

 private:
  void open(const BufferPiece& piece, const std::string& whose);
  void map(uint64_t pieces, const Ask& ask, const std::string& whose);
  void check_import(CUresult result, const std::string& whose) const;
  void unmap();
  const Device& device_;
  uint64_t bytes_ = 0;
  CUdeviceptr base_ = 0;
  CUdeviceptr opened_ = 0;  // by a handle
  uint64_t mapped_ = 0;     // bytes, of pieces with a descriptor
  bool reserved_ = false;
};

}  // namespace tutti::cuda
