// One-sided calls: a rank makes them alone.
#include "comm/one_sided.hpp"

#include <cstring>
#include <span>
#include <utility>

#include "base/format.hpp"
#include "comm/call_diagnostics.hpp"
#include "comm/communicator.hpp"
#include "comm/window.hpp"

namespace tutti::comm {
namespace {

using What = OneSided::What;

constexpr int kReads = 1000;  // of a signal in a row, before pauses, one of which takes nearly as long as a line's way
constexpr double kArrivesWithin = 1;   // seconds in which what a rank has sent before it left arrives
constexpr double kLookForLeft = 5e-3;  // seconds of a wait from which on it asks whether the peer has left

std::span<const std::byte> source_of(const OneSided& call) {
  return {static_cast<const std::byte*>(call.source), call.bytes};
}
std::span<std::byte> target_of(const OneSided& call) { return {static_cast<std::byte*>(call.into), call.bytes}; }

static_assert(static_cast<int>(exec::WindowCall::What::Flush) == static_cast<int>(What::Flush) &&
                  static_cast<int>(exec::WindowCall::What::WaitSignal) == static_cast<int>(What::WaitSignal),
              "both have the same order");
/// As a backend has it.
exec::WindowCall window_call(const OneSided& call) {
  return {.what = static_cast<exec::WindowCall::What>(call.what),
          .peer = call.peer,
          .signal = call.signal,
          .source = call.source,
          .into = call.into,
          .bytes = call.bytes,
          .offset = call.offset,
          .count = call.count,
          .operand = call.operand,
          .expected = call.expected,
          .stream = call.stream};
}

/// A rank has aborted or revoked the communicator: then all calls fail. After other failures signals that have come are
/// still taken.
bool is_deliberate(const std::atomic<uint32_t>& failed) {
  const auto code = static_cast<Code>(failed.load(std::memory_order_acquire));
  return code == Code::Aborted || code == Code::Revoked;
}

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

}  // namespace

std::string describe(const OneSided& call) {
  switch (call.what) {
    case What::Put:
      return fmt::format("put({} bytes, to rank {} at offset {})", call.bytes, call.peer, call.offset);
    case What::Get:
      return fmt::format("get({} bytes, from rank {} at offset {})", call.bytes, call.peer, call.offset);
    case What::PutSignal:
      return fmt::format("put_signal({} bytes, to rank {} at offset {}, signal {})", call.bytes, call.peer, call.offset,
                         static_cast<int>(call.signal));
    case What::Add:
    case What::CompareSwap:
      return fmt::format("{}(to rank {} at offset {})", name_of(call.what), call.peer, call.offset);
    case What::Signal:  // of a CallSpec, the number's last 8 bits alone are known
      return fmt::format("signal({}, to rank {})", static_cast<int>(call.signal), call.peer);
    case What::WaitSignal:
      return fmt::format("wait_signal({} of signal {}, from rank {})", call.count, static_cast<int>(call.signal),
                         call.peer);
    case What::Acquire:
    case What::Flush:
      break;
  }
  return describe(spec_of(call));
}

// ---- waiting for signals

void SignalWait::wait() {
  exec::Pending* self = this;
  exec::wait_for_one({&self, 1}, context_.backoff);
}

void SignalWait::tell(const exec::Stall& stall) {
  Status status = context_.observer.stalled(stall);
  if (status.ok()) return;
  status_ = std::move(status);
  done_ = true;
}

/// One that a peer stores itself is here as soon as it is sent; those over a stream are when it has ended.
bool SignalWait::has_all_that_was_sent() const {
  return line_.reaches.load(std::memory_order_acquire) != 0 || context_.target.has_ended(from_);
}

/// The peer has left, and all that it has sent before is here.
bool SignalWait::is_in_vain() {
  if (!context_.observer.left(from_)) return false;
  if (!in_flight_) in_flight_ = Deadline::in(kArrivesWithin);
  if (!has_all_that_was_sent() && !in_flight_->passed()) return false;
  return !poll();
}

void SignalWait::check_failure(double seconds) {
  if (done_) return;
  if (context_.failed.load(std::memory_order_acquire) == 0) {
    if (seconds < kLookForLeft || !is_in_vain()) return;
    exec::Stall stall{.await = exec::Await::Signal, .peer = from_};
    stall.has_left = true;
    return tell(stall);
  }
  if (!is_deliberate(context_.failed) && poll()) return;  // it came before the failure
  status_ = context_.observer.failed();
  done_ = true;
}

void SignalWait::check_stall(double seconds, uint64_t stall_id) {
  if (done_) return;
  exec::Stall stall{.await = has_all_that_was_sent() ? exec::Await::Signal : exec::Await::FarSignal, .peer = from_};
  stall.seconds = seconds;
  stall.id = stall_id;
  stall.all = {{.peer = from_, .await = stall.await}};
  tell(stall);
}

Status CallDiagnostics::left_without_signal(Rank peer) {
  return fail(Code::Mismatch, fmt::format("rank {} has left without a signal that rank {} waits for in {}", peer,
                                          endpoint_.rank(), describe_call()));
}

// ---- the calls

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

/// A call that loads and stores do without a long wait makes no system call, takes no lock and allocates nothing.
void Communicator::run_unnoted(Window& window, const OneSided& call) {
  if (window.backend != kHostBackend) return run_on_backend(window, call);
  const Synchronized with_agent(windows_.get());
  if (call.what == What::WaitSignal && window.parts && !is_deliberate(failed_) && take_soon(window, call)) {
    return log_->totals.add_one_sided(call.what, 0);
  }
  if (has_failed() || !is_live()) [[unlikely]]
    unusable_status(describe(call)).throw_if_bad();
  if (!window.parts) [[unlikely]]
    throw_error(Code::InvalidUsage, "rank {}: {}: the window was deregistered", rank(), describe(call));
  if (trace_->samples_one_sided(++one_sided_, call.bytes)) [[unlikely]]
    trace_->enter_one_sided(one_sided_, spec_of(call));
  if (call.what == What::WaitSignal) {
    await_signal(window, call);
  } else if (!carry_out_directly(*window.parts, call)) {
    try {
      carry_out(*window.parts, call);
    } catch (const Error& error) {
      fail_one_sided(call, error);
    }
  }
  trace_->leave();
  log_->totals.add_one_sided(call.what, call.bytes);
}

/// The call has ended when it is enqueued; without a stream the backend waits for its end.
void Communicator::run_on_backend(Window& window, const OneSided& call) {
  if (has_failed() || !is_live()) unusable_status(describe(call)).throw_if_bad();
  if (window.device == nullptr) {
    throw_error(Code::InvalidUsage, "rank {}: {}: the window was deregistered", rank(), describe(call));
  }
  if (call.what == What::Acquire) return;  // streams do
  if (trace_->samples_one_sided(++one_sided_, call.bytes)) trace_->enter_one_sided(one_sided_, spec_of(call));
  exec::WindowCall made = window_call(call);
  const bool may_wait = window.device->may_wait(made);
  if (may_wait) {
    made.id = on_[window.backend]->enqueued().add_wait(spec_of(call), window.number, call.stream != nullptr);
  }
  try {
    window.device->enqueue(made);
    if (may_wait) on_[window.backend]->enqueued().accept_wait();
  } catch (const Error& error) {
    fail_one_sided(call, error);
  }
  trace_->leave();
  log_->totals.add_one_sided(call.what, call.bytes);
}

/// Mistakes fail the call alone, others the communicator.
void Communicator::fail_one_sided(const OneSided& call, const Error& error) {
  board_->enter_one_sided(one_sided_key(one_sided_), spec_of(call));
  trace_->fail(*board_, error.code());
  if (error.code() == Code::InvalidArgument || error.code() == Code::InvalidUsage) {
    throw_error(error.code(), "rank {}: {}: {}", rank(), describe(call), error.what());
  }
  diagnostics_.begin_other([&] { return describe(call); });
  const std::string remedy = error.code() == Code::Timeout
                                 ? fmt::format("; raise {} if it may take longer", timeouts_.setting_of_calls())
                                 : "";
  const Status status = diagnostics_.link_failed(
      error.code(), fmt::format("rank {}: {}: {}{}", rank(), describe(call), error.what(), remedy));
  diagnostics_.end_other();
  leave_trace();
  throw Error(status.code, status.text);
}

/// By loads and stores. False: nothing was done, since they cannot do it.
[[gnu::always_inline]] inline bool Communicator::carry_out_directly(rma::Window& parts, const OneSided& call) {
  uint64_t before = 0;
  switch (call.what) {
    case What::Put:
      return parts.try_put(source_of(call), call.peer, call.offset);
    case What::PutSignal:
      return parts.try_put_signal(source_of(call), call.peer, call.offset, call.signal);
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

void Communicator::carry_out(rma::Window& parts, const OneSided& call) const {
  // Loads and stores need no limit.
  const double limit = call.peer < 0 || parts.may_wait(call.peer) ? timeouts_.of_calls() : 0;
  const auto flush = [&](Rank peer) {
    parts.check_open(peer);
    parts.flush(peer, limit);
  };
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
      if (call.peer != OneSided::kAllPeers) return flush(call.peer);
      for (Rank peer = 0; peer < ranks(); ++peer) flush(peer);
      return;
    case What::Acquire:  // run_unnoted() does
    case What::WaitSignal:
      return;
  }
}

/// Waits as long as threads spin, and for their first yields: a peer that answers at once needs no more.
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

void Communicator::await_signal(Window& window, const OneSided& call) {
  const rma::SignalLine& line = window.own->from(call.peer);
  const uint64_t taken = window.taken[static_cast<size_t>(call.peer)][call.signal];
  SignalWait wait(line, call, taken + call.count, {*windows_->target, failed_, backoff_, diagnostics_});
  board_->enter_one_sided(one_sided_key(one_sided_), spec_of(call));
  diagnostics_.begin_other([&] { return describe(call); });
  wait.wait();
  diagnostics_.end_other();
  if (!wait.status().ok()) {
    trace_->fail(*board_, wait.status().code);
    leave_trace();
  }
  wait.status().throw_if_bad();
  window.take(call.peer, call.signal, call.count);
}

}  // namespace tutti::comm
