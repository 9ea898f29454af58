#include "transports/verbs/engine.hpp"

#include <poll.h>

#include <algorithm>
#include <cmath>

#include "base/format.hpp"
#include "base/log.hpp"
#include "topo/constants.hpp"

namespace tutti::transports::verbs {
namespace {

constexpr uint32_t kReaders = 1u << 22;  // ends with a number from here on read
constexpr uint32_t kLookEvery = 256;     // turns without progress, between two looks at streams and events
constexpr double kDrainLimit = 2;        // seconds that a closing rank waits for the last bytes to be acknowledged
constexpr double kLongestSleep = 1e-3;   // seconds: streams raise no event of the device

}  // namespace

Engine::Engine(const Context& context, std::unique_ptr<Nic> nic, uint32_t queues, const char* name)
    : wireup_(*context.wireup),
      name_(name),
      wanted_queues_(std::min(queues, kMostQueues)),
      nic_(std::move(nic)),
      memory_(*nic_, context.arena->base(), context.arena->bytes()) {}

Engine::~Engine() {
  if (stopped_ || !failure_.ok()) return;  // peers take the end of a stream without a goodbye for a failure
  drain();
  for (InEnd& in : ins_) in.connection().say_goodbye(in.received());
  for (OutEnd& out : outs_) out.connection().say_goodbye(0);
}

std::string Engine::label(uint32_t link_lane) { return fmt::format("verbs:{}", link_lane); }

Reach Engine::probe(Rank) const {
  return {.ok = true, .alpha = machine_constants().verbs_alpha, .beta = machine_constants().verbs_beta};
}

link::OutLink Engine::connect_out(Rank peer, uint32_t link_lane, Deadline deadline) {
  const auto end = static_cast<uint32_t>(outs_.size());
  outs_.emplace_back(*nic_, memory_, Connection::Who{peer, link_lane, end, true});
  outs_.back().open(wireup_.open_stream(peer, label(link_lane), deadline), wanted_queues_, deadline);
  ++greeting_;
  return outs_.back().link();
}

link::InLink Engine::connect_in(Rank peer, uint32_t link_lane, Deadline) {
  const auto end = static_cast<uint32_t>(ins_.size()) | kReaders;
  ins_.emplace_back(*nic_, Connection::Who{peer, link_lane, end, false});
  expected_.push_back(ins_.size() - 1);
  ++greeting_;
  return ins_.back().link();
}

Status Engine::progress(bool& moved) {
  moved = false;
  if (stopped_ || !failure_.ok()) return failure_;
  try {
    failure_ = turn(moved);
  } catch (const Error& error) {  // no memory for a buffer, or no queue pair
    failure_ = Status::from(error);
  }
  if (!failure_.ok()) explain(failure_);
  return failure_;
}

Status Engine::turn(bool& moved) {
  if (Status status = take_completions(moved); !status.ok()) return status;
  if (greeting_ > 0 || ++idle_turns_ % kLookEvery == 0) {
    if (Status status = look_around(moved); !status.ok()) return status;
  }
  for (OutEnd& out : outs_) {
    if (Status status = out.progress(moved); !status.ok()) return status;
  }
  for (InEnd& in : ins_) {
    if (Status status = in.progress(moved); !status.ok()) return status;
  }
  if (moved) idle_turns_ = 0;
  return {};
}

Status Engine::take_completions(bool& moved) {
  constexpr int kAtOnce = 32;
  Completion completions[kAtOnce];
  int count = kAtOnce;
  while (count == kAtOnce) {
    count = nic_->poll(completions, kAtOnce);
    if (count < 0) {
      return {Code::SystemError, fmt::format("verbs: {} reports no completions any more", nic_->info().name)};
    }
    for (int i = 0; i < count; ++i) {
      if (Status status = take(completions[i]); !status.ok()) return status;
    }
    moved = moved || count > 0;
  }
  return {};
}

Status Engine::take(const Completion& completion) {
  const uint32_t end = WorkId::of(completion.id).end;
  const bool reads = (end & kReaders) != 0;
  const size_t index = end & (kReaders - 1);
  if (index >= (reads ? ins_.size() : outs_.size())) return {};
  Connection& connection = reads ? ins_[index].connection() : outs_[index].connection();
  // The peer has closed the link properly: what was on its way to it fails, and is not needed.
  if (completion.result != Completion::Result::Ok && connection.closed()) return {};
  bool has_notice = false;
  if (Status status = connection.complete(completion, has_notice); !status.ok()) {
    bool moved = false;  // the goodbye may have come
    if (Status read = connection.read_stream(moved); read.ok() && connection.closed()) return {};
    return status;
  }
  if (!has_notice) return {};
  return reads ? ins_[index].notice(completion.notice) : outs_[index].notice(completion.notice);
}

/// Looks at what changes rarely: the device's events, new streams, and what comes on streams.
Status Engine::look_around(bool& moved) {
  if (Status status = take_events(); !status.ok()) return status;
  if (Status status = take_streams(moved); !status.ok()) return status;
  return read_streams(moved);
}

/// Gives streams that peers have opened to the ends that wait for them.
Status Engine::take_streams(bool& moved) {
  for (size_t i = 0; i < expected_.size();) {
    InEnd& in = ins_[expected_[i]];
    std::optional<Fd> stream = wireup_.take_stream(in.connection().who().peer, label(in.connection().who().link_lane));
    if (!stream) {
      ++i;
      continue;
    }
    in.attach(std::move(*stream));
    moved = true;
    expected_.erase(expected_.begin() + static_cast<ptrdiff_t>(i));
  }
  return {};
}

Status Engine::read_streams(bool& moved) {
  uint32_t greeting = 0;
  const auto read = [&](Connection& connection) {
    Status status = connection.read_stream(moved);
    if (!connection.ready()) ++greeting;
    return status;
  };
  for (OutEnd& out : outs_) {
    if (Status status = read(out.connection()); !status.ok()) return status;
  }
  for (InEnd& in : ins_) {
    if (Status status = read(in.connection()); !status.ok()) return status;
  }
  greeting_ = greeting;
  // What a peer sent before it closed its stream has come: it waits among the completions.
  return take_completions(moved);
}

/// A queue or device that fails is an error. A port that is down may come back: the device tries for some seconds.
Status Engine::take_events() {
  for (Event event = nic_->next_event(); !event.text.empty(); event = nic_->next_event()) {
    const Connection* broken = event.queue != 0 ? connection_of(event.queue) : nullptr;
    if (broken != nullptr && !broken->closed()) {
      return {Code::PeerFailed, fmt::format("{} broke: the device reports: {}", broken->name(), event.text)};
    }
    if (event.fatal) {
      return {Code::SystemError, fmt::format("verbs: the device of {} has failed: {}", nic_->info().name, event.text)};
    }
    log_warn("verbs: rank {}, {}: {}", wireup_.rank(), nic_->info().name, event.text);
    last_event_ = std::move(event.text);
  }
  return {};
}

const Connection* Engine::connection_of(uint32_t queue) const {
  for (const OutEnd& out : outs_) {
    if (out.connection().has_queue(queue)) return &out.connection();
  }
  for (const InEnd& in : ins_) {
    if (in.connection().has_queue(queue)) return &in.connection();
  }
  return nullptr;
}

/// Adds the last event of the port.
void Engine::explain(Status& status) {
  (void)take_events();  // one error is enough
  if (!last_event_.empty()) status.text += fmt::format("; last event of {}: {}", nic_->info().name, last_event_);
}

bool Engine::flushed() const {
  return std::none_of(outs_.begin(), outs_.end(), [](const OutEnd& out) { return out.waiting(); });
}

void Engine::stop() {
  stopped_ = true;
  for (OutEnd& out : outs_) out.stop();
  for (InEnd& in : ins_) in.stop();
}

bool Engine::busy() const {
  return std::any_of(outs_.begin(), outs_.end(), [](const OutEnd& out) { return out.busy(); });
}

bool Engine::sleep(double seconds) {
  if (nic_->descriptor() < 0) return false;
  if (busy()) return true;
  nic_->arm();
  bool moved = false;
  if (!progress(moved).ok() || moved) return true;  // what came before it was armed raises no event
  const double most = std::min(seconds, kLongestSleep);
  const timespec limit{0, static_cast<long>(most * 1e9)};
  pollfd wait{nic_->descriptor(), POLLIN, 0};
  ::ppoll(&wait, 1, &limit, nullptr);
  return true;
}

/// Waits until what was posted has been acknowledged: destroying a queue pair would lose it.
void Engine::drain() noexcept {
  const Deadline limit = Deadline::in(kDrainLimit);
  const auto done = [&] {
    return std::all_of(outs_.begin(), outs_.end(), [](const OutEnd& out) {
      return !out.connection().ready() || out.connection().closed() || out.connection().all_done();
    });
  };
  try {
    while (!done() && !limit.passed()) {
      bool moved = false;
      for (OutEnd& out : outs_) {
        if (out.connection().ready() && !out.connection().ask_for_completions().ok()) return;
      }
      if (!take_completions(moved).ok() || !read_streams(moved).ok()) return;
    }
  } catch (const Error& error) {
    log_debug("verbs: rank {}: {}", wireup_.rank(), error.what());
  }
}

}  // namespace tutti::transports::verbs
