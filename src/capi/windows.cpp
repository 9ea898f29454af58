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

/// On a window in memory of the host the stream is one of the library's, on others one of their backend's.
void submit(comm::OneSided call, const tuttiWindow& of, tuttiStream_t stream) {
  if (of.window->backend == comm::kHostBackend) return comm::submit(of.comm, of.window, call, stream_of(stream));
  if (stream != nullptr && is_stream(stream)) {
    throw_error(
        Code::InvalidArgument,
        "rank {}: {}: the stream is one of tuttiStreamCreate, and the window lies in memory of a device: it takes "
        "streams of that",
        of.comm->rank(), describe(call));
  }
  call.stream = stream;
  comm::submit(of.comm, of.window, call, nullptr);
}

tuttiResult_t submit(const comm::OneSided& call, tuttiWindow_t window, tuttiStream_t stream) {
  return guarded([&] { submit(call, window_of(window), stream); });
}

/// A signal's number; negative ones become too large.
uint32_t number_of(int signal) { return static_cast<uint32_t>(signal); }

/// Why this rank cannot take part in a registration. All ranks hear of it, which would else wait for this one.
Status refusal_of(const void* buffer, size_t bytes, const tuttiWindow_t* window) {
  if (window == nullptr) return {Code::InvalidArgument, "the window is NULL"};
  if (buffer == nullptr && bytes > 0) return {Code::InvalidArgument, "the buffer is NULL"};
  if (bytes >= comm::kEndOfMemory || reinterpret_cast<uintptr_t>(buffer) + bytes > comm::kEndOfMemory) {
    return {Code::InvalidArgument, fmt::format("the buffer of {} bytes would pass the end of memory", bytes)};
  }
  return {};
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
    Status refusal = refusal_of(buffer, bytes, window);
    uint8_t backend = comm::kHostBackend;
    try {
      if (refusal.ok() && bytes > 0 && comm::other_backends_in_use()) backend = comm::backend_of(buffer);
    } catch (const Error& error) {
      refusal = Status::from(error);
    }
    auto made = comm::register_window(communicator, buffer, bytes, backend, refusal);
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

/// Without a stream what the rank has enqueued has ended when it enters the barrier.
tuttiResult_t tuttiWindowBarrier(tuttiWindow_t window, tuttiStream_t stream) {
  return guarded([&] {
    const tuttiWindow& of = window_of(window);
    submit({.what = What::Flush, .peer = TUTTI_ALL_PEERS}, of, stream);
    comm::Call barrier{.spec = {.collective = Collective::Barrier}};
    const bool on_device = of.window->backend != comm::kHostBackend && stream != nullptr;
    if (on_device) {
      barrier.backend = of.window->backend;
      barrier.stream = stream;
    }
    comm::submit(of.comm, barrier, on_device ? nullptr : stream_of(stream));
    submit({.what = What::Acquire}, of, stream);
  });
}
