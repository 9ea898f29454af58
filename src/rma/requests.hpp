// A peer's part as it is used by requests to the peer's agent, over the stream that all windows share.
#pragma once

#include "base/rank.hpp"
#include "rma/connections.hpp"
#include "rma/part.hpp"
#include "rma/remote_part.hpp"

namespace tutti::rma {

class Requests final : public RemotePart {
 public:
  Requests(Connections& connections, Rank peer, uint64_t window)
      : connections_(connections), peer_(peer), window_(window) {}

  void put(std::span<const std::byte> source, uint64_t offset, double limit) override;
  void get(std::span<std::byte> into, uint64_t offset, double limit) override;
  void signal(uint32_t signal, double limit) override;
  uint64_t add(uint64_t operand, uint64_t offset, double limit) override;
  uint64_t compare_swap(uint64_t expected, uint64_t desired, uint64_t offset, double limit) override;
  const char* name() const override { return "requests"; }
  const Connection* connection() const override { return connections_.open_channel(peer_); }

 private:
  /// A request without an answer.
  void tell(const Request& request, std::span<const std::byte> bytes, double limit);
  /// The answer's value.
  uint64_t ask(const Request& request, std::span<std::byte> into, double limit);

  Connections& connections_;
  const Rank peer_;
  const uint64_t window_;
};

}  // namespace tutti::rma
