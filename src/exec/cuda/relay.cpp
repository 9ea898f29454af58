#include "exec/cuda/relay.hpp"

#include <cstring>
#include <utility>

#include "base/format.hpp"

namespace tutti::exec::cuda {
namespace {

using Wire = link::HostWire;

constexpr uint64_t kRingBytes = link::kCapacity * link::kLine;
constexpr uint64_t kWordBytes = kRingBytes + link::kStride;

unsigned char* as_device_sees(const std::shared_ptr<unsigned char>& memory) {
  CUdeviceptr there = 0;
  tutti::cuda::check(tutti::cuda::driver().cuMemHostGetDevicePointer(&there, memory.get(), 0),
                     "pinned memory of the host");
  return reinterpret_cast<unsigned char*>(there);
}

}  // namespace

RelayMemory::RelayMemory(const tutti::cuda::Device& device, uint64_t slot_bytes)
    : slot_bytes_(slot_bytes),
      words_(pinned(device, kWordBytes)),
      slots_(pinned(device, link::kPushSlots * slot_bytes)) {
  std::memset(words_.get(), 0, kWordBytes);  // it may have served another link
  const tutti::cuda::WithContext with(device.context());
  device_ = {as_device_sees(words_), as_device_sees(slots_)};
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

link::InLink RelayMemory::reader(Rank peer, bool of_device) const {
  const View at = view(of_device);
  return {.ring = at.words,
          .consumed = reinterpret_cast<uint64_t*>(at.words + kRingBytes),
          .arena = at.slots,
          .arena_bytes = link::kPushSlots * slot_bytes_,
          .peer = peer};
}

OutRelay::OutRelay(std::unique_ptr<RelayMemory> memory, const link::OutLink& network)
    : memory_(std::move(memory)), device_(memory_->reader(network.peer, false)), network_(network) {
  if (network_.arena != nullptr) throw_error(Code::InternalError, "the network's link is none of an engine");
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

InRelay::InRelay(std::unique_ptr<RelayMemory> memory, const link::InLink& network)
    : memory_(std::move(memory)), network_(network), device_(memory_->writer(network.peer, false)) {}

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
  if (network_.posted == nullptr) return moved;
  // A slot's earlier messages have been passed on, so it is known whether they hold it.
  for (; posted_ < device_.next + link::kPushSlots && has_slot(posted_); ++posted_) {
    Wire::post(network_, posted_, link::kAnyTag, memory_->slot_bytes(), memory_->slot(posted_ % link::kPushSlots));
  }
  return moved;
}

/// False: its slot is in use.
bool InRelay::pass_on(const link::Header& header, const link::Arrival& arrival) {
  if (arrival.where == link::Where::Inline) {
    Wire::publish_inline(device_, header.tag, arrival.data, header.length);
    return true;
  }
  const uint64_t message = device_.next;
  if (!has_slot(message)) return false;
  unsigned char* const slot = memory_->slot(message % link::kPushSlots);
  // One that is too long is none that this rank waits for: the kernel reports it by its length, and reads nothing.
  if (arrival.data != slot && header.length <= memory_->slot_bytes()) std::memcpy(slot, arrival.data, header.length);
  Wire::publish_staged(device_, header.tag, slot, header.length);
  held_[message % link::kPushSlots] = device_.next;
  return true;
}

}  // namespace tutti::exec::cuda
