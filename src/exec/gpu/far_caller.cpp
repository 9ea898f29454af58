#include "exec/gpu/far_caller.hpp"

#include <algorithm>
#include <utility>

#include "base/format.hpp"
#include "base/socket.hpp"

namespace tutti::exec::gpu {
namespace {

using What = WindowCall::What;

constexpr double kReasonWithin = 2;  // seconds in which it becomes known why a peer's stream has ended

const char* name_of(What what) {
  switch (what) {
    case What::Put:
      return "put";
    case What::Get:
      return "get";
    case What::Signal:
      return "signal";
    case What::Add:
      return "atomic_add";
    case What::CompareSwap:
      return "atomic_compare_swap";
    default:
      return "flush";
  }
}

std::string_view view(const void* bytes, size_t count) { return {static_cast<const char*>(bytes), count}; }

uint64_t payload_of(const FarRequest& request) { return request.what == What::Put ? request.bytes : 0; }

/// That follow its answer.
uint64_t answer_bytes(const FarRequest& request) {
  switch (request.what) {
    case What::Get:
      return request.bytes;
    case What::Add:
    case What::CompareSwap:
      return sizeof(uint64_t);
    default:
      return 0;
  }
}

}  // namespace

FarCaller::FarCaller(const BackendContext& context, std::shared_ptr<FarSteps> steps)
    : context_(context),
      steps_(std::move(steps)),
      is_open_(static_cast<size_t>(context.wireup->ranks())),
      peers_(static_cast<size_t>(context.wireup->ranks())) {}

void FarCaller::connect(Rank peer) {
  if (is_open_[static_cast<size_t>(peer)]) return;
  Fd stream = context_.wireup->open_stream(peer, kFarLabel, Deadline::in(context_.init_timeout));
  const std::lock_guard lock(mutex_);
  new_.emplace_back(peer, std::move(stream));
  is_open_[static_cast<size_t>(peer)] = true;
}

void FarCaller::take_new() {
  const std::lock_guard lock(mutex_);
  for (auto& [peer, stream] : new_) peers_[static_cast<size_t>(peer)].stream = std::move(stream);
  new_.clear();
}

bool FarCaller::progress() {
  bool moved = false;
  for (const uint64_t posted = steps_->posted(); next_ < posted && send();) moved = true;
  for (Peer& peer : peers_) {
    while (!peer.awaited.empty() && receive(peer)) moved = true;
  }
  return moved;
}

/// The next step. False: nothing more can be sent now.
bool FarCaller::send() {
  const FarStep& step = steps_->step(next_);
  Peer& peer = peers_[static_cast<size_t>(step.peer)];
  if (!peer.stream) take_new();
  if (!peer.ended) {
    const std::string_view head = view(&step.request, sizeof step.request);
    const std::string_view bytes = view(steps_->slot(next_), payload_of(step.request));
    const ptrdiff_t sent = sent_ < head.size() ? send_now(peer.stream.get(), head.substr(sent_), bytes)
                                               : send_now(peer.stream.get(), bytes.substr(sent_ - head.size()));
    if (sent == 0) return false;
    if (sent > 0) {
      sent_ += static_cast<uint64_t>(sent);
      if (sent_ < head.size() + bytes.size()) return true;
      step.request.is_answered() ? peer.awaited.push_back(next_) : complete(next_);
      sent_ = 0;
      ++next_;
      return true;
    }
    peer.ended = Deadline::in(kReasonWithin);
  }
  if (!skip_ended(peer, next_)) return false;
  sent_ = 0;
  ++next_;
  return true;
}

/// The answer to the first step that awaits one. False: nothing more has come.
bool FarCaller::receive(Peer& peer) {
  const uint64_t number = peer.awaited.front();
  const FarStep& step = steps_->step(number);
  if (!peer.ended) {
    constexpr size_t kHead = sizeof peer.answer;
    const bool in_head = peer.received < kHead;
    char* const into = in_head ? reinterpret_cast<char*>(&peer.answer) + peer.received
                               : reinterpret_cast<char*>(steps_->slot(number)) + (peer.received - kHead);
    const uint64_t left = (in_head ? kHead : kHead + peer.answer.bytes) - peer.received;
    const ptrdiff_t got = recv_now(peer.stream.get(), into, left);
    if (got == 0) return false;
    if (got > 0) {
      peer.received += static_cast<size_t>(got);
      if (peer.received < kHead) return true;
      if (in_head) check_answer(peer, step);
      if (peer.answer.outcome == FarAnswer::Outcome::NoWindow) {
        peer.ended = Deadline::in(kReasonWithin);  // it leaves
      } else if (peer.received == kHead + peer.answer.bytes) {
        complete(number);
        peer.awaited.pop_front();
        peer.received = 0;
      }
      return true;
    }
    peer.ended = Deadline::in(kReasonWithin);
  }
  if (!skip_ended(peer, number)) return false;
  peer.awaited.pop_front();
  return true;
}

void FarCaller::check_answer(const Peer& peer, const FarStep& step) const {
  const FarAnswer& answer = peer.answer;
  if (answer.outcome == FarAnswer::Outcome::OutOfRange) {
    fail(Code::InvalidArgument, step, fmt::format("rank {} says that bytes do not lie in its part", step.peer));
  }
  const bool done = answer.outcome == FarAnswer::Outcome::Done;
  const bool known = done || answer.outcome == FarAnswer::Outcome::NoWindow;
  if (answer.magic == FarRequest::kMagic && known && answer.bytes == (done ? answer_bytes(step.request) : 0)) return;
  fail(Code::ProtocolError, step, fmt::format("rank {} sent an invalid answer", step.peer));
}

/// A step on a part of a peer whose stream has ended. If the peer has left, nobody misses what was put there. False:
/// that is not known yet.
bool FarCaller::skip_ended(Peer& peer, uint64_t number) {
  const FarStep& step = steps_->step(number);
  if (context_.observer->left(step.peer)) {
    if (answer_bytes(step.request) > 0) {
      fail(Code::PeerFailed, step, fmt::format("rank {} has left the communicator", step.peer));
    }
    complete(number);
    return true;
  }
  if (!peer.ended->passed()) return false;
  fail(Code::PeerFailed, step, fmt::format("the stream to rank {} has ended", step.peer));
}

void FarCaller::complete(uint64_t number) {
  is_done_[number % is_done_.size()] = true;
  while (is_done_[done_ % is_done_.size()]) is_done_[done_++ % is_done_.size()] = false;
  steps_->set_done(done_);
}

void FarCaller::fail(Code code, const FarStep& step, const std::string& why) const {
  const FarRequest& request = step.request;
  throw_error(code, "rank {}: {}({} bytes, rank {} at offset {}) on the window of call {}: {}", context_.wireup->rank(),
              name_of(request.what), request.bytes, step.peer, request.offset, request.window, why);
}

void FarCaller::add_events(std::vector<pollfd>& events) const {
  const auto add = [&](const Peer& peer, short event) {
    if (peer.stream && !peer.ended) events.push_back({.fd = peer.stream.get(), .events = event, .revents = 0});
  };
  for (const Peer& peer : peers_) {
    if (!peer.awaited.empty()) add(peer, POLLIN);
  }
  if (next_ < steps_->posted()) add(peers_[static_cast<size_t>(steps_->step(next_).peer)], POLLOUT);
}

}  // namespace tutti::exec::gpu
