#include "transports/ucx/engine.hpp"

#include <poll.h>

#include <algorithm>

#include "base/format.hpp"
#include "base/log.hpp"
#include "topo/constants.hpp"

namespace tutti::transports::ucx {
namespace {

constexpr uint32_t kLookEvery = 256;    // turns without progress, between two looks at streams and endpoints
constexpr double kDrainLimit = 1;       // seconds that a closing rank waits for the last bytes to leave
constexpr double kLongestSleep = 1e-3;  // seconds: streams raise no event of the worker

}  // namespace

Engine::Engine(const Context& context) : wireup_(*context.wireup), worker_(*this) {}

Engine::~Engine() {
  if (stopped_ || !failure_.ok()) {  // peers take the end of a stream without a goodbye for a failure
    for (InEnd& in : ins_) in.stop();
  } else {
    drain();
    for (InEnd& in : ins_) in.stream().say_goodbye(in.received());
    for (OutEnd& out : outs_) out.stream().say_goodbye(0);
    for (InEnd& in : ins_) in.stop();
  }
  stopped_ = true;
  worker_.close();
}

std::string Engine::label(uint32_t link_lane) { return fmt::format("ucx:{}", link_lane); }

Reach Engine::probe(Rank) const {
  return {.ok = true, .alpha = machine_constants().ucx_alpha, .beta = machine_constants().ucx_beta};
}

link::OutLink Engine::connect_out(Rank peer, uint32_t link_lane, Deadline deadline) {
  const auto end = static_cast<uint32_t>(outs_.size());
  Fd stream = wireup_.open_stream(peer, label(link_lane), deadline);
  outs_.emplace_back(worker_, Stream::Who{peer, link_lane, end, true});
  outs_.back().stream().attach(std::move(stream));
  outs_.back().stream().say_hello(worker_.address());
  ++greeting_;
  return outs_.back().link();
}

link::InLink Engine::connect_in(Rank peer, uint32_t link_lane, Deadline) {
  const auto end = static_cast<uint32_t>(ins_.size());
  ins_.emplace_back(worker_, Stream::Who{peer, link_lane, end, false});
  expected_.push_back(end);
  ++greeting_;
  return ins_.back().link();
}

Status Engine::progress(bool& moved) {
  moved = false;
  if (stopped_ || !failure_.ok()) return failure_;
  try {
    failure_ = turn(moved);
  } catch (const Error& error) {  // no endpoint, or a stream that broke
    failure_ = Status::from(error);
  }
  return failure_;
}

Status Engine::turn(bool& moved) {
  moved = worker_.progress();
  if (greeting_ > 0 || ++idle_turns_ % kLookEvery == 0) {
    take_streams(moved);
    if (Status status = read_streams(moved); !status.ok()) return status;
  }
  for (InEnd& in : ins_) {
    if (Status status = in.progress(moved); !status.ok()) return status;
  }
  for (OutEnd& out : outs_) {
    if (Status status = out.progress(moved); !status.ok()) return status;
  }
  if (moved) idle_turns_ = 0;
  worker_.flush();
  return {};
}

/// Gives streams that peers have opened to the ends that wait for them.
void Engine::take_streams(bool& moved) {
  std::erase_if(expected_, [&](size_t index) {
    Stream& stream = ins_[index].stream();
    std::optional<Fd> taken = wireup_.take_stream(stream.who().peer, label(stream.who().link_lane));
    if (!taken) return false;
    stream.attach(std::move(*taken));
    moved = true;
    return true;
  });
}

Status Engine::read_streams(bool& moved) {
  uint32_t greeting = 0;
  for (OutEnd& out : outs_) {
    if (Status status = read(out.stream(), moved); !status.ok()) return status;
    greeting += out.stream().ready() ? 0 : 1;
  }
  for (InEnd& in : ins_) {
    if (Status status = read(in.stream(), moved); !status.ok()) return status;
    greeting += in.stream().ready() ? 0 : 1;
  }
  greeting_ = greeting;
  return {};
}

/// What the peer has sent on a stream, and whether UCX has lost it.
Status Engine::read(Stream& stream, bool& moved) {
  bool greeted = false;
  std::string address;
  if (Status status = stream.read(moved, greeted, address); !status.ok()) return status;
  if (greeted) {
    worker_.connect(stream.who().peer, address);
    if (!stream.who().writes) stream.say_hello(worker_.address());
  }
  // Before, a flush might need the peer to be in a call too.
  if (stream.greeted() && !stream.ready() && worker_.connected(stream.who().peer)) {
    stream.set_ready();
    moved = true;
  }
  const char* const broken = worker_.broken(stream.who().peer);
  return broken != nullptr && stream.greeted() ? stream.lost(broken) : Status{};
}

bool Engine::take_message(Fabric::Piece header, void* data, uint64_t bytes, bool announced) {
  Message message;
  if (stopped_) return false;
  if (!read_header(header.at, header.bytes, message)) return ignore("has a header of another length"), false;
  if (message.end >= ins_.size() || message.token != ins_[message.end].stream().token()) {
    return ignore("does not know the link's token"), false;
  }
  return ins_[message.end].take(message, data, bytes, announced);
}

void Engine::take_credit(Fabric::Piece header) {
  Credit credit;
  if (stopped_) return;
  if (!read_header(header.at, header.bytes, credit)) return ignore("has a header of another length");
  if (credit.end >= outs_.size() || credit.token != outs_[credit.end].stream().token()) {
    return ignore("does not know the link's token");
  }
  outs_[credit.end].take(credit);
}

/// Anybody who reaches the worker can send to it.
void Engine::ignore(const char* what) {
  if (ignored_++ == 0) log_warn("ucx: rank {} ignores a message that {}", wireup_.rank(), what);
}

bool Engine::waiting() const {
  return std::any_of(outs_.begin(), outs_.end(), [](const OutEnd& out) { return out.waiting(); });
}

bool Engine::flushed() const { return !waiting() && worker_.flushed(); }

void Engine::stop() {
  stopped_ = true;
  for (InEnd& in : ins_) in.stop();
  for (OutEnd& out : outs_) out.stop();
  worker_.close();
}

bool Engine::sleep(double seconds) {
  if (worker_.descriptor() < 0) return false;
  const bool busy = std::any_of(outs_.begin(), outs_.end(), [](const OutEnd& out) { return out.busy(); });
  if (busy || stopped_ || !failure_.ok() || !worker_.arm()) return true;  // arm() fails if something has happened
  const timespec limit{0, static_cast<long>(std::min(seconds, kLongestSleep) * 1e9)};
  pollfd wait{worker_.descriptor(), POLLIN, 0};
  ::ppoll(&wait, 1, &limit, nullptr);
  return true;
}

/// Waits until what was sent has left this process.
void Engine::drain() noexcept {
  const Deadline limit = Deadline::in(kDrainLimit);
  const auto closed = [&] {
    return std::all_of(outs_.begin(), outs_.end(), [](OutEnd& out) { return out.stream().closed(); });
  };
  bool moved = false;
  while (!flushed() && !(closed() && !outs_.empty()) && !limit.passed()) {
    if (!progress(moved).ok()) return;
  }
}

}  // namespace tutti::transports::ucx
