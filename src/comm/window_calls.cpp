// Windows: registering them, which all ranks do, and one-sided calls, which a rank makes alone.
#include <cstring>
#include <span>
#include <utility>

#include "base/format.hpp"
#include "base/log.hpp"
#include "base/process_generation.hpp"
#include "comm/communicator.hpp"
#include "comm/window.hpp"
#include "control/wait_table.hpp"
#include "rma/agent.hpp"
#include "transports/pod_text.hpp"

namespace tutti::comm {
namespace {

using What = OneSided::What;

constexpr int kReads = 1000;  // of a signal in a row, before pauses, one of which takes nearly as long as a line's way

std::span<const std::byte> source_of(const OneSided& call) {
  return {static_cast<const std::byte*>(call.source), call.bytes};
}
std::span<std::byte> target_of(const OneSided& call) { return {static_cast<std::byte*>(call.into), call.bytes}; }

void put_word(void* into, uint64_t word) {
  if (into != nullptr) std::memcpy(into, &word, sizeof word);
}

/// What the agent does before and after a call is ordered with it.
class Synchronized {
 public:
  explicit Synchronized(WindowServices* services) : services_(services) { synchronize(); }
  ~Synchronized() { synchronize(); }
  Synchronized(const Synchronized&) = delete;
  Synchronized& operator=(const Synchronized&) = delete;

 private:
  void synchronize() const {
    if (services_ != nullptr) services_->target->synchronize();
  }
  WindowServices* const services_;
};

/// What ranks have given to the exchange. One that cannot take part gives a text instead of a Part: then all refuse.
std::vector<rma::Part> parts_of(const std::vector<std::string>& all) {
  std::vector<rma::Part> parts(all.size());
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (transports::unpack(all[rank], parts[rank]) && parts[rank].magic == rma::Part::kMagic) continue;
    throw_error(Code::OutOfMemory, "window_register(): rank {} cannot take part: {}", rank,
                transports::printable_reply(all[rank]));
  }
  return parts;
}

}  // namespace

WindowServices::WindowServices(transports::Wireup& wireup, const std::atomic<uint32_t>& failed)
    : process(process_generation()), target(rma::Target::open(wireup)), channels(wireup, failed) {
  rma::Agent::of_this_process().when_started(
      [](pid_t thread) { control::WaitTable::of_this_process().add_own_thread(thread); });
}

WindowServices::~WindowServices() {
  if (process == process_generation()) target->close();
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
    case What::Acquire:
      return "window_barrier()";
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
  // One that a peer stores itself is here as soon as it is sent.
  const bool at_once = line_.reaches.load(std::memory_order_acquire) != 0;
  exec::Stall stall{.await = at_once ? exec::Await::Signal : exec::Await::FarSignal, .peer = from_};
  stall.seconds = seconds;
  stall.id = stall_id;
  stall.all = {{.peer = from_, .await = stall.await}};
  Status status = observer_.stalled(stall);
  if (status.ok()) return;
  status_ = std::move(status);
  done_ = true;
}

std::shared_ptr<Window> Communicator::register_window(void* memory, uint64_t bytes) {
  const Deadline deadline = begin_control_call({.registers = true});
  std::shared_ptr<Window> window;
  try {
    const std::vector<std::string> all = in_control_call([&] {
      if (windows_ == nullptr) windows_ = std::make_unique<WindowServices>(*endpoint_, failed_);
      std::string mine;
      try {
        window = std::make_shared<Window>(
            calls_, rma::OwnPart::make({endpoint_->name(), rank(), calls_}, memory, bytes, ranks()), ranks());
        windows_->target->expose(calls_, window->own->exposed());
        mine = transports::pack(window->own->part());
      } catch (const std::exception& error) {  // the others are not to wait for this rank
        mine = error.what();
      }
      return exchange(std::move(mine), deadline);
    });
    board_->leave(calls_);
    trace_->leave();
    std::vector<rma::Part> parts = parts_of(all);  // throws on all ranks if one cannot take part
    window->parts.emplace(calls_, *endpoint_, windows_->channels, std::move(parts), deadline);
    for (Rank peer = 0; peer < ranks(); ++peer) {
      window->places.emplace_back(window->parts->address(peer), window->parts->bytes(peer));
    }
    ++windows_->live;
    return window;
  } catch (...) {
    if (window != nullptr) close_window(*window);
    throw;
  }
}

/// When it returns, no other rank writes to this rank's part any more.
void Communicator::close_window(Window& window) {
  if (windows_ != nullptr) windows_->target->withdraw(window.number);
  if (!window.own->close()) {
    log_error(
        "rank {}: a rank that is stopped may still write to a window's memory when it continues: the system refuses "
        "new pages, or the memory shares pages with other data",
        rank());
  }
  window.parts.reset();
}

/// The same, also if it throws.
void Communicator::deregister_window(Window& window) {
  if (!window.parts) throw_error(Code::InvalidUsage, "rank {}: the window was deregistered", rank());
  if (windows_ != nullptr) --windows_->live;
  try {
    const Deadline deadline = begin_control_call({.deregisters = true, .count = window.number});
    in_control_call([&] {
      for (Rank peer = 0; peer < ranks(); ++peer) window.parts->flush(peer, timeouts_.of_init());
      return exchange({}, deadline);  // all have flushed
    });
    board_->leave(calls_);
    trace_->leave();
  } catch (...) {
    close_window(window);
    throw;
  }
  close_window(window);
}

void Communicator::refuse(const OneSided& call) const {
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
  if (call.what == What::WaitSignal && (call.count == 0 || call.count > OneSided::kMaxSignals)) {
    refuse(fmt::format("the count is from 1 to {}", OneSided::kMaxSignals));
  }
  throw_error(Code::InvalidArgument, "rank {}: {}: the offset is no multiple of 8", rank(), describe(call));
}

/// Runs it if that takes loads and stores alone, without requests of or to this rank and without a long wait: then it
/// makes no system call, takes no lock and allocates nothing. False: nothing was done.
bool Communicator::run_directly(Window& window, const OneSided& call) const {
  if (!window.parts || windows_ == nullptr || windows_->target->is_served()) [[unlikely]]
    return false;
  if (call.what == What::WaitSignal) return take_soon(window, call);  // also after a failure
  if (has_failed() || left_) [[unlikely]]
    return false;
  rma::Window& parts = *window.parts;
  uint64_t before = 0;
  switch (call.what) {
    case What::Put:
      return parts.try_put(source_of(call), call.peer, call.offset);
    case What::PutSignal:
      return parts.try_put(source_of(call), call.peer, call.offset) && parts.try_signal(call.peer, call.signal);
    case What::Get:
      return parts.try_get(target_of(call), call.peer, call.offset);
    case What::Signal:
      return parts.try_signal(call.peer, call.signal);
    case What::Add:
      if (!parts.try_add(call.operand, call.peer, call.offset, before)) return false;
      return put_word(call.into, before), true;
    case What::CompareSwap:
      if (!parts.try_compare_swap(call.expected, call.operand, call.peer, call.offset, before)) return false;
      return put_word(call.into, before), true;
    case What::Flush:
      return call.peer != OneSided::kAllPeers && parts.try_flush(call.peer);
    default:
      return false;
  }
}

/// Waits as long as threads spin, and yield without a look at the clock: a peer that answers at once needs no more.
bool Communicator::take_soon(Window& window, const OneSided& call) const {
  const auto take = [&] { return window.take(call.peer, call.signal, call.count); };
  if (take()) return true;
  for (int turn = 0; turn < kReads && backoff_.spins > 0; ++turn) {
    if (take()) return true;
  }
  exec::Waiter waiter(backoff_);
  for (uint32_t turn = 0; turn < backoff_.spins + machine_constants().untimed_yields; ++turn) {
    if (take()) return true;
    waiter.turn();
  }
  return false;
}

void Communicator::run_in_full(Window& window, const OneSided& call) {
  const Synchronized with_agent(windows_.get());
  if (call.what == What::WaitSignal && window.parts && take_soon(window, call)) return;  // also after a failure
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
    diagnostics_.begin_other([&] { return describe(call); });
    const Status status =
        diagnostics_.link_failed(error.code(), fmt::format("rank {}: {}: {}", rank(), describe(call), error.what()));
    diagnostics_.end_other();
    leave_trace();
    status.throw_if_bad();
  }
}

void Communicator::carry_out(rma::Window& parts, const OneSided& call) const {
  const double limit = timeouts_.of_calls();
  switch (call.what) {
    case What::Put:
      return parts.put(source_of(call), call.peer, call.offset, limit);
    case What::Get:
      return parts.get(target_of(call), call.peer, call.offset, limit);
    case What::PutSignal:
      parts.put(source_of(call), call.peer, call.offset, limit);
      return parts.signal(call.peer, call.signal, limit);
    case What::Signal:
      return parts.signal(call.peer, call.signal, limit);
    case What::Add:
      return put_word(call.into, parts.add(call.operand, call.peer, call.offset, limit));
    case What::CompareSwap:
      return put_word(call.into, parts.compare_swap(call.expected, call.operand, call.peer, call.offset, limit));
    case What::Flush:
      if (call.peer != OneSided::kAllPeers) return parts.flush(call.peer, limit);
      for (Rank peer = 0; peer < ranks(); ++peer) parts.flush(peer, limit);
      return;
    case What::Acquire:  // run_in_full() does
    case What::WaitSignal:
      return;
  }
}

void Communicator::await_signal(Window& window, const OneSided& call) {
  const rma::SignalLine& line = window.own->from(call.peer);
  const uint64_t taken = window.taken[static_cast<size_t>(call.peer)][call.signal];
  SignalWait wait(line, call.signal, taken + call.count, call.peer, failed_, backoff_, diagnostics_);
  diagnostics_.begin_other([&] { return describe(call); });
  wait.wait();
  diagnostics_.end_other();
  if (!wait.status().ok()) leave_trace();
  wait.status().throw_if_bad();
  window.take(call.peer, call.signal, call.count);
}

}  // namespace tutti::comm
