#include "transports/verbs/rdma_queue.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/format.hpp"
#include "transports/pod_text.hpp"
#include "transports/verbs/meaning.hpp"

namespace tutti::transports::verbs {
namespace {

constexpr uint32_t kWorks = 128;         // work requests at a time
constexpr uint32_t kCompleteEvery = 32;  // work requests, at least
constexpr uint32_t kMaxReads = 64;       // that a greeting may name
constexpr uint32_t kNumbers = 1u << 24;  // of queue pairs, and of packets

const char* what_is_wrong(const RdmaGreeting& greeting) {
  if (greeting.magic != RdmaGreeting::kMagic) return "it does not begin like one; the peer may run another version";
  if (greeting.nic.mtu < 256 || greeting.nic.mtu > 4096) return "it has an impossible packet size";
  if (greeting.queue.number >= kNumbers || greeting.queue.first >= kNumbers) return "its queue pair is impossible";
  if (greeting.reads == 0 || greeting.reads > kMaxReads) return "it has an impossible number of reads";
  if (greeting.atomics > RemoteAtomics::Global) return "it has an unknown kind of atomic steps";
  return nullptr;
}

Code code_of(Completion::Result result) {
  switch (result) {
    case Completion::Result::Refused:
      return Code::InvalidUsage;
    case Completion::Result::Other:
      return Code::SystemError;
    default:
      return Code::PeerFailed;
  }
}

}  // namespace

RdmaGreeting read_rdma_greeting(const std::string& bytes) {
  RdmaGreeting greeting;
  const char* const wrong = unpack(bytes, greeting) ? what_is_wrong(greeting) : "it has another length";
  if (wrong != nullptr) throw_error(Code::ProtocolError, "the greeting of a queue pair is invalid: {}", wrong);
  return greeting;
}

RdmaQueue::RdmaQueue(RdmaDevice& device, Rank peer)
    : device_(device),
      peer_(peer),
      number_(device.next_number()),
      works_(std::min(kWorks, device.info().max_work)),
      slots_(device.nic(), kSlots * kSlotBytes, RegionUse::Data),
      queue_(device.nic().make_queue({.receive_id = number_ << 32, .works = works_, .access = PeerAccess::None})) {
  device_.add(number_, *this);
}

RdmaQueue::~RdmaQueue() { stop(); }

/// No device uses this rank's memory for it any more.
void RdmaQueue::stop() {
  stopped_ = true;
  queue_->stop();
  device_.remove(*this);
}

std::string RdmaQueue::offer() {
  return pack(RdmaGreeting{
      .nic = device_.info().address, .queue = queue_->address(), .reads = device_.info().max_reads, .atomics = {}});
}

void RdmaQueue::connect(const std::string& answer) {
  const RdmaGreeting peer = read_rdma_greeting(answer);
  if (peer.reads > device_.info().max_reads) {
    throw_error(Code::ProtocolError, "rank {} answers with more reads than it was offered", peer_);
  }
  queue_->connect(peer.nic, peer.queue, peer.reads);
  atomics_ = peer.atomics;
}

void RdmaQueue::complete(const Completion& completion) {
  if (completion.result != Completion::Result::Ok) {
    if (!failure_.ok()) return;
    failure_ = {code_of(completion.result), fmt::format("RDMA to rank {} ({}): {}: {}", peer_, device_.info().name,
                                                        completion.text, meaning_of(completion.result))};
    return stop();
  }
  // Work requests complete in order: this one tells of all before it.
  const uint32_t more = static_cast<uint32_t>(completion.id) + 1 - static_cast<uint32_t>(done_);
  if (more <= posted_ - done_) done_ += more;
}

template <class Done>
void RdmaQueue::await(const Done& done, RemoteWait& wait) {
  try {
    for (uint32_t turn = 0; !done(); ++turn) {
      failure_.throw_if_bad();
      const uint64_t before = done_;
      if (!device_.poll()) device_.pause(turn, wait);
      if (done_ != before) wait.progressed();
    }
  } catch (...) {  // no device may read or write the caller's memory afterwards
    stop();
    throw;
  }
}

void RdmaQueue::await_all(RemoteWait& wait) {
  await([&, all = posted_] { return is_done(all); }, wait);
}

Work RdmaQueue::work_on(const RemoteKey& key, uint64_t offset, Work::Kind kind) {
  return {.kind = kind, .remote = key.address + offset, .remote_key = static_cast<uint32_t>(key.key)};
}

/// Once there is room.
void RdmaQueue::post(Work work, RemoteWait& wait) {
  failure_.throw_if_bad();
  if (stopped_) throw_error(Code::PeerFailed, "RDMA to rank {} has failed before", peer_);
  await([&] { return posted_ - done_ < works_; }, wait);
  if (posted_ + 1 - asked_ >= std::min(kCompleteEvery, works_)) work.completes = true;
  work.id = number_ << 32 | static_cast<uint32_t>(posted_);
  if (const int error = queue_->post(work); error != 0) {
    stop();
    throw_error(Code::SystemError, "RDMA to rank {} ({}): the device takes no work: {}", peer_, device_.info().name,
                std::strerror(error));
  }
  ++posted_;
  if (work.completes) asked_ = posted_;
}

/// Work requests complete in order, so the slot that was taken first is free first.
uint32_t RdmaQueue::take_slot(RemoteWait& wait) {
  const uint32_t slot = next_slot_++ % kSlots;
  await([&] { return is_done(used_until_[slot]); }, wait);
  return slot;
}

void RdmaQueue::post_from_slot(std::span<const std::byte> source, Work work, RemoteWait& wait) {
  const uint32_t slot = take_slot(wait);
  std::memcpy(slot_at(slot), source.data(), source.size());
  work.pieces[0] = {slot_at(slot), static_cast<uint32_t>(source.size()), slots_.region->local_key};
  work.count = 1;
  work.completes = true;
  post(work, wait);
  used_until_[slot] = posted_;
}

/// So that a call of many bytes is seen to make progress.
uint64_t RdmaQueue::largest_piece() const {
  constexpr uint64_t kSeen = 64 << 20;
  return std::min<uint64_t>(kSeen, device_.info().max_message);
}

void RdmaQueue::write(std::span<const std::byte> source, const RemoteKey& key, uint64_t offset, RemoteWait& wait) {
  const uint64_t bytes = source.size();
  if (bytes > 0 && bytes <= device_.info().max_inline) {
    Work work = work_on(key, offset, Work::Kind::Write);
    work.inlined = true;
    work.pieces[0] = {source.data(), static_cast<uint32_t>(bytes), 0};
    work.count = 1;
    return post(work, wait);
  }
  const auto region = bytes <= kSlotBytes ? nullptr : device_.memory().find(source.data(), bytes);
  const uint64_t largest = region == nullptr ? kSlotBytes : largest_piece();
  for (uint64_t at = 0; at < bytes; at += largest) {
    const auto piece = source.subspan(at, std::min(largest, bytes - at));
    Work work = work_on(key, offset + at, Work::Kind::Write);
    if (region == nullptr) {
      post_from_slot(piece, work, wait);
      continue;
    }
    work.pieces[0] = {piece.data(), static_cast<uint32_t>(piece.size()), region->local_key};
    work.count = 1;
    work.completes = true;
    post(work, wait);
  }
  if (region != nullptr) await_all(wait);
}

void RdmaQueue::read(std::span<std::byte> into, const RemoteKey& key, uint64_t offset, RemoteWait& wait) {
  const uint64_t bytes = into.size();
  const auto region = bytes <= kSlotBytes ? nullptr : device_.memory().find(into.data(), bytes, RegionUse::Data);
  if (region == nullptr) return read_by_slots(into, key, offset, wait);
  const uint64_t largest = largest_piece();
  for (uint64_t at = 0; at < bytes; at += largest) {
    const auto piece = into.subspan(at, std::min(largest, bytes - at));
    Work work = work_on(key, offset + at, Work::Kind::Read);
    work.pieces[0] = {piece.data(), static_cast<uint32_t>(piece.size()), region->local_key};
    work.count = 1;
    work.completes = true;
    post(work, wait);
  }
  await_all(wait);
}

/// As much at a time as the slots have room for.
void RdmaQueue::read_by_slots(std::span<std::byte> into, const RemoteKey& key, uint64_t offset, RemoteWait& wait) {
  const uint64_t largest = std::min<uint64_t>(slots_.bytes(), device_.info().max_message);
  for (uint64_t at = 0; at < into.size(); at += largest) {
    const auto piece = into.subspan(at, std::min(largest, into.size() - at));
    await([&] { return is_done(*std::max_element(used_until_.begin(), used_until_.end())); }, wait);
    Work work = work_on(key, offset + at, Work::Kind::Read);
    work.pieces[0] = {slots_.data.get(), static_cast<uint32_t>(piece.size()), slots_.region->local_key};
    work.count = 1;
    work.completes = true;
    post(work, wait);
    await_all(wait);
    std::memcpy(piece.data(), slots_.data.get(), piece.size());
  }
}

void RdmaQueue::count(const RemoteKey& key, uint64_t offset, RemoteWait& wait) {
  Work work = work_on(key, offset, Work::Kind::Add);
  work.operand = 1;
  work.pieces[0] = {device_.unused_result(), sizeof(uint64_t), device_.result_key()};
  work.count = 1;
  post(work, wait);
}

uint64_t RdmaQueue::fetch_word(Work work, RemoteWait& wait) {
  work.pieces[0] = {device_.result(), sizeof(uint64_t), device_.result_key()};
  work.count = 1;
  work.completes = true;
  post(work, wait);
  await_all(wait);
  return *device_.result();
}

uint64_t RdmaQueue::add(uint64_t operand, const RemoteKey& key, uint64_t offset, RemoteWait& wait) {
  Work work = work_on(key, offset, Work::Kind::Add);
  work.operand = operand;
  return fetch_word(work, wait);
}

uint64_t RdmaQueue::compare_swap(uint64_t expected, uint64_t desired, const RemoteKey& key, uint64_t offset,
                                 RemoteWait& wait) {
  Work work = work_on(key, offset, Work::Kind::CompareSwap);
  work.expected = expected;
  work.operand = desired;
  return fetch_word(work, wait);
}

/// That the device has completed writes tells that the peer's has them, not that its processor sees them: a read does.
void RdmaQueue::flush(const RemoteKey& key, RemoteWait& wait) { fetch_word(work_on(key, 0, Work::Kind::Read), wait); }

}  // namespace tutti::transports::verbs
