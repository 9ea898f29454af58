#include "comm/call_trace.hpp"

#include <optional>

namespace tutti::comm {
namespace {

using trace::Event;

uint64_t time_now() { return trace::nanoseconds(trace::Clock::now()); }

}  // namespace

void CallTrace::open(uint64_t at, const CallSpec& spec) {
  if (open_ != nullptr) return;  // a group is in one class with its first call
  open_ = &totals_.of(spec);
  entered_ = at;
}

void CallTrace::write_entered(uint64_t key, const CallSpec& spec, Event::Kind kind) {
  const uint64_t now = time_now();
  ring_.write({.kind = kind, .at = now, .call = key, .first = spec.kinds(), .second = spec.count});
  if (kind == Event::Kind::Entered) open(now, spec);
}

void CallTrace::write_left(Code code) {
  const uint64_t now = time_now();
  ring_.write({.kind = Event::Kind::Left, .at = now, .first = static_cast<uint64_t>(code)});
  if (code == Code::Ok) {
    CallTotal::add(open_->traced_calls, 1);
    CallTotal::add(open_->traced, now - entered_);
  }
  open_ = nullptr;
}

void CallTrace::waited(const CallBoard& board, Rank peer, trace::Clock::time_point since) {
  in_a_row_ = 0;
  const uint64_t began = trace::nanoseconds(since);
  if (open_ == nullptr) {  // it was left out
    const auto last = board.last();
    if (!last) return;
    ring_.write({.kind = Event::Kind::Within,
                 .at = began,
                 .call = board.last_key(),
                 .first = last->kinds(),
                 .second = last->count});
    open(began, *last);
  }
  const uint64_t now = time_now();
  CallTotal::add(open_->waited, now - began);
  ring_.write({.kind = Event::Kind::Waited,
               .at = now,
               .first = static_cast<uint64_t>(static_cast<uint32_t>(peer)),
               .second = began});
}

trace::TracedCall CallTrace::call_of(const Event& event) {
  const auto spec = unpack_spec(event.first, event.second);
  if (!spec) return {.text = "?"};
  trace::TracedCall call{.number = event.call, .text = describe(*spec), .bytes = spec->count * size_of(spec->type)};
  if (spec->collective != Collective::SendRecv) return call;
  call.number = number_of_transfer(event.call);
  call.peer = spec->root;
  call.sends = spec->sends;
  return call;
}

}  // namespace tutti::comm
