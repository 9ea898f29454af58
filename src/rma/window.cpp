#include "rma/window.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "base/format.hpp"
#include "base/log.hpp"
#include "base/per_process.hpp"
#include "link/mapped_memory.hpp"
#include "reduce/fold.hpp"
#include "transports/pod_text.hpp"
#include "tutti/error.hpp"

namespace tutti::rma {
namespace {

using link::SharedMemory;

/// Zeroed. Memory that peers can map, if there is some.
SignalLine* make_signals(Rank ranks) {
  const uint64_t bytes = static_cast<uint64_t>(ranks) * sizeof(SignalLine);
  SharedMemory& shared = SharedMemory::of_this_process();
  try {
    return static_cast<SignalLine*>(shared.allocate(bytes, SharedMemory::Kind::Mapped));
  } catch (const Error&) {  // peers send requests then
    return static_cast<SignalLine*>(shared.allocate(bytes));
  }
}

constexpr double kGrace = 2;  // seconds for what uses a part to end: a copy, unless its process is stopped

/// Those of this process.
struct Parts {
  std::mutex mutex;
  std::map<PartName, std::weak_ptr<OwnPart>> all;

  static Parts& of_this_process() { return tutti::of_this_process<Parts>(); }
};

}  // namespace

std::shared_ptr<OwnPart> OwnPart::make(PartName name, void* memory, uint64_t bytes, Rank ranks) {
  const std::shared_ptr<OwnPart> part(new OwnPart(name, memory, bytes, ranks));
  Parts& parts = Parts::of_this_process();
  const std::lock_guard lock(parts.mutex);
  parts.all[std::move(name)] = part;
  return part;
}

std::shared_ptr<OwnPart> OwnPart::find(const PartName& name) {
  Parts& parts = Parts::of_this_process();
  const std::lock_guard lock(parts.mutex);
  const auto found = parts.all.find(name);
  return found == parts.all.end() ? nullptr : found->second.lock();
}

std::optional<PartName> OwnPart::within(const void* memory, uint64_t bytes) {
  const auto begin = reinterpret_cast<uint64_t>(memory);
  Parts& parts = Parts::of_this_process();
  std::vector<std::shared_ptr<OwnPart>> held;  // the last holder's end takes the lock
  const std::lock_guard lock(parts.mutex);
  for (const auto& [name, weak] : parts.all) {
    const std::shared_ptr<OwnPart>& part = held.emplace_back(weak.lock());
    if (part == nullptr || part->is_closed()) continue;
    const uint64_t from = part->part_.memory;
    if (from < begin + bytes && begin < from + part->part_.bytes) return name;
  }
  return std::nullopt;
}

OwnPart::OwnPart(PartName name, void* memory, uint64_t bytes, Rank ranks)
    : name_(std::move(name)), memory_(static_cast<std::byte*>(memory)), ranks_(ranks), signals_(make_signals(ranks)) {
  part_ = {.bytes = bytes, .memory = reinterpret_cast<uint64_t>(memory)};
  const SharedMemory& shared = SharedMemory::of_this_process();
  const link::SharedRegion signals = shared.find(signals_, static_cast<uint64_t>(ranks) * sizeof(SignalLine));
  if (bytes == 0) {  // there is nothing else to map
    part_.signal_region = signals.id;
    return;
  }
  const link::SharedRegion region = shared.find(memory, bytes);
  if (region.id == 0 || signals.id == 0) return;
  part_.region = region.id;
  part_.offset = static_cast<uint64_t>(memory_ - reinterpret_cast<const std::byte*>(region.base));
  part_.signal_region = signals.id;
}

OwnPart::~OwnPart() {
  {
    Parts& parts = Parts::of_this_process();
    const std::lock_guard lock(parts.mutex);
    parts.all.erase(name_);
  }
  SharedMemory::of_this_process().release(signals_);
}

Target::Exposed OwnPart::exposed() const {
  return {.memory = memory_,
          .bytes = part_.bytes,
          .signals = signals_,
          .region = part_.region,
          .signal_region = part_.signal_region};
}

bool OwnPart::is_busy() const {
  return std::any_of(signals_, signals_ + ranks_,
                     [](const SignalLine& line) { return line.busy.load(std::memory_order_seq_cst) != 0; });
}

bool OwnPart::close(Closed why) {
  for (SignalLine* line = signals_; line != signals_ + ranks_; ++line) {
    line->closed.store(why, std::memory_order_seq_cst);
  }
  const Deadline grace = Deadline::in(kGrace);
  while (is_busy() && !grace.passed()) std::this_thread::sleep_for(std::chrono::microseconds(50));
  return !is_busy() || cut_off();
}

/// Of a part that a stopped process may still write to.
bool OwnPart::cut_off() try {
  SharedMemory& shared = SharedMemory::of_this_process();
  const link::SharedRegion region = shared.find(memory_, part_.bytes);
  if (region.id == 0) return false;
  const auto bytes = static_cast<size_t>(region.pages_end - region.pages);
  const std::vector<unsigned char> kept(region.pages, region.pages_end);
  if (!shared.renew(region.pages, region.pages_end)) return false;
  std::memcpy(const_cast<unsigned char*>(region.pages), kept.data(), bytes);
  return bytes >= part_.bytes;
} catch (const std::bad_alloc&) {
  return false;
}

Window::Window(uint64_t number, transports::Wireup& wireup, Channels& channels, std::vector<Part> parts,
               Deadline deadline)
    : number_(number), wireup_(wireup), channels_(channels), parts_(std::move(parts)), peers_(parts_.size()) {
  for (size_t peer = 0; peer < parts_.size(); ++peer) {
    peers_[peer].bytes = parts_[peer].bytes;
    reach(static_cast<Rank>(peer), deadline);
  }
}

/// Finds out whether loads and stores reach the peer's part.
void Window::reach(Rank rank, Deadline deadline) {
  const Part& part = parts_[rank];
  Peer& peer = peers_[rank];
  const transports::ProcessId &here = wireup_.process_id(wireup_.rank()), &there = wireup_.process_id(rank);
  if (here == there) {
    peer.here = OwnPart::find({wireup_.name(), rank, number_});
    if (peer.here == nullptr) refuse(rank, Closed::Deregistered);
    peer.memory = peer.here->memory();
    peer.line = &peer.here->from(wireup_.rank());
    return peer.line->reaches.store(1, std::memory_order_release);
  }
  if (here.host != there.host || part.signal_region == 0) return;
  try {
    if (part.bytes > 0) peer.memory_file = map(rank, part.region, deadline);
    peer.signal_file = map(rank, part.signal_region, deadline);
  } catch (const Error& error) {
    log_info("window: rank {}'s part cannot be mapped, so requests are sent to it: {}", rank, error.what());
    return;
  }
  const uint64_t lines = static_cast<uint64_t>(parts_.size()) * sizeof(SignalLine);
  const uint64_t room = part.bytes > 0 ? peer.memory_file.bytes() : part.offset;
  if (part.offset > room || part.bytes > room - part.offset || peer.signal_file.bytes() < lines) {
    throw_error(Code::ProtocolError, "rank {}'s part of the window does not lie in the memory that it gave", rank);
  }
  if (part.bytes > 0) peer.memory = reinterpret_cast<std::byte*>(peer.memory_file.base()) + part.offset;
  peer.line = reinterpret_cast<SignalLine*>(peer.signal_file.base()) + wireup_.rank();
  peer.line->reaches.store(1, std::memory_order_release);
}

Window::~Window() = default;

link::Segment Window::map(Rank peer, uint64_t region, Deadline deadline) const {
  wireup_.confirm_process(peer, deadline);
  transports::Wireup::Reply reply =
      wireup_.ask(peer, kMapService, transports::pack(MapRequest{.window = number_, .region = region}), deadline);
  MapReply answer;
  if (!transports::unpack(reply.bytes, answer) || answer.magic != MapReply::kMagic) {
    throw_error(Code::Unsupported, "it says: {}", transports::printable_reply(reply.bytes));
  }
  return link::Segment::map(std::move(reply.fd), {0, answer.bytes}, fmt::format("rank {}", peer));
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

void Window::refuse(Rank peer, Closed why) const {
  if (why == Closed::Left) throw_error(Code::InvalidUsage, "rank {} has left the communicator", peer);
  throw_error(Code::InvalidUsage, "rank {} has deregistered the window of call {}", peer, number_);
}

void Window::check_open(Rank peer) const {
  const SignalLine* const line = peers_[peer].line;
  if (line == nullptr) return channels_.check_not_left(peer);
  const Closed closed = line->closed.load(std::memory_order_acquire);
  if (closed != Closed::No) refuse(peer, closed);
}

/// Of a part that could not be used, though its bytes are right: if loads and stores reach it, it is closed.
void Window::refuse_if_closed(Rank peer) const {
  const SignalLine* const line = peers_[peer].line;
  if (line != nullptr) refuse(peer, line->closed.load(std::memory_order_acquire));
}

Request Window::request(Request::What what) const { return {.what = what, .window = number_}; }

/// A request without an answer.
void Window::tell(Rank peer, const Request& request, std::span<const std::byte> bytes, double limit) {
  const Deadline deadline = Deadline::in(limit);
  Channel& channel = channels_.to(peer, deadline);
  channel.is_dirty = true;
  channel.send(request, bytes, deadline);
}

/// The answer's value.
uint64_t Window::ask(Rank peer, const Request& request, std::span<std::byte> into, double limit) {
  const Deadline deadline = Deadline::in(limit);
  Channel& channel = channels_.to(peer, deadline);
  channel.send(request, {}, deadline);
  const Reply reply = channel.receive(into, deadline);
  switch (reply.outcome) {
    case Reply::Outcome::Done:
      return reply.value;
    case Reply::Outcome::NoWindow:
      channels_.check_not_left(peer);
      refuse(peer, Closed::Deregistered);
    case Reply::Outcome::Unmapped:
      throw_error(Code::InvalidUsage, "rank {} has freed its part of the window of call {} before it deregistered it",
                  peer, number_);
    case Reply::Outcome::OutOfRange:
      break;
  }
  throw_error(Code::InvalidArgument, "rank {} says that the bytes do not lie in its part of the window of call {}",
              peer, number_);
}

void Window::put(std::span<const std::byte> source, Rank rank, uint64_t offset, double limit) {
  check(rank, offset, source.size());
  if (try_put(source, rank, offset)) return;
  refuse_if_closed(rank);
  Request put = request(Request::What::Put);
  put.offset = offset;
  put.bytes = source.size();
  tell(rank, put, source, limit);
}

void Window::get(std::span<std::byte> into, Rank rank, uint64_t offset, double limit) {
  check(rank, offset, into.size());
  if (try_get(into, rank, offset)) return;
  refuse_if_closed(rank);
  Request get = request(Request::What::Get);
  get.offset = offset;
  get.bytes = into.size();
  ask(rank, get, into, limit);
}

void Window::signal(Rank rank, uint32_t signal, double limit) {
  if (try_signal(rank, signal)) return;
  if (peers_[rank].line != nullptr) {
    flush(rank, limit);  // what was put into other windows comes first
    check_open(rank);
    return peers_[rank].store_signal(signal);
  }
  Request request = this->request(Request::What::Signal);
  request.operand = signal;
  tell(rank, request, {}, limit);
}

uint64_t Window::add(uint64_t operand, Rank rank, uint64_t offset, double limit) {
  check_word(rank, offset);
  uint64_t before = 0;
  if (try_add(operand, rank, offset, before)) return before;
  refuse_if_closed(rank);
  Request add = request(Request::What::Add);
  add.offset = offset;
  add.operand = operand;
  return ask(rank, add, {}, limit);
}

uint64_t Window::compare_swap(uint64_t expected, uint64_t desired, Rank rank, uint64_t offset, double limit) {
  check_word(rank, offset);
  uint64_t before = 0;
  if (try_compare_swap(expected, desired, rank, offset, before)) return before;
  refuse_if_closed(rank);
  Request swap = request(Request::What::CompareSwap);
  swap.offset = offset;
  swap.operand = desired;
  swap.expected = expected;
  return ask(rank, swap, {}, limit);
}

void Window::flush(Rank rank, double limit) {
  if (!channels_.is_dirty(rank)) return;  // what loads and stores have done is in place
  ask(rank, request(Request::What::Flush), {}, limit);
  channels_.to(rank, Deadline::in(limit)).is_dirty = false;
}

}  // namespace tutti::rma
