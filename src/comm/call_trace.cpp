#include "comm/call_trace.hpp"

#include <algorithm>
#include <atomic>
#include <optional>

namespace tutti::comm {
namespace {

using trace::Event;

uint64_t time_now() { return trace::nanoseconds(trace::Clock::now()); }

/// The time of a thread in calls on all communicators: in long ones, and in long waits of short ones and of calls on
/// windows. It is counted alike on all ranks, whichever calls they trace.
struct InCalls {
  const uint64_t thread = ++threads;
  uint64_t nanoseconds = 0;
  uint64_t until = 0;  // counted up to here: calls of a group, and ranks, may run at the same time

  void add(uint64_t since, uint64_t now) {
    since = std::max(since, until);
    if (now <= since) return;
    nanoseconds += now - since;
    until = now;
  }

 private:
  static inline std::atomic<uint64_t> threads{0};
};
thread_local InCalls in_calls;

}  // namespace

void CallTrace::open(uint64_t at, const CallSpec& spec) {
  if (open_ != nullptr) return;  // a group is in one class with its first call
  open_ = &totals_.of(spec);
  is_long_ = spec.count >= kLong && !spec.one_sided;
  entered_ = at;
}

void CallTrace::write_entered(uint64_t key, const CallSpec& spec, Event::Kind kind) {
  const uint64_t now = time_now();
  ring_.write({.kind = kind, .at = now, .call = key, .first = spec.kinds(), .second = spec.count});
  if (kind == Event::Kind::Entered) open(now, spec);
}

void CallTrace::write_left(Code code) {
  const uint64_t now = time_now();
  if (is_long_) in_calls.add(entered_, now);
  ring_.write({.kind = Event::Kind::Left,
               .at = now,
               .call = in_calls.thread,
               .first = static_cast<uint64_t>(code),
               .second = in_calls.nanoseconds});
  if (code == Code::Ok) {
    CallTotal::add(open_->traced_calls, 1);
    CallTotal::add(open_->traced, now - entered_);
  }
  open_ = nullptr;
}

/// Opens a call that was left out. False if there is none.
bool CallTrace::open_late(const CallBoard& board, uint64_t at) {
  if (open_ != nullptr) return true;
  const auto last = board.last();
  if (!last) return false;
  ring_.write(
      {.kind = Event::Kind::Within, .at = at, .call = board.last_key(), .first = last->kinds(), .second = last->count});
  open(at, *last);
  return true;
}

void CallTrace::fail(const CallBoard& board, Code code) {
  if (open_late(board, time_now())) write_left(code);
}

void CallTrace::waited(const CallBoard& board, Rank peer, trace::Clock::time_point since) {
  traced_ahead_ = kInARow;
  const uint64_t began = trace::nanoseconds(since);
  if (!open_late(board, began)) return;
  const uint64_t now = time_now();
  CallTotal::add(open_->waited, now - began);
  if (!is_long_) in_calls.add(began, now);
  ring_.write({.kind = Event::Kind::Waited,
               .at = now,
               .first = static_cast<uint64_t>(static_cast<uint32_t>(peer)),
               .second = began});
}

trace::TracedCall CallTrace::call_of(const Event& event) {
  const auto spec = unpack_spec(event.first, event.second);
  if (!spec) return {.text = "?"};
  trace::TracedCall call{.number = event.call, .text = describe(*spec), .bytes = spec->bytes()};
  if (spec->collective != Collective::SendRecv) return call;
  call.number = number_of_transfer(event.call);
  call.peer = spec->root;
  call.sends = spec->sends;
  call.one_sided = spec->one_sided;
  return call;
}

}  // namespace tutti::comm
