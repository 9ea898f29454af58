// What ranks ask each other of buffers that peers read where they lie (shared_buffers.hpp).
#pragma once

#include <string>

#include "base/fields.hpp"
#include "transports/cuda/shared_buffers.hpp"

namespace tutti::cuda {

inline constexpr const char* kBufferService = "cuda buffers";
inline constexpr size_t kMaxReason = 1024;  ///< bytes

struct SharedBuffers::Request {
  enum class Kind : uint8_t { Offer, Shape, Piece, Answer, Withdraw };
  Kind kind = Kind::Offer;
  uint64_t id = 0, number = 0;  ///< of the buffer
  uint64_t piece = 0;           ///< Piece: which
  std::string why_not = "";     ///< Answer: why it is not mapped; "": it is
  static void fields(auto& m, auto& v) {
    v.choice(m.kind, Kind::Withdraw);
    v.number(m.id, m.number, m.piece);
    v.words(m.why_not, kMaxReason);
  }
};

struct SharedBuffers::Reply {
  std::string refusal = "";
  BufferShape shape = {};   ///< to Shape
  uint64_t bytes = 0;       ///< to Piece: its bytes, …
  std::string handle = "";  ///< … and its handle; "": a descriptor comes along
  static void fields(auto& m, auto& v) {
    v.words(m.refusal, kMaxReason);
    v.number(m.shape.address, m.shape.bytes, m.shape.pieces);
    v.flag(m.shape.has_handles);
    v.number(m.bytes);
    v.text(m.handle, sizeof(CUipcMemHandle));
  }
};

}  // namespace tutti::cuda
