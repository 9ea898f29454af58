// A call as the user made it, and how it reads in messages.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

#include "base/rank.hpp"
#include "tutti/types.hpp"

namespace tutti::comm {

struct Varying;  // comm/vector_calls.hpp

/// What must be equal on all ranks. For send and recv `root` is the peer, and `sends` tells which of the two it is.
/// Where blocks vary, `count` is 0, or, of a reduction, whose blocks must be as long on all ranks, a hash of their
/// lengths.
struct CallSpec {
  Collective collective = Collective::Barrier;
  DType type = DType::U8;
  Op op = Op::Sum;
  bool sends : 1 = false;
  bool varies : 1 = false;  ///< blocks differ from rank to rank
  bool splits : 1 = false;  ///< tuttiCommSplit, which is numbered with the collectives: nothing else is said here …
  bool leaves : 1 = false;  ///< … and so is tuttiCommDestroy
  uint8_t unused : 4 = 0;
  Rank root = 0;
  uint64_t count = 0;

  /// All but the count, as one word: every call is compared with the last one.
  uint64_t kinds() const { return std::bit_cast<std::array<uint64_t, 2>>(*this)[0]; }
  bool operator==(const CallSpec& other) const { return kinds() == other.kinds() && count == other.count; }
};
static_assert(sizeof(CallSpec) == 16 && std::has_unique_object_representations_v<CallSpec>, "two words, all of them");

/// "all_reduce(count=1024, f32, sum)", "broadcast(count=8, i32, root=2)", "barrier()", "send(count=4, f32, to rank 1)",
/// "all_gather_v(f32)", "split()".
std::string describe(const CallSpec& spec);

/// A call with its buffers. `scale` holds one element where the operator is PreMulSum.
struct Call {
  CallSpec spec;
  const void* in = nullptr;
  void* out = nullptr;
  unsigned char scale[8] = {};
  std::shared_ptr<const Varying> blocks;  ///< where spec.varies
};

}  // namespace tutti::comm
