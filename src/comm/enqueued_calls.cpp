#include "comm/enqueued_calls.hpp"

#include <algorithm>

#include "base/format.hpp"
#include "exec/method.hpp"

namespace tutti::comm {

void EnqueuedCalls::add(uint64_t board_number, const CallSpec& spec, const Prepared& prepared) {
  const std::lock_guard lock(mutex_);
  Entry& entry = (prepared.row.method->counted_apart ? apart_ : together_).next();
  entry.board_number = board_number;
  entry.spec = spec;
  entry.algorithm = prepared.algorithm;
  entry.group.clear();
}

void EnqueuedCalls::add(const std::vector<NumberedCall>& group, const char* algorithm) {
  const std::lock_guard lock(mutex_);
  together_.next() = {0, group.front().call.spec, algorithm, group};
}

uint64_t EnqueuedCalls::add_wait(const CallSpec& spec, uint64_t window, bool by_stream) {
  const std::lock_guard lock(mutex_);
  const uint64_t id = last_wait_ + 1;
  waits_[id % waits_.size()] = {spec, window, by_stream};
  return id;
}

void EnqueuedCalls::accept_wait() {
  const std::lock_guard lock(mutex_);
  ++last_wait_;
}

/// A replayed call has a number that none was enqueued under: then the last one is meant, as far as is known.
const EnqueuedCalls::Entry& EnqueuedCalls::Sequence::at(uint64_t number) const {
  const bool known = number >= 1 && number <= count && number + last.size() > count;
  return last[((known ? number : std::max<uint64_t>(1, count)) - 1) % last.size()];
}

const EnqueuedCalls::Entry& EnqueuedCalls::entry(uint64_t number) const {
  const bool apart = (number & exec::kCountedApart) != 0;
  return apart ? apart_.at(number & ~exec::kCountedApart) : together_.at(number);
}

void EnqueuedCalls::describe(uint64_t number) {
  if (described_ == number) return;  // what its peers have answered is kept
  described_ = number;
  diagnostics_.set_on_device(true);
  if ((number & exec::kOnWindow) != 0) {
    const WindowWait& wait = waits_[(number & ~exec::kOnWindow) % waits_.size()];
    diagnostics_.set_on_device(wait.by_stream);
    return diagnostics_.begin_other(
        [wait] { return fmt::format("{} on the window of call {}", tutti::comm::describe(wait.spec), wait.window); });
  }
  const Entry& call = entry(number);
  described_group_ = call.group;
  if (!described_group_.empty()) return diagnostics_.begin(described_group_);
  diagnostics_.begin(call.board_number, call.spec);
  diagnostics_.set_algorithm(call.algorithm);
}

Status EnqueuedCalls::fault(const exec::Fault& fault) {
  const std::lock_guard lock(mutex_);
  describe(fault.call);
  if (fault.kind != exec::FaultKind::TwoAtOnce) return diagnostics_.fault(fault);
  return diagnostics_.fail(
      Code::InvalidUsage,
      fmt::format("two calls of the communicator ran on the device at the same time: {} and {}; order the streams or "
                  "graphs that make them",
                  tutti::comm::describe(entry(fault.call).spec), tutti::comm::describe(entry(fault.other).spec)));
}

Status EnqueuedCalls::stalled(const exec::Stall& stall) {
  const std::lock_guard lock(mutex_);
  describe(stall.call);
  return diagnostics_.stalled(stall);
}

void EnqueuedCalls::cut_off(const exec::Stall& stall) {
  const std::lock_guard lock(mutex_);
  describe(stall.call);
  cut_off_->set(diagnostics_.cut_off_by_failure(stall));
}

void EnqueuedCalls::processor_failed(const std::string& why, const exec::Stall& stall) {
  const std::lock_guard lock(mutex_);
  describe(stall.call);
  diagnostics_.processor_failed(why, stall);
}

Status EnqueuedCalls::failed() {
  const std::lock_guard lock(mutex_);
  return diagnostics_.failed();
}

void EnqueuedCalls::network_failed(const Status& status, uint64_t number) {
  const std::lock_guard lock(mutex_);
  describe(number);
  (void)diagnostics_.link_failed(status.code, status.text);
}

}  // namespace tutti::comm
