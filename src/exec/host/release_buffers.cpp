#include "exec/host/release_buffers.hpp"

#include <algorithm>

#include "base/deadline.hpp"
#include "base/log.hpp"
#include "exec/wait.hpp"
#include "link/cma.hpp"
#include "link/host_memory.hpp"
#include "link/mapped_memory.hpp"

namespace tutti::exec {
namespace {

using link::CooperativeReader;
using link::HostCooperativeWire;
using link::HostRevokeWire;
using link::HostWire;
using link::InLink;
using link::OutLink;
using link::Route;

constexpr double kGrace = 1.0;            // seconds that other processes get to finish
constexpr double kMaxSyscallWait = 10.0;  // seconds for processes that may be inside a CMA system call

bool has_route(const InLink& in, Route route) {
  return (in.host->cooperative.route & ~(link::kNontemporal | link::kEarly)) == static_cast<uint64_t>(route);
}

/// Is the reader of this link's zero-copy messages done, or is there no need or use to wait longer?
bool is_read(OutLink& out, bool grace_over, const Lost& lost) {
  if (out.host == nullptr) return true;                               // its engine has stopped
  if (out.arena == nullptr) return !HostRevokeWire::being_read(out);  // the reader is in this process
  if (grace_over || out.acked >= out.zcopied) return true;
  HostWire::refresh(out);
  return out.acked >= out.zcopied || lost(out.peer);
}

/// The same for the writer to this link's offered destination.
bool is_written(const InLink& in, bool grace_over, bool syscall_wait_over, const Lost& lost) {
  if (writer_done(in)) return true;
  if (in.addresses) return false;
  if (has_route(in, Route::CmaWrite)) return syscall_wait_over || !link::may_be_in_kernel(in.host->process);
  return grace_over || lost(in.peer);
}

void wait_for_others(std::span<OutLink> outs, std::span<InLink> ins, const Lost& lost) {
  const Deadline grace = Deadline::in(kGrace), end = Deadline::in(kMaxSyscallWait);
  for (;;) {
    const bool grace_over = grace.passed(), syscall_wait_over = end.passed();
    bool done = true;  // checks every link, because each check orders that reader's loads before our return
    for (OutLink& out : outs) done = is_read(out, grace_over, lost) && done;
    for (const InLink& in : ins) done = is_written(in, grace_over, syscall_wait_over, lost) && done;
    if (done) return;
    nap(50e-6);
  }
}

/// Replaces the pages that the writer maps: its later stores go to pages that this process does not use.
void detach_pages(const InLink& in) {
  const CooperativeReader& reader = in.host->cooperative;
  const uint64_t page = link::page_bytes();
  const auto begin = reinterpret_cast<uintptr_t>(reader.to) + reader.edges.front;
  const auto end = reinterpret_cast<uintptr_t>(reader.to) + reader.bytes - reader.edges.back;
  const auto* const first = reinterpret_cast<const unsigned char*>(begin / page * page);
  const auto* const last = reinterpret_cast<const unsigned char*>((end + page - 1) / page * page);
  if (link::SharedMemory::of_this_process().renew(first, last)) {
    log_info(
        "rank {} has not finished storing to memory of tuttiMemAlloc: {} bytes of it are ordinary memory from now on",
        in.peer, last - first);
  } else {
    log_error("rank {} has not finished storing to the {} bytes at {}, and may continue: the system refuses new pages",
              in.peer, last - first, static_cast<const void*>(first));
  }
}

}  // namespace

void close_offers(std::span<InLink> ins) {
  for (InLink& in : ins) {
    if (in.host != nullptr && in.host->cooperative.phase == CooperativeReader::Phase::Open)
      HostCooperativeWire::close(in);
  }
}

bool writer_done(const InLink& in) {
  return in.host == nullptr || in.host->cooperative.phase == CooperativeReader::Phase::None ||
         HostCooperativeWire::settled(in);
}

void release_buffers(std::span<OutLink> outs, std::span<InLink> ins, const Lost& lost) {
  for (OutLink& out : outs) {
    HostWire::refresh(out);
    if (out.host != nullptr && out.acked < out.zcopied) HostRevokeWire::revoke(out);
  }
  close_offers(ins);
  for (InLink& in : ins) {
    if (!writer_done(in) && has_route(in, Route::CmaWrite)) in.host->gate->shut();
    HostWire::close(in);
  }
  wait_for_others(outs, ins, lost);
  for (const InLink& in : ins) {
    if (!writer_done(in) && has_route(in, Route::Mapped) && (in.host->process == 0 || !link::is_gone(in.host->process)))
      detach_pages(in);
  }
  // Buffers are released once. A later call on the failed communicator must not wait again, nor replace pages that the
  // caller has used since.
  for (OutLink& out : outs) out.zcopied = out.acked;
  for (InLink& in : ins) {
    if (in.host != nullptr) in.host->cooperative = {};
  }
}

}  // namespace tutti::exec
