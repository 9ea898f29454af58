// Parts of ranks of other hosts, written and read by a device without their processors (RDMA).
//
// Puts, gets and signals to a peer take one queue pair. A signal is an atomic addition to the peer's line of signals:
// by the rules of RDMA, a processor that sees it sees the writes before it. Atomic steps take the device only where
// they are atomic with those of processors; else requests, after a flush of the queue pair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/rank.hpp"
#include "rma/connections.hpp"
#include "rma/part.hpp"
#include "rma/rdma_connection.hpp"
#include "rma/remote_part.hpp"
#include "rma/requests.hpp"
#include "rma/target.hpp"
#include "transports/remote_memory.hpp"

namespace tutti::rma {

/// Exposes this rank's part to the device: `part` gets the keys, and `exposed` what holds them. Throws Error if the
/// device cannot reach the memory; then both are as they were.
void expose_to(transports::RemoteMemory& device, Part& part, Target::Exposed& exposed);

class RdmaPart final : public RemotePart {
 public:
  /// Throws Error(ProtocolError) if the peer's keys are not those of its part. `me`: this rank.
  RdmaPart(Connections& connections, RdmaConnection& connection, Rank me, Rank peer, uint64_t window, const Part& part);

  /// Has the peer exposed its part?
  static bool can_reach(const Part& part) { return part.signal_key.bytes > 0; }

  void put(std::span<const std::byte> source, uint64_t offset, double limit) override;
  void get(std::span<std::byte> into, uint64_t offset, double limit) override;
  void signal(uint32_t signal, double limit) override;
  uint64_t add(uint64_t operand, uint64_t offset, double limit) override;
  uint64_t compare_swap(uint64_t expected, uint64_t desired, uint64_t offset, double limit) override;
  const char* name() const override { return name_.c_str(); }
  const Connection* connection() const override;

 private:
  bool device_steps(double limit);

  RdmaConnection& connection_;
  Requests requests_;  // what the device does not do
  const std::string name_;
  const uint64_t window_;
  const uint64_t line_;  // this rank's, in the peer's lines of signals: bytes
  const transports::RemoteKey memory_, signals_;
};

}  // namespace tutti::rma
