// Buffers of the user that other ranks' GPUs read where they lie: what a rank gives away of its own, and what it has
// mapped of others'. A buffer may consist of several allocations that were mapped one behind the other.
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

/// One allocation of a buffer, as another process maps it: by a descriptor, or by this handle.
struct BufferPiece {
  uint64_t bytes = 0;
  std::string handle = "";  ///< CUipcMemHandle; "": there is a descriptor
  static void fields(auto& m, auto& v) {
    v.number(m.bytes);
    v.text(m.handle, sizeof(CUipcMemHandle));
  }
};

/// What the owner of a buffer tells its peers.
struct BufferReport {
  static constexpr size_t kMaxPieces = 1 << 14;
  uint64_t id = 0;       ///< of the region (link::SharedRegion), in the owner's numbers
  uint64_t address = 0;  ///< in the owner's process, where the first piece begins
  std::vector<BufferPiece> pieces;
  uint64_t bytes() const;
  static void fields(auto& m, auto& v) {
    v.number(m.id, m.address);
    v.list(m.pieces, kMaxPieces);
  }
};

/// A buffer of this rank that peers may map.
class OwnBuffer {
 public:
  /// All allocations that hold these bytes. Throws Error(Unsupported) with the reason if one cannot be given away,
  /// Error(InvalidArgument) if they are no memory of the device.
  OwnBuffer(const Device& device, const void* data, uint64_t bytes, uint64_t id);
  ~OwnBuffer();
  OwnBuffer(const OwnBuffer&) = delete;
  OwnBuffer& operator=(const OwnBuffer&) = delete;
  const BufferReport& report() const { return report_; }
  const unsigned char* base() const { return reinterpret_cast<const unsigned char*>(report_.address); }
  bool holds(const void* data, uint64_t bytes) const;
  /// Has the user freed some of these bytes, and perhaps allocated other memory there?
  bool was_freed(const void* data, uint64_t bytes) const;
  /// The descriptor of a piece. Throws Error(Unsupported).
  Fd piece(size_t number) const;

 private:
  void add_piece(CUdeviceptr begin, uint64_t bytes);
  const Device& device_;
  BufferReport report_;
  std::vector<CUmemGenericAllocationHandle> handles_;  // by piece; empty: pieces have handles in the report
  std::vector<uint64_t> numbers_;                      // the driver's, by piece
};

/// A buffer of another process, as this rank's GPU reads it.
class MappedBuffer {
 public:
  /// `piece`: asks its owner, `whose` (for texts), for a descriptor. Throws Error(Unsupported | ProtocolError) and what
  /// `piece` throws.
  MappedBuffer(const Device& device, const BufferReport& report, const std::function<Fd(size_t)>& piece,
               const std::string& whose);
  ~MappedBuffer() { unmap(); }
  MappedBuffer(const MappedBuffer&) = delete;
  MappedBuffer& operator=(const MappedBuffer&) = delete;
  link::MappedRegion region() const { return {reinterpret_cast<const unsigned char*>(base_), bytes_}; }

 private:
  void map(const BufferReport& report, const std::function<Fd(size_t)>& piece, const std::string& whose);
  void unmap();
  const Device& device_;
  uint64_t bytes_ = 0;
  CUdeviceptr base_ = 0;
  CUdeviceptr opened_ = 0;  // by a handle
  uint64_t mapped_ = 0;     // bytes, of pieces with a descriptor
  bool reserved_ = false;
};

}  // namespace tutti::cuda
