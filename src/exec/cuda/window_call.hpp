// What the sources of WindowCalls share.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "exec/window.hpp"
#include "tutti/error.hpp"

namespace tutti::exec::cuda {

inline constexpr uint64_t kMaxTaken = uint64_t{1} << 62;  // signals: streams compare in a circle

inline uint64_t load(const uint64_t& word) {
  return std::atomic_ref(const_cast<uint64_t&>(word)).load(std::memory_order_seq_cst);
}

[[noreturn]] inline void refuse(Code code, const std::string& why) { throw Error(code, why); }

inline bool is_put(const WindowCall& call) {
  return call.what == WindowCall::What::Put || call.what == WindowCall::What::PutSignal;
}
inline bool is_atomic(const WindowCall& call) {
  return call.what == WindowCall::What::Add || call.what == WindowCall::What::CompareSwap;
}
/// It touches the peer's part.
inline bool is_use(const WindowCall& call) {
  return is_put(call) || call.what == WindowCall::What::Get || is_atomic(call);
}
inline uint64_t bytes_there(const WindowCall& call) { return is_atomic(call) ? sizeof(uint64_t) : call.bytes; }

}  // namespace tutti::exec::cuda
