#include "exec/cuda/far_calls.hpp"

#include <algorithm>
#include <utility>

namespace tutti::exec::cuda {
namespace {

using gpu::FarStep;
using gpu::FarSteps;
using gpu::kFarSlotBytes;
using What = WindowCall::What;

/// Bytes of a piece of a put or get: several pieces, so that copies and network work at the same time.
uint64_t far_piece(uint64_t bytes) {
  constexpr uint64_t kLeast = 64 << 10, kPieces = 8;
  return std::clamp((bytes / kPieces + kLeast - 1) / kLeast * kLeast, kLeast, kFarSlotBytes);
}

}  // namespace

FarCalls::FarCalls(const BackendContext& context, std::unique_ptr<gpu::WindowProxy> proxy,
                   std::function<void()> await_room)
    : proxy_(std::move(proxy)), steps_(*proxy_->steps()), await_room_(std::move(await_room)) {
  const transports::Wireup& wireup = *context.wireup;
  const std::string& here = wireup.process_id(wireup.rank()).host;
  for (Rank peer = 0; peer < wireup.ranks(); ++peer) far_.push_back(wireup.process_id(peer).host != here);
  dirty_.resize(far_.size());
}

bool FarCalls::takes(const WindowCall& call) const {
  if (call.what == What::WaitSignal) return false;  // the words of signals are this rank's
  if (call.peer != WindowCall::kAllPeers) return is_far(call.peer);
  return std::find(dirty_.begin(), dirty_.end(), true) != dirty_.end();
}

void FarCalls::connect(const WindowCall& call) const {
  if (call.peer != WindowCall::kAllPeers) proxy_->connect(call.peer);  // else there are streams to all that matter
}

uint64_t FarCalls::add(FarTurn& turn, const FarStep& step) const {
  if (!steps_.has_room()) {
    turn.begin();
    await_room_();
  }
  const uint64_t number = steps_.add(step);
  proxy_->called();
  return number;
}

void FarCalls::take(const WindowCall& call, uint64_t window, FarTurn& turn) {
  FarStep step{.peer = call.peer, .request = {.what = call.what, .window = window, .offset = call.offset}};
  switch (call.what) {
    case What::Put:
    case What::PutSignal:
      step.request.what = What::Put;
      put(call, step, turn);
      if (call.what == What::Put) break;
      [[fallthrough]];
    case What::Signal:
      step.request.what = What::Signal;
      step.request.operand = call.signal;
      turn.post(add(turn, step) + 1);
      break;
    case What::Get:
      return get(call, step, turn);
    case What::Add:
    case What::CompareSwap:
      return atomic(call, step, turn);
    case What::Flush:
      for (Rank peer = 0; peer < static_cast<Rank>(far_.size()); ++peer) {
        if (call.peer != peer && call.peer != WindowCall::kAllPeers) continue;
        step.peer = peer;
        flush(step, turn);
      }
      return;
    case What::WaitSignal:
      return;
  }
  dirty_[static_cast<size_t>(call.peer)] = true;
}

void FarCalls::put(const WindowCall& call, const FarStep& to, FarTurn& turn) const {
  const uint64_t piece = far_piece(call.bytes);
  for (uint64_t at = 0; at < call.bytes; at += piece) {
    FarStep step = to;
    step.request.offset += at;
    step.request.bytes = std::min(piece, call.bytes - at);
    const uint64_t number = add(turn, step);
    if (number >= FarSteps::kSlots) turn.await(number + 1 - FarSteps::kSlots);
    turn.copy(steps_.slot_at(number), reinterpret_cast<CUdeviceptr>(call.source) + at, step.request.bytes);
    turn.post(number + 1);
  }
}

/// A slot is the proxy's when its step is posted: the stream has copied out what an earlier piece has left there.
void FarCalls::get(const WindowCall& call, const FarStep& from, FarTurn& turn) const {
  const uint64_t piece = far_piece(call.bytes), first = steps_.added();
  const uint64_t pieces = (call.bytes + piece - 1) / piece;
  uint64_t taken = 0;
  const auto take = [&] {
    turn.await(first + taken + 1);
    const uint64_t at = taken * piece;
    turn.copy(reinterpret_cast<CUdeviceptr>(call.into) + at, steps_.slot_at(first + taken),
              std::min(piece, call.bytes - at));
    ++taken;
  };
  for (uint64_t i = 0; i < pieces; ++i) {
    if (i - taken == FarSteps::kSlots) take();
    FarStep step = from;
    step.request.offset += i * piece;
    step.request.bytes = std::min(piece, call.bytes - i * piece);
    turn.post(add(turn, step) + 1);
  }
  while (taken < pieces) take();
}

void FarCalls::atomic(const WindowCall& call, const FarStep& on, FarTurn& turn) const {
  FarStep step = on;
  step.request.bytes = sizeof(uint64_t);
  step.request.operand = call.operand;
  step.request.expected = call.expected;
  const uint64_t number = add(turn, step);
  turn.post(number + 1);
  turn.await(number + 1);
  if (call.into != nullptr) {
    turn.copy(reinterpret_cast<CUdeviceptr>(call.into), steps_.slot_at(number), sizeof(uint64_t));
  }
}

void FarCalls::flush(const FarStep& on, FarTurn& turn) {
  if (!dirty_[static_cast<size_t>(on.peer)]) return;
  dirty_[static_cast<size_t>(on.peer)] = false;
  const uint64_t number = add(turn, on);
  turn.post(number + 1);
  turn.await(number + 1);
}

}  // namespace tutti::exec::cuda
