#include "transports/verbs/engine.hpp"

#include <algorithm>

#include "base/format.hpp"
#include "base/log.hpp"
#include "topo/constants.hpp"

namespace tutti::transports::verbs {
namespace {

constexpr uint32_t kReaders = 1u << 22;  // ends with a number from here on read
constexpr double kDrainLimit = 2;        // seconds that a closing rank waits for the last bytes to be acknowledged

}  // namespace

Engine::Engine(const Context& context, std::unique_ptr<Nic> nic, uint32_t queues, const char* name,
               ExportDevice export_device)
    : LinkEngine(*context.wireup),
      name_(name),
      wanted_queues_(std::min(queues, kMaxQueues)),
      nic_(std::move(nic)),
      memory_(*nic_, context.arena->base(), context.arena->bytes(), export_device) {}

Engine::~Engine() {
  if (!ended()) {
    drain();
    say_goodbye();
  }
  remove_ends();
}

Reach Engine::probe(Rank) const {
  return {.ok = true, .alpha = machine_constants().verbs_alpha, .beta = machine_constants().verbs_beta};
}

link::OutLink Engine::connect_out(Rank peer, uint32_t link_lane, Deadline deadline) {
  Sender& out = add_out(*nic_, memory_, Connection::Who{peer, link_lane, static_cast<uint32_t>(outs_.size()), true});
  out.open(wireup_.open_stream(peer, label(link_lane), deadline), wanted_queues_, deadline);
  return out.link();
}

link::InLink Engine::connect_in(Rank peer, uint32_t link_lane, Deadline) {
  const auto end = static_cast<uint32_t>(ins_.size()) | kReaders;
  return add_in(*nic_, memory_, Connection::Who{peer, link_lane, end, false}).link();
}

Status Engine::turn(bool& moved) {
  if (Status status = take_completions(moved); !status.ok()) return status;
  if (check_due()) {
    if (Status status = take_events(); !status.ok()) return status;
    if (Status status = check_streams(moved); !status.ok()) return status;
    // What a peer sent before it closed its stream has come: it waits among the completions.
    if (Status status = take_completions(moved); !status.ok()) return status;
  }
  return move_ends(moved);
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
  Connection& connection = reads ? ins_[index].stream() : outs_[index].stream();
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
  for (const Sender& out : outs_) {
    if (out.stream().has_queue(queue)) return &out.stream();
  }
  for (const Receiver& in : ins_) {
    if (in.stream().has_queue(queue)) return &in.stream();
  }
  return nullptr;
}

/// Adds the last event of the port.
void Engine::explain(Status& status) {
  (void)take_events();  // one error is enough
  if (!last_event_.empty()) status.text += fmt::format("; last event of {}: {}", nic_->info().name, last_event_);
}

bool Engine::arm() {
  nic_->arm();
  bool moved = false;
  return progress(moved).ok() && !moved;  // what came before it was armed raises no event
}

/// Waits until what was posted has been acknowledged: destroying a queue pair would lose it.
void Engine::drain() noexcept {
  const Deadline limit = Deadline::in(kDrainLimit);
  const auto done = [&] {
    return std::all_of(outs_.begin(), outs_.end(), [](const Sender& out) {
      return !out.stream().ready() || out.stream().closed() || out.stream().all_done();
    });
  };
  try {
    while (!done() && !limit.passed()) {
      bool moved = false;
      for (Sender& out : outs_) {
        if (out.stream().ready() && !out.stream().ask_for_completions().ok()) return;
      }
      if (!take_completions(moved).ok() || !read_streams(moved).ok() || !take_completions(moved).ok()) return;
    }
  } catch (const Error& error) {
    log_debug("verbs: rank {}: {}", wireup_.rank(), error.what());
  }
}

}  // namespace tutti::transports::verbs
