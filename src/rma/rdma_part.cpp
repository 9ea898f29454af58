#include "rma/rdma_part.hpp"

#include <array>
#include <utility>

#include "base/format.hpp"
#include "tutti/error.hpp"

namespace tutti::rma {

using transports::RemoteAtomics;
using transports::RemoteKey;
using transports::RemoteQueue;
using transports::RemoteWait;

void expose_to(transports::RemoteMemory& device, Part& part, Target::Exposed& exposed) {
  using Handle = std::shared_ptr<const void>;
  RemoteKey memory, signals;
  auto both = std::make_shared<std::array<Handle, 2>>();
  if (exposed.bytes > 0) (*both)[0] = device.expose(exposed.memory, exposed.bytes, memory);
  (*both)[1] = device.expose(exposed.signals, exposed.signal_bytes, signals);
  part.memory_key = memory;
  part.signal_key = signals;
  exposed.to_device = std::move(both);
}

RdmaPart::RdmaPart(Connections& connections, RdmaConnection& connection, Rank me, Rank peer, uint64_t window,
                   const Part& part)
    : connection_(connection),
      requests_(connections, peer, window),
      name_(fmt::format("RDMA ({})", connection.device().name())),
      window_(window),
      line_(static_cast<uint64_t>(me) * sizeof(SignalLine)),
      memory_(part.memory_key),
      signals_(part.signal_key) {
  const uint64_t lines = static_cast<uint64_t>(connections.wireup().ranks()) * sizeof(SignalLine);
  if (memory_.bytes != part.bytes || (part.bytes > 0 && memory_.address != part.memory) || signals_.bytes != lines) {
    throw_error(Code::ProtocolError, "rank {}'s keys are not those of its part of the window", peer);
  }
}

const Connection* RdmaPart::connection() const {
  return connection_.is_refused() ? requests_.connection() : &connection_;
}

void RdmaPart::put(std::span<const std::byte> source, uint64_t offset, double limit) {
  if (!connection_.is_usable(signals_, limit)) return requests_.put(source, offset, limit);
  connection_.is_dirty = true;
  connection_.use(window_, signals_, limit,
                  [&](RemoteQueue& queue, RemoteWait& wait) { queue.write(source, memory_, offset, wait); });
}

void RdmaPart::get(std::span<std::byte> into, uint64_t offset, double limit) {
  if (!connection_.is_usable(signals_, limit)) return requests_.get(into, offset, limit);
  connection_.use(window_, signals_, limit,
                  [&](RemoteQueue& queue, RemoteWait& wait) { queue.read(into, memory_, offset, wait); });
}

/// Its signals of a number are counted by this rank's device alone, or, if it cannot, by the peer's agent alone.
void RdmaPart::signal(uint32_t signal, double limit) {
  if (!connection_.is_usable(signals_, limit)) return requests_.signal(signal, limit);
  if (connection_.atomics() == RemoteAtomics::None) {
    connection_.flush_if_dirty(limit);
    return requests_.signal(signal, limit);
  }
  const uint64_t at = line_ + offsetof(SignalLine, arrived) + signal * sizeof(uint64_t);
  connection_.is_dirty = true;
  connection_.use(window_, signals_, limit,
                  [&](RemoteQueue& queue, RemoteWait& wait) { queue.count(signals_, at, wait); });
}

/// Does the device do atomic steps? If not, the puts before them are in place now.
bool RdmaPart::device_steps(double limit) {
  if (!connection_.is_usable(signals_, limit)) return false;
  if (connection_.atomics() == RemoteAtomics::Global) return true;
  connection_.flush_if_dirty(limit);
  return false;
}

uint64_t RdmaPart::add(uint64_t operand, uint64_t offset, double limit) {
  if (!device_steps(limit)) return requests_.add(operand, offset, limit);
  uint64_t before = 0;
  connection_.use(window_, signals_, limit,
                  [&](RemoteQueue& queue, RemoteWait& wait) { before = queue.add(operand, memory_, offset, wait); });
  return before;
}

uint64_t RdmaPart::compare_swap(uint64_t expected, uint64_t desired, uint64_t offset, double limit) {
  if (!device_steps(limit)) return requests_.compare_swap(expected, desired, offset, limit);
  uint64_t before = 0;
  connection_.use(window_, signals_, limit, [&](RemoteQueue& queue, RemoteWait& wait) {
    before = queue.compare_swap(expected, desired, memory_, offset, wait);
  });
  return before;
}

}  // namespace tutti::rma
