// A call as the user made it, and its text in messages.
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

/// Where no process has memory: x86-64 with five levels of page tables has the most addresses of all.
inline constexpr uintptr_t kEndOfMemory = uintptr_t{1} << 57;

struct VectorBlocks;  // comm/vector_calls.hpp

/// Calls on windows (comm/one_sided.hpp).
enum class OneSidedCall : uint8_t { Put, Get, Signal, PutSignal, WaitSignal, Add, CompareSwap, Flush, Acquire };
inline constexpr int kOneSidedCalls = 9;
/// "put".
const char* name_of(OneSidedCall call);

/// The arguments that must be equal on all ranks. For send and recv, `root` is the peer and `sends` distinguishes the
/// two; `one_sided` says what calls on windows mean. In a vector call `count` is 0, or for a reduction, whose counts
/// must be equal on all ranks, a hash of the counts.
struct CallSpec {
  Collective collective = Collective::Barrier;
  DType type = DType::U8;
  Op op = Op::Sum;
  bool sends : 1 = false;
  bool is_vector : 1 = false;    ///< a vector call: blocks differ in length
  bool splits : 1 = false;       ///< tuttiCommSplit; it is numbered with the collectives, and other fields are unused
  bool leaves : 1 = false;       ///< tuttiCommDestroy, likewise
  bool registers : 1 = false;    ///< tuttiWindowRegister, likewise …
  bool deregisters : 1 = false;  ///< … and tuttiWindowDeregister, of the window that call number `count` made
  /// A call on a window, which is not numbered with the collectives: `op` is a OneSidedCall, `type` a signal's number,
  /// `root` the peer (−1: all), `count` the bytes, or the signals that are waited for; `collective` is SendRecv.
  bool one_sided : 1 = false;
  bool suspends : 1 = false;  ///< tuttiCommSuspend, or with `count` 1 tuttiCommResume; numbered as splits are

  /// It moves no data.
  bool is_control() const { return splits || leaves || registers || deregisters || suspends; }
  OneSidedCall call_on_window() const { return static_cast<OneSidedCall>(op); }
  /// Of its count.
  uint64_t bytes() const {
    if (one_sided) return call_on_window() == OneSidedCall::WaitSignal ? 0 : count;
    return count * size_of(type);
  }
  Rank root = 0;
  uint64_t count = 0;

  /// Everything but the count, as one word: every call is compared with the last one.
  uint64_t kinds() const { return std::bit_cast<std::array<uint64_t, 2>>(*this)[0]; }
  bool operator==(const CallSpec& other) const { return kinds() == other.kinds() && count == other.count; }
};
static_assert(sizeof(CallSpec) == 16 && std::has_unique_object_representations_v<CallSpec>,
              "two words without padding");

/// "all_reduce(count=1024, f32, sum)", "broadcast(count=8, i32, root=2)", "barrier()", "send(count=4, f32, to rank 1)",
/// "all_gather_v(f32)", "split()".
std::string describe(const CallSpec& spec);

/// The number of the host's backend; the i-th of exec::backends() has number i + 1.
inline constexpr uint8_t kHostBackend = 0;

/// A call with its buffers. `scale` holds one element if the operator is PreMulSum, or the address of one.
struct Call {
  CallSpec spec;
  const void* in = nullptr;
  void* out = nullptr;
  unsigned char scale[8] = {};
  bool scale_by_address = false;  ///< `scale` is the address of an element in the backend's memory
  uint8_t backend = kHostBackend;
  void* stream = nullptr;                      ///< of the backend, if that is not the host's
  std::shared_ptr<const VectorBlocks> blocks;  ///< of a vector call
};

/// A transfer of a group: the `number`-th to (from) its peer.
struct NumberedCall {
  Call call;
  uint64_t number = 0;
};

}  // namespace tutti::comm
