#include "transports/ucx/engine.hpp"

#include <algorithm>

#include "base/format.hpp"
#include "base/log.hpp"
#include "topo/constants.hpp"

namespace tutti::transports::ucx {
namespace {

constexpr double kDrainLimit = 1;      // seconds that a closing rank waits for the last bytes to leave
constexpr double kGivenUpLimit = 0.5;  // seconds in which a stream may tell why UCX has given up

}  // namespace

Engine::Engine(const Context& context) : LinkEngine(*context.wireup), worker_(*this) {}

Engine::~Engine() {
  if (!ended()) {
    drain();
    say_goodbye();
  }
  for (Receiver& in : ins_) in.stop();
  stopped_ = true;
  worker_.close();
  remove_ends();
}

Reach Engine::probe(Rank) const {
  return {.ok = true, .alpha = machine_constants().ucx_alpha, .beta = machine_constants().ucx_beta};
}

link::OutLink Engine::connect_out(Rank peer, uint32_t link_lane, Deadline deadline) {
  Fd stream = wireup_.open_stream(peer, label(link_lane), deadline);
  Sender& out = add_out(worker_, Stream::Who{peer, link_lane, static_cast<uint32_t>(outs_.size()), true});
  out.stream().attach(std::move(stream));
  out.stream().say_hello(worker_.address());
  return out.link();
}

link::InLink Engine::connect_in(Rank peer, uint32_t link_lane, Deadline) {
  return add_in(worker_, Stream::Who{peer, link_lane, static_cast<uint32_t>(ins_.size()), false}).link();
}

Status Engine::turn(bool& moved) {
  moved = worker_.progress();
  if (!worker_.fatal().empty()) return given_up(moved);
  if (check_due()) {
    if (Status status = check_streams(moved); !status.ok()) return status;
  }
  if (Status status = move_ends(moved); !status.ok()) return status;
  worker_.flush();
  return {};
}

/// UCX cannot go on. Often that is because a peer has died, and its stream tells which, perhaps a little later.
Status Engine::given_up(bool& moved) {
  if (!given_up_until_) given_up_until_ = Deadline::in(kGivenUpLimit);
  const auto lost = [&](Stream& stream) {
    std::string address;
    (void)stream.read(moved, address);
    return stream.closed() && stream.received_by_peer() == Stream::kLost;
  };
  const auto gone = [&](const Stream& stream) {
    return Status{Code::PeerFailed, fmt::format("{}: the peer's process is gone, or its communicator has failed; UCX "
                                                "cannot go on, as it reports: {}",
                                                stream.name(), worker_.fatal())};
  };
  for (Sender& out : outs_) {
    if (lost(out.stream())) return gone(out.stream());
  }
  for (Receiver& in : ins_) {
    if (lost(in.stream())) return gone(in.stream());
  }
  if (!given_up_until_->passed()) return {};
  return {Code::SystemError,
          fmt::format("ucx: UCX cannot go on, as it reports: {}; the links of rank {} are lost. If it comes back, try "
                      "other devices or transports (UCX_NET_DEVICES, UCX_TLS), or TUTTI_TRANSPORT=tcp",
                      worker_.fatal(), wireup_.rank())};
}

/// What the peer has sent on a stream, and whether UCX has lost it.
Status Engine::read(Stream& stream, bool& moved) {
  std::string address;
  if (Status status = stream.read(moved, address); !status.ok()) return status;
  if (!address.empty()) {
    worker_.connect(stream.who().peer, address);
    if (!stream.who().writes) stream.say_hello(worker_.address());
  }
  if (stream.greeted() && !stream.settled() && !stream.closed() && worker_.connected(stream.who().peer)) {
    stream.set_settled();
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

void Engine::stop() {
  LinkEngine::stop();
  worker_.close();
}

/// Waits until what was sent has left this process.
void Engine::drain() noexcept {
  const Deadline limit = Deadline::in(kDrainLimit);
  const auto closed = [&] {
    return std::all_of(outs_.begin(), outs_.end(), [](Sender& out) { return out.stream().closed(); });
  };
  bool moved = false;
  while (!flushed() && !(closed() && !outs_.empty()) && !limit.passed()) {
    if (!progress(moved).ok()) return;
  }
}

}  // namespace tutti::transports::ucx
