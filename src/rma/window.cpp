#include "rma/window.hpp"

#include <atomic>
#include <map>
#include <utility>

#include "base/format.hpp"
#include "rma/cma_part.hpp"
#include "rma/rdma_part.hpp"
#include "rma/refusals.hpp"
#include "rma/requests.hpp"
#include "rma/target.hpp"
#include "transports/pod_text.hpp"
#include "transports/wireup.hpp"
#include "tutti/error.hpp"

namespace tutti::rma {
namespace {

[[noreturn]] void throw_not_given() {
  throw Error(Code::ProtocolError, "its part does not lie in the memory that it gave");
}

}  // namespace

Window::Window(uint64_t number, Connections& connections, std::vector<Part> parts, Deadline deadline)
    : number_(number), connections_(connections), parts_(std::move(parts)), peers_(parts_.size()) {
  for (size_t peer = 0; peer < parts_.size(); ++peer) {
    peers_[peer].bytes = parts_[peer].bytes;
    reach(static_cast<Rank>(peer), deadline);
  }
}

Window::~Window() = default;

/// Finds out how the peer's part can be reached.
void Window::reach(Rank rank, Deadline deadline) {
  const transports::Wireup& wireup = connections_.wireup();
  Peer& peer = peers_[rank];
  const transports::ProcessId &here = wireup.process_id(wireup.rank()), &there = wireup.process_id(rank);
  if (here == there) {
    peer.here = OwnPart::find({wireup.name(), rank, number_});
    if (peer.here == nullptr) throw_closed(rank, number_, Closed::Deregistered, connections_.ends());
    peer.memory = peer.here->memory();
    peer.line = &peer.here->from(wireup.rank());
    return peer.line->reaches.store(1, std::memory_order_release);
  }
  if (here.host == there.host) {
    reach_process(rank, deadline);
  } else {
    reach_host(rank);
  }
  if (peer.line != nullptr || peer.remote != nullptr) return;
  peer.remote = std::make_unique<Requests>(connections_, rank, number_);
}

/// A rank of another host, if a device of this one reaches it, and it has exposed its part.
void Window::reach_host(Rank rank) {
  RdmaConnection* const device = connections_.rdma(rank);
  Peer& peer = peers_[rank];
  if (device != nullptr && device->is_refused()) {
    peer.why_requests = device->refusal();
  } else if (device != nullptr && RdmaPart::can_reach(parts_[rank])) {
    const Rank me = connections_.wireup().rank();
    peer.remote = std::make_unique<RdmaPart>(connections_, *device, me, rank, number_, parts_[rank]);
  } else {
    peer.why_requests =
        device == nullptr ? connections_.why_no_rdma(rank) : "no device reaches its part: its log has the reason";
  }
}

/// Another process of this host, if its part can be mapped, or written and read by CMA.
void Window::reach_process(Rank rank, Deadline deadline) try {
  const Part& part = parts_[rank];
  std::string& why_requests = peers_[rank].why_requests;
  if (part.signal_region == 0) return void(why_requests = "its signals cannot be mapped");
  const bool is_mapped = part.region != 0 || part.bytes == 0;
  if (!is_mapped && !connections_.use_cma()) return void(why_requests = "TUTTI_CMA is off");
  link::PeerRegions::Mapped signals = map(rank, part.signal_region, deadline);
  if (signals->bytes() < static_cast<uint64_t>(parts_.size()) * sizeof(SignalLine)) throw_not_given();
  if (is_mapped) return map_part(rank, std::move(signals), deadline);
  peers_[rank].remote = std::make_unique<CmaPart>(connections_, rank, number_, part, std::move(signals));
} catch (const Error& error) {
  if (error.code() == Code::ProtocolError) throw;
  peers_[rank].why_requests = error.what();
  connections_.warn_of_requests(rank, error.what());
}

void Window::map_part(Rank rank, link::PeerRegions::Mapped signals, Deadline deadline) {
  const Part& part = parts_[rank];
  Peer& peer = peers_[rank];
  if (part.bytes > 0) {
    peer.memory_file = map(rank, part.region, deadline);
    const uint64_t room = peer.memory_file->bytes();
    if (part.offset > room || part.bytes > room - part.offset) throw_not_given();
    peer.memory = reinterpret_cast<std::byte*>(peer.memory_file->base()) + part.offset;
  }
  peer.signal_file = std::move(signals);
  peer.line = reinterpret_cast<SignalLine*>(peer.signal_file->base()) + connections_.wireup().rank();
  peer.line->reaches.store(1, std::memory_order_release);
}

link::PeerRegions::Mapped Window::map(Rank peer, uint64_t region, Deadline deadline) const {
  transports::Wireup& wireup = connections_.wireup();
  link::PeerRegions& regions = connections_.regions();
  if (link::PeerRegions::Mapped known = regions.find(peer, region)) return known;
  wireup.confirm_process(peer, deadline);
  transports::Wireup::Reply reply =
      wireup.ask(peer, kMapService, transports::pack(MapRequest{.window = number_, .region = region}), deadline);
  MapReply answer;
  if (!transports::unpack(reply.bytes, answer) || answer.magic != MapReply::kMagic) {
    throw_error(Code::Unsupported, "it says: {}", transports::printable_reply(reply.bytes));
  }
  return regions.add(peer, region,
                     link::Segment::map(std::move(reply.fd), {0, answer.bytes}, fmt::format("rank {}", peer)));
}

std::string Window::ways() const {
  std::map<std::pair<std::string, std::string>, std::string> ranks;  // by way, and why it is not a better one
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    const Peer& peer = peers_[rank];
    const char* const way = peer.remote == nullptr ? "loads and stores" : peer.remote->name();
    std::string& all = ranks[{way, peer.why_requests}];
    all += fmt::format("{}{}", all.empty() ? "" : ", ", rank);
  }
  std::string text;
  for (const auto& [way, of] : ranks) {
    text += fmt::format("{}{} to {}{}", text.empty() ? "" : "; ", way.first, of,
                        way.second.empty() ? "" : fmt::format(" ({})", way.second));
  }
  return text;
}

void Window::check(Rank peer, uint64_t offset, uint64_t bytes) const {
  const uint64_t all = parts_[peer].bytes;
  if (offset <= all && bytes <= all - offset) return;
  throw_error(Code::InvalidArgument,
              "{} bytes at offset {} do not lie in rank {}'s part, of {} bytes, of the window of call {}", bytes,
              offset, peer, all, number_);
}

/// The same for an atomic step.
void Window::check_word(Rank peer, uint64_t offset) const {
  check(peer, offset, sizeof(uint64_t));
  if ((parts_[peer].memory + offset) % sizeof(uint64_t) == 0) return;
  throw_error(Code::InvalidArgument,
              "the 8 bytes at offset {} of rank {}'s part of the window of call {} do not lie at a multiple of 8",
              offset, peer, number_);
}

void Window::check_open(Rank peer) const {
  const SignalLine* const line = peers_[peer].line;
  if (line == nullptr) return connections_.check_not_left(peer);
  const Closed closed = line->closed.load(std::memory_order_acquire);
  if (closed != Closed::No) throw_closed(peer, number_, closed, connections_.ends());
}

/// What reaches a part that loads and stores do not. If they do, but have not used bytes that lie in it, it is closed.
RemotePart& Window::remote(Rank rank) const {
  const Peer& peer = peers_[rank];
  if (peer.remote == nullptr) {
    throw_closed(rank, number_, peer.line->closed.load(std::memory_order_acquire), connections_.ends());
  }
  return *peer.remote;
}

void Window::put(std::span<const std::byte> source, Rank rank, uint64_t offset, double limit) {
  check(rank, offset, source.size());
  if (!try_put(source, rank, offset)) remote(rank).put(source, offset, limit);
}

void Window::get(std::span<std::byte> into, Rank rank, uint64_t offset, double limit) {
  check(rank, offset, into.size());
  if (!try_get(into, rank, offset)) remote(rank).get(into, offset, limit);
}

void Window::signal(Rank rank, uint32_t signal, double limit) {
  if (try_signal(rank, signal)) return;
  RemotePart* const remote = peers_[rank].remote.get();
  connections_.flush(rank, limit, remote != nullptr ? remote->connection() : nullptr);
  if (remote != nullptr) return remote->signal(signal, limit);
  check_open(rank);
  peers_[rank].store_signal(signal);
}

uint64_t Window::add(uint64_t operand, Rank rank, uint64_t offset, double limit) {
  check_word(rank, offset);
  uint64_t before = 0;
  return try_add(operand, rank, offset, before) ? before : remote(rank).add(operand, offset, limit);
}

uint64_t Window::compare_swap(uint64_t expected, uint64_t desired, Rank rank, uint64_t offset, double limit) {
  check_word(rank, offset);
  uint64_t before = 0;
  if (try_compare_swap(expected, desired, rank, offset, before)) return before;
  return remote(rank).compare_swap(expected, desired, offset, limit);
}

void Window::flush(Rank rank, double limit) {
  connections_.flush(rank, limit);
  fence();
}

}  // namespace tutti::rma
