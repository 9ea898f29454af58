#include "transports/verbs/connection.hpp"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/format.hpp"
#include "base/socket.hpp"
#include "transports/verbs/meaning.hpp"

namespace tutti::transports::verbs {
namespace {

constexpr uint32_t kWorks = 128;         // work requests of a queue at a time
constexpr uint32_t kCompleteEvery = 32;  // work requests, at least
// Notices of a queue at a time: a message and its announcement, for every slot; or stripes; or adverts.
constexpr uint32_t kReceives = 2 * kSlots + kAdverts;

}  // namespace

Connection::Connection(Nic& nic, const Who& who)
    : LinkStream("verbs", ", " + nic.info().name, who), nic_(nic), works_(std::min(kWorks, nic.info().max_work)) {}

Connection::~Connection() { stop(); }

void Connection::open(Fd stream, uint32_t queues, const Region& area, const Deadline& deadline) {
  LinkStream::attach(std::move(stream));
  make_queues(queues);
  area_ = &area;
  await_ready(fd(), POLLOUT, {deadline});
  send_hello(area);
  phase_ = Phase::Hello;
}

void Connection::attach(Fd stream, const Region& area) {
  LinkStream::attach(std::move(stream));
  area_ = &area;
  phase_ = Phase::Hello;
}

void Connection::make_queues(uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t id = WorkId{who().end, i, 0, true}.word();
    queues_.push_back({.queue = nic_.make_queue({.receive_id = id, .works = works_, .receives = kReceives})});
  }
}

void Connection::send_hello(const Region& area) {
  Hello hello{.area = area.address,
              .area_bytes = area.bytes,
              .area_key = area.remote_key,
              .queues = queues(),
              .nic = nic_.info().address};
  for (uint32_t i = 0; i < queues(); ++i) hello.queue[i] = queues_[i].queue->address();
  greet({reinterpret_cast<const char*>(&hello), sizeof hello});
}

Status Connection::read_stream(bool& moved) {
  if (phase_ == Phase::Stopped) return {};
  if (phase_ == Phase::Ready) return read_goodbye(moved);
  std::string hello;
  if (Status status = read_greeting(sizeof(Hello), moved, hello); !status.ok() || hello.empty()) return status;
  std::memcpy(&peer_, hello.data(), sizeof peer_);
  return take_hello();
}

Status Connection::take_hello() {
  const char* wrong = check(peer_, who().writes ? kEagerRingBytes : sizeof(Feedback));
  if (wrong == nullptr && who().writes && peer_.queues != queues()) wrong = "it has another number of queue pairs";
  if (wrong != nullptr)
    return {Code::ProtocolError, fmt::format("{}: the peer's greeting is invalid: {}", name(), wrong)};
  try {
    if (!who().writes) make_queues(peer_.queues);
    for (uint32_t i = 0; i < queues(); ++i) {
      queues_[i].queue->connect(peer_.nic, peer_.queue[i]);
      if (const int error = queues_[i].queue->post_receives(kReceives); error != 0) {
        throw_error(Code::SystemError, "{}: cannot post receives: {}", name(), std::strerror(error));
      }
    }
    if (!who().writes) send_hello(*area_);
  } catch (const Error& error) {
    return {error.code(), fmt::format("{}: {}", name(), error.what())};
  }
  phase_ = Phase::Ready;
  return {};
}

void Connection::stop() {
  for (QueueState& state : queues_) state.queue->stop();
  phase_ = Phase::Stopped;
}

Status Connection::post_one(uint32_t queue, Work& work) {
  QueueState& state = queues_[queue];
  work.id = WorkId{who().end, queue, static_cast<uint32_t>(state.posted), false}.word();
  if (state.posted + 1 - state.asked >= kCompleteEvery) work.completes = true;
  if (const int error = state.queue->post(work); error != 0) {
    return {Code::SystemError, fmt::format("{}: the device takes no work: {}", name(), std::strerror(error))};
  }
  ++state.posted;
  if (work.completes) state.asked = state.posted;
  return {};
}

Status Connection::post(uint32_t queue, Work& work) {
  if (work.kind != Work::Kind::WriteNotice || nic_.info().immediate) return post_one(queue, work);
  Work notice{.kind = Work::Kind::SendNotice, .completes = work.completes, .notice = work.notice};
  work.kind = Work::Kind::Write;
  work.completes = false;
  if (Status status = post_one(queue, work); !status.ok()) return status;
  return post_one(queue, notice);
}

bool Connection::all_done() const {
  return std::all_of(queues_.begin(), queues_.end(), [](const QueueState& q) { return q.done == q.posted; });
}

Status Connection::ask_for_completions() {
  for (uint32_t i = 0; i < queues(); ++i) {
    if (queues_[i].asked == queues_[i].posted || !has_room(i)) continue;
    Work nothing{.completes = true, .remote = peer_.area, .remote_key = peer_.area_key};
    if (Status status = post_one(i, nothing); !status.ok()) return status;
  }
  return {};
}

Status Connection::complete(const Completion& completion, bool& has_notice) {
  has_notice = false;
  const WorkId id = WorkId::of(completion.id);
  if (id.queue >= queues() || phase_ == Phase::Stopped) return {};
  QueueState& state = queues_[id.queue];
  if (completion.result != Completion::Result::Ok) {
    return {Code::PeerFailed, fmt::format("{} broke ({} on queue pair {}): {}", name(), completion.text, id.queue,
                                          meaning_of(completion.result))};
  }
  if (id.receive) {
    has_notice = true;
    if (const int error = state.queue->post_receives(1); error != 0) {
      return {Code::SystemError, fmt::format("{}: cannot post a receive: {}", name(), std::strerror(error))};
    }
    return {};
  }
  // Work requests of a queue complete in order: this one tells of all before it.
  const uint32_t more = id.sequence + 1 - static_cast<uint32_t>(state.done);
  if (more <= state.posted - state.done) state.done += more;
  return {};
}

bool Connection::has_queue(uint32_t number) const {
  return phase_ != Phase::Stopped && std::any_of(queues_.begin(), queues_.end(), [number](const QueueState& q) {
           return q.queue->address().number == number;
         });
}

void Connection::assume_all_done() {
  for (QueueState& state : queues_) state.done = state.posted;
}

}  // namespace tutti::transports::verbs
