#include "exec/gpu/relay.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/format.hpp"

namespace tutti::exec::gpu {
namespace {

using Wire = link::HostWire;

constexpr uint64_t kRingBytes = link::kCapacity * link::kLine;
constexpr uint64_t kWordBytes = kRingBytes + link::kStride;

}  // namespace

RelayMemory::RelayMemory(const Gpu& gpu, uint64_t slot_bytes, Slots slots)
    : RelayMemory(gpu, slot_bytes, slots, pinned(gpu, kWordBytes),
                  slots == Slots::OnHost ? pinned(gpu, link::kPushSlots * slot_bytes)
                                         : on_device(gpu, link::kPushSlots * slot_bytes)) {}

RelayMemory::RelayMemory(const Gpu& gpu, uint64_t slot_bytes, Reserve& host, Reserve* device)
    : RelayMemory(gpu, slot_bytes, device == nullptr ? Slots::OnHost : Slots::OnDevice, host.take(kWordBytes),
                  (device == nullptr ? host : *device).take(link::kPushSlots * slot_bytes)) {}

RelayMemory::RelayMemory(const Gpu& gpu, uint64_t slot_bytes, Slots slots, std::shared_ptr<unsigned char> words,
                         std::shared_ptr<unsigned char> in_slots)
    : gpu_(gpu), slot_bytes_(slot_bytes), where_(slots), words_(std::move(words)), slots_(std::move(in_slots)) {
  std::memset(words_.get(), 0, kWordBytes);  // it may have served another link
  const bool on_host = slots == Slots::OnHost;
  device_ = {gpu.device_address(words_.get()), on_host ? gpu.device_address(slots_.get()) : slots_.get()};
}

void RelayMemory::register_with(transports::Transport& engine, transports::MemoryUse use) {
  gpu_.use([&] { registration_ = engine.register_memory(slots_.get(), link::kPushSlots * slot_bytes_, use); });
}

uint64_t RelayMemory::slot_at(const unsigned char* data) const {
  const uint64_t offset = reinterpret_cast<uintptr_t>(data) - reinterpret_cast<uintptr_t>(slots_.get());
  return offset % slot_bytes_ == 0 ? std::min<uint64_t>(offset / slot_bytes_, link::kPushSlots) : link::kPushSlots;
}

void RelayMemory::order_writes() const {
  if (where_ == Slots::OnDevice && gpu_.rdma() != Rdma::Ordered) gpu_.flush_rdma();
}

RelayMemory::View RelayMemory::view(bool of_device) const {
  return of_device ? device_ : View{words_.get(), slots_.get()};
}

link::OutLink RelayMemory::writer(Rank peer, bool of_device) const {
  const View at = view(of_device);
  return {.ring = at.words,
          .consumed = reinterpret_cast<const uint64_t*>(at.words + kRingBytes),
          .arena = at.slots,
          .push_bytes = slot_bytes_,
          .peer = peer};
}

/// The device's payloads are at addresses, in a slot or in a copy.
link::InLink RelayMemory::reader(Rank peer, bool of_device) const {
  const View at = view(of_device);
  return {.ring = at.words,
          .consumed = reinterpret_cast<uint64_t*>(at.words + kRingBytes),
          .arena = of_device ? nullptr : at.slots,
          .arena_bytes = of_device ? 0 : link::kPushSlots * slot_bytes_,
          .peer = peer,
          .addresses = of_device};
}

OutRelay::OutRelay(std::unique_ptr<RelayMemory> memory, const link::OutLink& network)
    : memory_(std::move(memory)), device_(memory_->reader(network.peer, false)), network_(network) {
  if (network_.arena != nullptr) throw_error(Code::InternalError, "the network's link is not an engine link");
}

bool OutRelay::progress() {
  bool moved = false;
  link::Header header{};
  link::Arrival arrival;
  while (Wire::can_publish(network_) && Wire::poll(device_, header, arrival) == link::Poll::Ready) {
    if (arrival.where == link::Where::Inline) {
      Wire::publish_inline(network_, header.tag, arrival.data, header.length);
    } else {
      Wire::publish_staged(network_, header.tag, arrival.data, header.length);
    }
    ++device_.next;
    moved = true;
  }
  Wire::refresh(network_);
  if (network_.acked == device_.published) return moved;
  device_.published = network_.acked;
  link::HostMemory::store_release(device_.consumed, device_.published);
  return true;
}

bool OutRelay::empty() const {
  link::Header header{};
  link::Arrival arrival;
  return Wire::poll(device_, header, arrival) == link::Poll::Empty;
}

InRelay::InRelay(std::unique_ptr<RelayMemory> memory, const link::InLink& network, std::unique_ptr<RelayMemory> copies)
    : memory_(std::move(memory)),
      network_(network),
      device_(memory_->writer(network.peer, false)),
      copies_(std::move(copies)) {
  device_.arena = nullptr;  // payloads are published by address
  if (!network.keeps_posted && memory_->where() == RelayMemory::Slots::OnDevice) {
    throw_error(Code::InternalError, "nothing can be copied to slots on the GPU");
  }
  if (network.keeps_posted != (copies_ != nullptr)) {
    throw_error(Code::InternalError, "copies are made where slots stay posted, and only there");
  }
}

bool InRelay::progress() {
  bool moved = false;
  link::Header header{};
  link::Arrival arrival;
  Wire::refresh(device_);
  while (network_.next < device_.acked && Wire::poll(network_, header, arrival) == link::Poll::Ready) {
    Wire::consume(network_, arrival);
    moved = true;
  }
  while (Wire::can_publish(device_) &&
         Wire::poll(network_, header, arrival, device_.next - network_.next) == link::Poll::Ready) {
    if (!pass_on(header, arrival)) break;
    moved = true;
  }
  if (network_.posted != nullptr) post_slots();
  return moved;
}

/// False: there is no room for a copy yet.
bool InRelay::pass_on(const link::Header& header, const link::Arrival& arrival) {
  const uint64_t index = arrival.where == link::Where::Inline ? link::kPushSlots : memory_->slot_at(arrival.data);
  // What was posted for this message alone is not posted any more.
  if (!network_.keeps_posted) slots_[device_.next % link::kPushSlots].posted = false;
  if (arrival.where == link::Where::Inline) {
    Wire::publish_inline(device_, header.tag, arrival.data, header.length);
    return true;
  }
  if (index == link::kPushSlots) return copy(header, arrival.data);
  slots_[index].posted = false;
  memory_->order_writes();
  publish(header, memory_->for_device(arrival.data), slots_[index].held);
  return true;
}

/// Copies into this message's slot, or, where that stays posted, into memory beside it. A message that is too long is
/// not copied: the kernel compares the length first, and reports it.
bool InRelay::copy(const link::Header& header, const unsigned char* from) {
  const uint64_t index = device_.next % link::kPushSlots;
  const RelayMemory& to = copies_ != nullptr ? *copies_ : *memory_;
  uint64_t& held = copies_ != nullptr ? copies_held_[index] : slots_[index].held;
  if (device_.acked < held) return false;
  if (header.length <= to.slot_bytes()) std::memcpy(to.slot(index), from, header.length);
  publish(header, to.for_device(to.slot(index)), held);
  return true;
}

void InRelay::publish(const link::Header& header, const unsigned char* device_address, uint64_t& held) {
  Wire::publish_staged(device_, header.tag, device_address, header.length);
  held = device_.next;
}

/// Posts the slots of the next messages as they become free; where slots stay posted, every free slot.
void InRelay::post_slots() {
  const auto post = [this](uint64_t index) {
    slots_[index].posted = true;
    Wire::post(network_, posted_++, link::kAnyTag, memory_->slot_bytes(), memory_->slot(index));
  };
  if (network_.keeps_posted) {
    for (uint64_t index = 0; index < link::kPushSlots; ++index) {
      if (is_free(slots_[index])) post(index);
    }
    return;
  }
  posted_ = std::max(posted_, device_.next);
  while (posted_ < device_.next + link::kPushSlots && is_free(slots_[posted_ % link::kPushSlots])) {
    post(posted_ % link::kPushSlots);
  }
}

}  // namespace tutti::exec::gpu
