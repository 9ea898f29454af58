#include "exec/compile/layout.hpp"

namespace tutti::exec {

uint64_t total(const Runs& runs) {
  uint64_t bytes = 0;
  for (const Run& run : runs) bytes += run.bytes;
  return bytes;
}

Runs Layout::runs_of(plan::Range pieces) const {
  Runs runs;
  for (uint32_t p = pieces.begin; p < pieces.end; ++p) {
    const plan::Piece& piece = plan_.pieces[p];
    const auto base = static_cast<Base>(piece.buffer);
    const uint64_t first = cut(piece, piece.first), last = cut(piece, piece.last);
    if (first == last) continue;
    const uint64_t offset = block_offset(piece) + first * geometry_.element_bytes;
    const uint64_t bytes = (last - first) * geometry_.element_bytes;
    if (!runs.empty() && runs.back().base == base && runs.back().offset + runs.back().bytes == offset) {
      runs.back().bytes += bytes;
    } else {
      runs.push_back({base, offset, bytes});
    }
  }
  return runs;
}

uint64_t Layout::cut(const plan::Piece& piece, uint32_t index) const {
  return plan::cut(plan::boundary(plan_, piece.partition, index), window_, geometry_.element_bytes, plan_.grain);
}

uint64_t Layout::block_offset(const plan::Piece& piece) const {
  if (piece.buffer == plan::Buffer::Scratch) return piece.block * scratch_window(geometry_);
  // Several blocks belong to ranks, which a plan numbers in its own order.
  const bool by_rank = plan::blocks(plan_.shape, piece.buffer, plan_.rank) > 1;
  const auto block = static_cast<Rank>(piece.block);
  const auto index = static_cast<uint64_t>(by_rank ? actual(block) : block);
  return index * geometry_.count * geometry_.element_bytes;
}

uint64_t Layout::scratch_window(const Geometry& geometry) {
  constexpr uint64_t kAlignment = 128;
  return (geometry.window * geometry.element_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace tutti::exec
