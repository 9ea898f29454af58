// Windows: registering them, which all ranks do, and one-sided calls, which a rank makes alone.
#include <cstring>
#include <span>
#include <utility>

#include "base/format.hpp"
#include "base/log.hpp"
#include "comm/communicator.hpp"
#include "comm/window.hpp"
#include "control/wait_table.hpp"
#include "rma/agent.hpp"
#include "transports/pod_text.hpp"

namespace tutti::comm {
namespace {

using What = OneSided::What;

std::span<const std::byte> source_of(const OneSided& call) {
  return {static_cast<const std::byte*>(call.source), call.bytes};
}
std::span<std::byte> target_of(const OneSided& call) { return {static_cast<std::byte*>(call.into), call.bytes}; }

void put_word(void* into, uint64_t word) {
  if (into != nullptr) std::memcpy(into, &word, sizeof word);
}

/// What ranks have given to the exchange. One that cannot take part gives a text instead of a Part: then all refuse.
std::vector<rma::Part> parts_of(const std::vector<std::string>& all) {
  std::vector<rma::Part> parts(all.size());
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (transports::unpack(all[rank], parts[rank])) continue;
    throw_error(Code::OutOfMemory, "window_register(): rank {} cannot take part: {}", rank,
                transports::printable_reply(all[rank]));
  }
  return parts;
}

}  // namespace

WindowServices::WindowServices(transports::Wireup& wireup, const std::atomic<uint32_t>& failed)
    : target(rma::Target::open(wireup)), channels(wireup, failed) {
  rma::Agent::of_this_process().when_started(
      [](pid_t thread) { control::WaitTable::of_this_process().add_own_thread(thread); });
}

std::string describe(const OneSided& call) {
  switch (call.what) {
    case What::Put:
      return fmt::format("put({} bytes, to rank {} at offset {})", call.bytes, call.peer, call.offset);
    case What::Get:
      return fmt::format("get({} bytes, from rank {} at offset {})", call.bytes, call.peer, call.offset);
    case What::Signal:
      return fmt::format("signal({}, to rank {})", call.signal, call.peer);
    case What::PutSignal:
      return fmt::format("put_signal({} bytes, to rank {} at offset {}, signal {})", call.bytes, call.peer, call.offset,
                         call.signal);
    case What::WaitSignal:
      return fmt::format("wait_signal({} of signal {}, from rank {})", call.count, call.signal, call.peer);
    case What::Add:
      return fmt::format("atomic_add(to rank {} at offset {})", call.peer, call.offset);
    case What::CompareSwap:
      return fmt::format("atomic_compare_swap(to rank {} at offset {})", call.peer, call.offset);
    case What::Flush:
      break;
  }
  return call.peer == OneSided::kAllPeers ? "flush()" : fmt::format("flush(rank {})", call.peer);
}

void SignalWait::wait() {
  exec::Pending* self = this;
  exec::wait_for_one({&self, 1}, backoff_);
}

void SignalWait::check_failure(double) {
  if (done_ || failed_.load(std::memory_order_acquire) == 0) return;
  if (poll()) return;  // it came before the failure
  status_ = observer_.failed();
  done_ = true;
}

void SignalWait::check_stall(double seconds, uint64_t stall_id) {
  if (done_) return;
  exec::Stall stall{.await = await_, .peer = from_};
  stall.seconds = seconds;
  stall.id = stall_id;
  stall.all = {{.peer = from_, .await = await_}};
  Status status = observer_.stalled(stall);
  if (status.ok()) return;
  status_ = std::move(status);
  done_ = true;
}

std::shared_ptr<Window> Communicator::register_window(void* memory, uint64_t bytes) {
  const Deadline deadline = begin_control_call({.registers = true});
  std::shared_ptr<Window> window;
  std::vector<std::string> all;
  try {
    if (windows_ == nullptr) windows_ = std::make_unique<WindowServices>(*endpoint_, failed_);
    std::string mine;
    try {
      window = std::make_shared<Window>(calls_, memory, bytes, ranks());
      windows_->target->expose(calls_, window->own.exposed());
      mine = transports::pack(window->own.part());
    } catch (const std::exception& error) {  // the others are not to wait for this rank
      mine = error.what();
    }
    all = exchange(std::move(mine), deadline);
  } catch (const Error& error) {
    fail_control_call(error.code(), error.what());
  } catch (const std::exception& error) {
    fail_control_call(Code::OutOfMemory, error.what());
  }
  board_->leave(calls_);
  trace_->leave();
  try {
    std::vector<rma::Part> parts = parts_of(all);
    window->parts.emplace(calls_, *endpoint_, windows_->channels, std::move(parts), deadline);
  } catch (...) {  // all ranks refuse, or this one cannot reach another
    windows_->target->withdraw(calls_);
    throw;
  }
  return window;
}

/// When it returns, also by an exception, no other rank writes to the window any more.
void Communicator::deregister_window(Window& window) {
  if (!window.parts) throw_error(Code::InvalidUsage, "rank {}: the window was deregistered", rank());
  const auto end = [&] {
    if (windows_ != nullptr) windows_->target->withdraw(window.number);
    window.parts.reset();
  };
  try {
    const Deadline deadline = begin_control_call({.deregisters = true});
    try {
      for (Rank peer = 0; peer < ranks(); ++peer) window.parts->flush(peer, deadline);
      exchange({}, deadline);  // all have flushed
      end();
      board_->leave(calls_);
      trace_->leave();
    } catch (const Error& error) {
      fail_control_call(error.code(), error.what());
    }
  } catch (...) {
    end();
    if (!window.own.cut_off()) {
      log_error(
          "rank {}: a rank that is stopped, or slow, may still write to the window's memory: the system refuses "
          "new pages, or the memory shares pages with other data",
          rank());
    }
    throw;
  }
}

void Communicator::check(const OneSided& call) const {
  const auto refuse = [&](const std::string& why) {
    throw_error(Code::InvalidArgument, "rank {}: {}: {}", rank(), describe(call), why);
  };
  const bool all = call.what == What::Flush && call.peer == OneSided::kAllPeers;
  if (!all && (call.peer < 0 || call.peer >= ranks())) refuse(fmt::format("there are ranks 0 to {}", ranks() - 1));
  if (call.signal >= rma::kSignals) refuse(fmt::format("there are signals 0 to {}", rma::kSignals - 1));
  if ((call.what == What::Put || call.what == What::PutSignal) && call.source == nullptr && call.bytes > 0) {
    refuse("the source is NULL");
  }
  if (call.what == What::Get && call.into == nullptr && call.bytes > 0) refuse("the target is NULL");
  if (call.what == What::WaitSignal && call.count == 0) refuse("the count is 0");
  if ((call.what == What::Add || call.what == What::CompareSwap) && call.offset % sizeof(uint64_t) != 0) {
    refuse("the offset is no multiple of 8");
  }
}

void Communicator::run(Window& window, const OneSided& call) {
  unusable_status().throw_if_bad();
  if (!window.parts)
    throw_error(Code::InvalidUsage, "rank {}: {}: the window was deregistered", rank(), describe(call));
  if (call.what == What::WaitSignal) return await_signal(window, call);
  try {
    carry_out(*window.parts, call);
  } catch (const Error& error) {
    if (error.code() == Code::InvalidArgument || error.code() == Code::InvalidUsage) {
      throw_error(error.code(), "rank {}: {}: {}", rank(), describe(call), error.what());
    }
    diagnostics_.begin_other(describe(call));
    const Status status = diagnostics_.link_failed(error.code(), error.what());
    diagnostics_.end();
    leave_trace();
    status.throw_if_bad();
  }
}

void Communicator::carry_out(rma::Window& parts, const OneSided& call) const {
  const Deadline deadline = Deadline::in(timeouts_.of_calls());
  switch (call.what) {
    case What::Put:
      return parts.put(source_of(call), call.peer, call.offset, deadline);
    case What::Get:
      return parts.get(target_of(call), call.peer, call.offset, deadline);
    case What::PutSignal:
      parts.put(source_of(call), call.peer, call.offset, deadline);
      return parts.signal(call.peer, call.signal, deadline);
    case What::Signal:
      return parts.signal(call.peer, call.signal, deadline);
    case What::Add:
      return put_word(call.into, parts.add(call.operand, call.peer, call.offset, deadline));
    case What::CompareSwap:
      return put_word(call.into, parts.compare_swap(call.expected, call.operand, call.peer, call.offset, deadline));
    case What::Flush:
      if (call.peer != OneSided::kAllPeers) return parts.flush(call.peer, deadline);
      for (Rank peer = 0; peer < ranks(); ++peer) parts.flush(peer, deadline);
      return;
    case What::WaitSignal:
      return;
  }
}

void Communicator::await_signal(Window& window, const OneSided& call) {
  uint64_t& taken = window.taken[static_cast<size_t>(call.peer)][call.signal];
  const bool near = window.parts->address(call.peer) != nullptr;
  SignalWait wait(window.own.from(call.peer).arrived[call.signal], taken + call.count, call.peer,
                  near ? exec::Await::Signal : exec::Await::FarSignal, failed_, backoff_, diagnostics_);
  if (!wait.poll()) {
    diagnostics_.begin_other(describe(call));
    wait.wait();
    diagnostics_.end();
  }
  if (!wait.status().ok()) leave_trace();
  wait.status().throw_if_bad();
  taken += call.count;
}

}  // namespace tutti::comm
