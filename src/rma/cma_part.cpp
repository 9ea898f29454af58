#include "rma/cma_part.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "base/format.hpp"
#include "base/log.hpp"
#include "link/cma.hpp"
#include "link/mapped_memory.hpp"
#include "link/writable_memory.hpp"
#include "rma/refusals.hpp"
#include "tutti/error.hpp"

namespace tutti::rma {
namespace {

const unsigned char* here(const void* bytes) { return static_cast<const unsigned char*>(bytes); }
/// An address in the peer's process.
unsigned char* there(uint64_t address) { return reinterpret_cast<unsigned char*>(address); }

}  // namespace

CmaPart::CmaPart(Connections& connections, Rank peer, uint64_t window, const Part& part,
                 link::PeerRegions::Mapped signals)
    : connections_(connections),
      peer_(peer),
      window_(window),
      part_(part),
      process_(static_cast<int>(connections.wireup().process_id(peer).process)),
      signals_(std::move(signals)),
      line_(reinterpret_cast<SignalLine*>(signals_->base())[connections.wireup().rank()]),
      requests_(connections, peer, window) {
  probe();
  line_.reaches.store(1, std::memory_order_release);
}

/// Reads the token, writes it beside the gate, and reads both ends of the part, which may lie in memory of a device.
void CmaPart::probe() const {
  uint64_t word = 0;
  unsigned char end = 0;
  auto* const bytes = reinterpret_cast<unsigned char*>(&word);
  if (part_.gate == 0) throw Error(Code::Unsupported, "its system had no page for a gate");
  const auto must = [](const char* what, int error) {
    if (error == 0) return;
    throw_error(Code::Unsupported, "its process's memory cannot be {} by CMA: {}", what, system_words(error));
  };
  must("read", link::cma_read(process_, there(part_.token_at), bytes, sizeof word));
  if (word != part_.token) throw Error(Code::Unsupported, "its process is another one for this process");
  must("written", link::cma_write(process_, bytes, there(part_.gate + sizeof word), sizeof word, part_.gate));
  must("read", link::cma_read(process_, there(part_.memory), &end, 1));
  must("read", link::cma_read(process_, there(part_.memory + part_.bytes - 1), &end, 1));
}

void CmaPart::check_open() const {
  const Closed closed = line_.closed.load(std::memory_order_acquire);
  if (closed != Closed::No) throw_closed(peer_, window_, closed, connections_.ends());
}

/// copy() returns an errno. If that is of memory, check_here() throws if it is this process's. False: the kernel does
/// not permit it (any more), and requests do it.
template <class Copy, class CheckHere>
bool CmaPart::copy(Copy&& copy, CheckHere&& check_here) {
  if (!is_permitted_) return false;
  const Use use(line_);
  if (!use.allowed()) throw_closed(peer_, window_, use.closed(), connections_.ends());
  const int error = copy();
  if (error == 0) return true;
  if (error == EFAULT) check_here();
  if (error == EFAULT || error == ESRCH) throw_failed(error);
  log_warn("rank {}'s part of the window of call {} is reached by requests from now on, which take longer: {}", peer_,
           window_, system_words(error));
  return is_permitted_ = false;
}

/// The gate is shut; the bytes are not there; or the peer's process has ended.
void CmaPart::throw_failed(int error) const {
  check_open();
  if (error == ESRCH) {
    if (leaves(peer_, connections_.ends())) throw_left(peer_);
    throw_error(Code::PeerFailed, "rank {} (process {}) is gone", peer_, process_);
  }
  throw_unmapped(peer_, window_);
}

void CmaPart::put(std::span<const std::byte> source, uint64_t offset, double limit) {
  const auto write = [&] {
    return link::cma_write(process_, here(source.data()), there(part_.memory + offset), source.size(), part_.gate);
  };
  const bool done = copy(write, [&] {
    if (!link::is_mapped(source.data(), source.size())) throw_not_here(source);
    if (!link::is_readable_throughout(source.data(), source.size())) throw_unreadable(source, peer_);
  });
  if (!done) requests_.put(source, offset, limit);
}

void CmaPart::get(std::span<std::byte> into, uint64_t offset, double limit) {
  const auto read = [&] {
    auto* const to = reinterpret_cast<unsigned char*>(into.data());
    const int error = link::cma_read(process_, there(part_.memory + offset), to, into.size());
    // No gate stops a read: if this process was stopped before, the owner may have closed the part meanwhile.
    std::atomic_thread_fence(std::memory_order_acquire);
    check_open();
    return error;
  };
  const bool done = copy(read, [&] {
    if (!link::is_mapped(into.data(), into.size())) throw_not_here(into);
    if (!link::is_writable_throughout(into.data(), into.size())) throw_unwritable(into);
  });
  if (!done) requests_.get(into, offset, limit);
}

void CmaPart::signal(uint32_t signal, double) {
  check_open();
  line_.arrived[signal].store(++sent_[signal], std::memory_order_release);
}

}  // namespace tutti::rma
