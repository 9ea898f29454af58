#include "exec/host/release_buffers.hpp"

#include <algorithm>

#include "base/deadline.hpp"
#include "base/log.hpp"
#include "exec/host/wait.hpp"
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

constexpr double kMoment = 1.0;    // seconds that other processes get
constexpr double kLongest = 10.0;  // … those that may be in the middle of a system call

bool goes(const InLink& in, Route way) {
  return (in.cooperative_reader.route & ~(link::kNontemporal | link::kEarly)) == static_cast<uint64_t>(way);
}

/// Is the reader of what was lent on this link out of it? Or is it in vain, or not needed, to wait for that?
bool is_read(OutLink& out, bool moment_over, const Lost& lost) {
  if (out.arena == nullptr) return !HostRevokeWire::being_read(out);  // the reader is in this process
  if (moment_over || out.acked >= out.zcopied) return true;
  HostWire::refresh(out);
  return out.acked >= out.zcopied || lost(out.peer);
}

/// The same of the writer of what was offered.
bool is_written(const InLink& in, bool moment_over, bool all_over, const Lost& lost) {
  if (alone(in)) return true;
  if (in.addresses) return false;
  if (goes(in, Route::CmaWrite)) return all_over || !link::may_be_in_kernel(in.process);
  return moment_over || lost(in.peer);
}

void wait_for_others(std::span<OutLink> outs, std::span<InLink> ins, const Lost& lost) {
  const Deadline moment = Deadline::in(kMoment), end = Deadline::in(kLongest);
  for (;;) {
    const bool moment_over = moment.passed(), all_over = end.passed();
    bool done = true;  // each link is looked at, also behind one that is not done: looking is what orders their reads
    for (OutLink& out : outs) done = is_read(out, moment_over, lost) && done;
    for (const InLink& in : ins) done = is_written(in, moment_over, all_over, lost) && done;
    if (done) return;
    nap(50e-6);
  }
}

/// The writer may store to memory that it maps whenever it likes: to pages that are not ours any more.
void part_with(const InLink& in) {
  const CooperativeReader& reader = in.cooperative_reader;
  const uint64_t page = link::page_bytes();
  const auto begin = reinterpret_cast<uintptr_t>(reader.to) + reader.edges.front;
  const auto end = reinterpret_cast<uintptr_t>(reader.to) + reader.bytes - reader.edges.back;
  const auto* const first = reinterpret_cast<const unsigned char*>(begin / page * page);
  const auto* const last = reinterpret_cast<const unsigned char*>((end + page - 1) / page * page);
  if (link::SharedMemory::of_this_process().renew(first, last)) {
    log_info("rank {} has not finished storing to memory of tuttiMemAlloc: {} bytes of it are ordinary memory from now",
             in.peer, last - first);
  } else {
    log_error("rank {} has not finished storing to the {} bytes at {}, and may go on: the system gives no other pages",
              in.peer, last - first, static_cast<const void*>(first));
  }
}

}  // namespace

void close_offers(std::span<InLink> ins) {
  for (InLink& in : ins) {
    if (in.cooperative_reader.phase == CooperativeReader::Phase::Open) HostCooperativeWire::close(in);
  }
}

bool alone(const InLink& in) {
  return in.cooperative_reader.phase == CooperativeReader::Phase::None || HostCooperativeWire::settled(in);
}

void let_go(std::span<OutLink> outs, std::span<InLink> ins, const Lost& lost) {
  for (OutLink& out : outs) {
    HostWire::refresh(out);
    if (out.acked < out.zcopied) HostRevokeWire::revoke(out);
  }
  close_offers(ins);
  for (InLink& in : ins) {
    if (!alone(in) && goes(in, Route::CmaWrite)) in.gate->shut();
    HostWire::close(in);
  }
  wait_for_others(outs, ins, lost);
  for (const InLink& in : ins) {
    if (!alone(in) && goes(in, Route::Mapped) && (in.process == 0 || !link::is_gone(in.process))) part_with(in);
  }
}

}  // namespace tutti::exec
