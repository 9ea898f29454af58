#include "exec/gpu/far_server.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <string_view>
#include <utility>

#include "base/format.hpp"
#include "base/log.hpp"
#include "base/socket.hpp"
#include "exec/gpu/pinned.hpp"
#include "exec/wait.hpp"

namespace tutti::exec::gpu {
namespace {

using What = WindowCall::What;
using Outcome = FarAnswer::Outcome;

constexpr uint64_t kWord = sizeof(uint64_t);
constexpr uint64_t kMaxEnqueued = 128;  // requests: what the stream has for them fits its queue
constexpr size_t kMaxAnswers = 64;      // of one rank, that are not sent yet: it sends no more without reading
constexpr double kLook = 100e-6;        // seconds between looks at what the stream has done
constexpr double kEndWithin = 2;        // seconds in which it does that, unless the GPU has failed

bool is_atomic(const FarRequest& request) { return request.what == What::Add || request.what == What::CompareSwap; }

/// Could a rank of this library have sent it?
bool is_valid(const FarRequest& request) {
  if (request.magic != FarRequest::kMagic || request.bytes > kFarSlotBytes) return false;
  switch (request.what) {
    case What::Put:
    case What::Get:
    case What::Flush:
      return true;
    case What::Signal:
      return request.operand < kWindowSignals && request.bytes == 0;
    case What::Add:
    case What::CompareSwap:
      return request.bytes == kWord;
    default:
      return false;
  }
}

}  // namespace

/// One rank's stream. Requests are carried out in order, and answered in order.
class FarServer::Client {
 public:
  Client(FarServer& server, Rank from, Fd stream) : server_(server), from_(from), stream_(std::move(stream)) {}
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  Rank from() const { return from_; }
  /// The stream has ended, and what was asked for before is done.
  bool has_ended() const { return at_end_ && server_.landed() >= last_; }

  bool progress() {
    bool moved = false;
    while (!at_end_ && send_answer()) moved = true;
    while (!at_end_ && receive()) moved = true;
    return moved;
  }

  void add_events(std::vector<pollfd>& events) const {
    if (at_end_) return;
    const bool can_take = have_ < sizeof request_ || (slot_ >= 0 && left_ > 0);
    const bool can_send = !answers_.empty() && server_.landed() >= answers_.front().ready;
    const auto wanted = static_cast<short>((can_take ? POLLIN : 0) | (can_send ? POLLOUT : 0));
    if (wanted != 0) events.push_back({.fd = stream_.get(), .events = wanted, .revents = 0});
  }

 private:
  struct Answer {
    FarAnswer head;
    int slot = -1;       // with the bytes that follow
    uint64_t ready = 0;  // when the stream has written this number
  };

  /// False: nothing more can be received now.
  bool receive() {
    if (have_ < sizeof request_) {
      if (!take(recv_now(stream_.get(), reinterpret_cast<char*>(&request_) + have_, sizeof request_ - have_), have_)) {
        return false;
      }
      if (have_ < sizeof request_) return true;
      left_ = request_.what == What::Put ? request_.bytes : 0;
      if (!is_valid(request_)) {
        log_warn("rank {} sent an invalid request on a window in memory of a GPU: its stream is closed", from_);
        return end();
      }
    }
    if (!has_place()) return false;
    if (left_ > 0) {
      size_t got = request_.bytes - left_;
      if (!take(recv_now(stream_.get(), server_.slot(slot_) + got, left_), got)) return false;
      left_ = request_.bytes - got;
      if (left_ > 0) return true;
    }
    carry_out();
    have_ = 0;
    return true;
  }

  /// Takes a slot for the request, if it needs one. False: it has to wait.
  bool has_place() {
    if (slot_ >= 0) return true;
    if (answers_.size() >= kMaxAnswers || !server_.has_room()) return false;
    const bool answered = request_.what == What::Get || is_atomic(request_);
    if (request_.bytes == 0) return true;
    slot_ = server_.take_slot(answered);
    return slot_ >= 0;
  }

  void carry_out() {
    const bool answered = request_.is_answered();
    Outcome outcome = Outcome::Done;
    if (request_.what == What::Flush) {
      outcome = std::exchange(failed_, Outcome::Done);
    } else {
      outcome = server_.carry_out(request_, from_, slot_);
      if (outcome == Outcome::Done) last_ = server_.mark();
    }
    if (answered) {
      const bool bytes = outcome == Outcome::Done && request_.what != What::Flush;
      answers_.push_back(
          {.head = {.outcome = outcome, .bytes = bytes ? request_.bytes : 0}, .slot = slot_, .ready = last_});
    } else {
      if (failed_ == Outcome::Done) failed_ = outcome;
      if (slot_ >= 0) server_.give_slot(slot_, false);
    }
    slot_ = -1;
  }

  /// False: there is none that is ready, or no more can be sent now.
  bool send_answer() {
    if (answers_.empty()) return false;
    const Answer& answer = answers_.front();
    if (server_.landed() < answer.ready) return false;
    const std::string_view head(reinterpret_cast<const char*>(&answer.head), sizeof answer.head);
    const std::string_view bytes =
        answer.slot < 0 ? std::string_view()
                        : std::string_view(reinterpret_cast<const char*>(server_.slot(answer.slot)), answer.head.bytes);
    const bool in_head = sent_ < head.size();
    if (!take(in_head ? send_now(stream_.get(), head.substr(sent_), bytes)
                      : send_now(stream_.get(), bytes.substr(sent_ - head.size())),
              sent_)) {
      return false;
    }
    if (sent_ < head.size() + bytes.size()) return true;
    if (answer.slot >= 0) server_.give_slot(answer.slot, true);
    answers_.pop_front();
    sent_ = 0;
    return true;
  }

  bool take(ptrdiff_t moved, size_t& sum) {
    if (moved < 0) return end();
    sum += static_cast<size_t>(moved);
    return moved > 0;
  }

  bool end() {
    at_end_ = true;
    for (const Answer& answer : answers_) {
      if (answer.slot >= 0) server_.give_slot(answer.slot, true);
    }
    answers_.clear();
    if (slot_ >= 0) server_.give_slot(slot_, request_.is_answered());
    slot_ = -1;
    return false;
  }

  FarServer& server_;
  const Rank from_;
  const Fd stream_;
  FarRequest request_;
  size_t have_ = 0;    // bytes of it
  uint64_t left_ = 0;  // bytes of a put to come
  int slot_ = -1;      // of the request
  std::deque<Answer> answers_;
  size_t sent_ = 0;                 // bytes of the first
  uint64_t last_ = 0;               // what the stream writes when all requests so far are done
  Outcome failed_ = Outcome::Done;  // the first of those without an answer, since the last flush
  bool at_end_ = false;
};

FarServer::FarServer(const Gpu& gpu, std::unique_ptr<FarStream> stream)
    : memory_(pinned(gpu, kWord)),
      slots_(pinned(gpu, kSlots * kFarSlotBytes)),
      landed_(*new (memory_.get()) uint64_t(0)),
      landed_at_(reinterpret_cast<uint64_t>(gpu.device_address(memory_.get()))),
      slots_at_(reinterpret_cast<uint64_t>(gpu.device_address(slots_.get()))),
      stream_(std::move(stream)) {}

/// The stream may still use the slots, which go to others then.
FarServer::~FarServer() {
  for (const Deadline deadline = Deadline::in(kEndWithin); is_busy() && !deadline.passed();) nap(kLook);
}

void FarServer::expose(uint64_t window, Exposed part, Rank ranks) {
  part.arrived.assign(static_cast<size_t>(ranks) * kWindowSignals, 0);
  const std::lock_guard lock(mutex_);
  parts_[window] = std::move(part);
}

bool FarServer::withdraw(uint64_t window, Deadline deadline) {
  {
    const std::lock_guard lock(mutex_);
    parts_.erase(window);
  }
  const uint64_t last = enqueued_.load(std::memory_order_acquire);
  while (landed() < last && !deadline.passed()) nap(kLook);
  return landed() >= last;
}

void FarServer::admit(Rank from, Fd stream) {
  const std::lock_guard lock(mutex_);
  if (!served_.insert(from).second) return;
  new_.push_back(std::make_unique<Client>(*this, from, std::move(stream)));
}

bool FarServer::has_ended(Rank from) const {
  const std::lock_guard lock(mutex_);
  return !served_.contains(from);
}

void FarServer::take_new() {
  const std::lock_guard lock(mutex_);
  for (auto& client : new_) clients_.push_back(std::move(client));
  new_.clear();
}

bool FarServer::progress() {
  take_new();
  bool moved = false;
  for (const auto& client : clients_) moved = client->progress() || moved;
  std::erase_if(clients_, [this](const auto& client) {
    if (!client->has_ended()) return false;
    const std::lock_guard lock(mutex_);
    return served_.erase(client->from()), true;
  });
  return moved;
}

void FarServer::add_events(std::vector<pollfd>& events) const {
  for (const auto& client : clients_) client->add_events(events);
}

uint64_t FarServer::landed() const { return std::atomic_ref(landed_).load(std::memory_order_acquire); }

/// What the stream writes when it has done all that it has now.
uint64_t FarServer::mark() { return enqueued_.load(std::memory_order_relaxed); }

bool FarServer::has_room() const { return enqueued_.load(std::memory_order_relaxed) - landed() < kMaxEnqueued; }

/// −1: none is free. Answers, whose readers may be slow, take half of them at most, so that puts go on.
int FarServer::take_slot(bool for_answer) {
  if (for_answer && answers_ == kSlots / 2) return -1;
  const uint64_t landed = this->landed();
  for (size_t i = 0; i < kSlots; ++i) {
    Slot& slot = all_slots_[i];
    if (slot.taken || slot.busy_until > landed) continue;
    slot.taken = true;
    answers_ += for_answer ? 1 : 0;
    return static_cast<int>(i);
  }
  return -1;
}

/// It is free when the stream has done what it has now.
void FarServer::give_slot(int slot, bool of_answer) {
  all_slots_[static_cast<size_t>(slot)] = {.taken = false, .busy_until = mark()};
  answers_ -= of_answer ? 1 : 0;
}

/// Enqueues the request, under the lock: withdraw() knows what is under way.
Outcome FarServer::carry_out(const FarRequest& request, Rank from, int slot) {
  const std::lock_guard lock(mutex_);
  const auto found = parts_.find(request.window);
  if (found == parts_.end()) return Outcome::NoWindow;
  Exposed& part = found->second;
  if (request.what == What::Signal) {
    const uint64_t number = static_cast<uint64_t>(from) * kWindowSignals + request.operand;
    stream_->write(part.signals + static_cast<uint64_t>(from) * part.stride + request.operand * kWord,
                   ++part.arrived[number]);
  } else {
    if (request.offset > part.bytes || request.bytes > part.bytes - request.offset) return Outcome::OutOfRange;
    const uint64_t at = part.memory + request.offset;
    if (is_atomic(request) && at % kWord != 0) return Outcome::OutOfRange;
    if (is_atomic(request)) stream_->step(request, at, slot_at(slot));
    if (request.what == What::Put && request.bytes > 0) stream_->copy(at, slot_at(slot), request.bytes);
    if (request.what == What::Get && request.bytes > 0) stream_->copy(slot_at(slot), at, request.bytes);
  }
  const uint64_t number = enqueued_.load(std::memory_order_relaxed) + 1;
  stream_->write(landed_at_, number);
  stream_->flush();
  enqueued_.store(number, std::memory_order_release);
  return Outcome::Done;
}

}  // namespace tutti::exec::gpu
