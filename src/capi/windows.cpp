// The C interface: windows and one-sided calls.
#include <utility>

#include "base/format.hpp"
#include "capi/handles.hpp"
#include "comm/placement.hpp"
#include "comm/submit.hpp"
#include "comm/window.hpp"

namespace tutti::capi {
namespace {

using What = comm::OneSided::What;

static_assert(TUTTI_SIGNALS == rma::kSignals);
static_assert(TUTTI_ALL_PEERS == comm::OneSided::kAllPeers);

tuttiResult_t submit(const comm::OneSided& call, tuttiWindow_t window, tuttiStream_t stream) {
  return guarded([&] {
    const tuttiWindow& of = window_of(window);
    comm::submit(of.comm, of.window, call, stream_of(stream));
  });
}

/// A signal's number; negative ones become too large.
uint32_t number_of(int signal) { return static_cast<uint32_t>(signal); }

/// Why this rank cannot take part in a registration. All ranks hear of it, which would else wait for this one.
Status refusal_of(const void* buffer, size_t bytes, const tuttiWindow_t* window) try {
  if (window == nullptr) return {Code::InvalidArgument, "the window is NULL"};
  if (buffer == nullptr && bytes > 0) return {Code::InvalidArgument, "the buffer is NULL"};
  if (bytes >= comm::kEndOfMemory || reinterpret_cast<uintptr_t>(buffer) + bytes > comm::kEndOfMemory) {
    return {Code::InvalidArgument, fmt::format("the buffer of {} bytes would pass the end of memory", bytes)};
  }
  if (bytes > 0 && comm::backend_of(buffer) != comm::kHostBackend) {
    return {Code::Unsupported, "windows in memory of GPUs are not supported yet"};
  }
  return {};
} catch (const Error& error) {
  return {error.code(), error.what()};
}

Rank checked_peer(const tuttiWindow& window, int peer) {
  if (peer >= 0 && peer < window.comm->ranks()) return peer;
  throw_error(Code::InvalidArgument, "rank {}: window: there is no rank {}: there are ranks 0 to {}",
              window.comm->rank(), peer, window.comm->ranks() - 1);
}

}  // namespace
}  // namespace tutti::capi

using namespace tutti;        // NOLINT: this file is the border
using namespace tutti::capi;  // NOLINT

tuttiResult_t tuttiWindowRegister(tuttiComm_t comm, void* buffer, size_t bytes, tuttiWindow_t* window) {
  return guarded([&] {
    if (window != nullptr) *window = nullptr;
    const auto communicator = communicator_of(comm);
    // In a group a thread may have several ranks, which would wait for each other.
    if (comm::in_group()) throw Error(Code::InvalidUsage, "tuttiWindowRegister cannot be called within a group");
    const Status refusal = refusal_of(buffer, bytes, window);
    auto made = comm::register_window(communicator, buffer, bytes, refusal);
    *window = make_handle(communicator, std::move(made));
  });
}

tuttiResult_t tuttiWindowDeregister(tuttiWindow_t window) {
  return guarded([&] {
    tuttiWindow& of = window_of(window);
    if (comm::in_group()) throw Error(Code::InvalidUsage, "tuttiWindowDeregister cannot be called within a group");
    if (!of.live.exchange(false)) refuse(window);  // another thread was first
    const auto communicator = of.comm;
    const auto its = of.window;
    retire(window);
    comm::deregister_window(communicator, *its);
  });
}

tuttiResult_t tuttiWindowPeer(tuttiWindow_t window, int peer, void** address) {
  return guarded([&] {
    required(address, "address") = nullptr;
    const tuttiWindow& of = window_of(window);
    *address = of.window->places[static_cast<size_t>(checked_peer(of, peer))].first;
  });
}

tuttiResult_t tuttiWindowSize(tuttiWindow_t window, int peer, size_t* bytes) {
  return guarded([&] {
    required(bytes, "bytes") = 0;
    const tuttiWindow& of = window_of(window);
    *bytes = of.window->places[static_cast<size_t>(checked_peer(of, peer))].second;
  });
}

tuttiResult_t tuttiPut(const void* source, size_t bytes, int peer, size_t offset, tuttiWindow_t window,
                       tuttiStream_t stream) {
  return submit({.what = What::Put, .peer = peer, .source = source, .bytes = bytes, .offset = offset}, window, stream);
}

tuttiResult_t tuttiGet(void* target, size_t bytes, int peer, size_t offset, tuttiWindow_t window,
                       tuttiStream_t stream) {
  return submit({.what = What::Get, .peer = peer, .into = target, .bytes = bytes, .offset = offset}, window, stream);
}

tuttiResult_t tuttiSignal(int peer, int signal, tuttiWindow_t window, tuttiStream_t stream) {
  return submit({.what = What::Signal, .peer = peer, .signal = number_of(signal)}, window, stream);
}

tuttiResult_t tuttiPutSignal(const void* source, size_t bytes, int peer, size_t offset, int signal,
                             tuttiWindow_t window, tuttiStream_t stream) {
  return submit({.what = What::PutSignal,
                 .peer = peer,
                 .signal = number_of(signal),
                 .source = source,
                 .bytes = bytes,
                 .offset = offset},
                window, stream);
}

tuttiResult_t tuttiWaitSignal(int peer, int signal, uint64_t count, tuttiWindow_t window, tuttiStream_t stream) {
  return submit({.what = What::WaitSignal, .peer = peer, .signal = number_of(signal), .count = count}, window, stream);
}

tuttiResult_t tuttiAtomicAdd(uint64_t operand, uint64_t* before, int peer, size_t offset, tuttiWindow_t window,
                             tuttiStream_t stream) {
  return submit({.what = What::Add, .peer = peer, .into = before, .offset = offset, .operand = operand}, window,
                stream);
}

tuttiResult_t tuttiAtomicCompareSwap(uint64_t expected, uint64_t desired, uint64_t* before, int peer, size_t offset,
                                     tuttiWindow_t window, tuttiStream_t stream) {
  return submit({.what = What::CompareSwap,
                 .peer = peer,
                 .into = before,
                 .offset = offset,
                 .operand = desired,
                 .expected = expected},
                window, stream);
}

tuttiResult_t tuttiFlush(int peer, tuttiWindow_t window, tuttiStream_t stream) {
  return submit({.what = What::Flush, .peer = peer}, window, stream);
}

tuttiResult_t tuttiWindowBarrier(tuttiWindow_t window, tuttiStream_t stream) {
  return guarded([&] {
    const tuttiWindow& of = window_of(window);
    const auto on = stream_of(stream);
    comm::submit(of.comm, of.window, {.what = What::Flush, .peer = TUTTI_ALL_PEERS}, on);
    comm::submit(of.comm, {.spec = {.collective = Collective::Barrier}}, on);
    comm::submit(of.comm, of.window, {.what = What::Acquire}, on);
  });
}
