// A peer's part in ordinary memory of another process of this host: its bytes are written and read by cross-memory
// attach (link/cma.hpp), without the peer's agent; signals are stored in lines that this process has mapped. Atomic
// steps are requests to the agent.
//
// The kernel knows the peer's process by a number, which may be given to another process when that one has ended. A
// random word tells whether the number is right when the window is made. Later the end of a process fails the
// communicator within a second. A process that took over its number before that would have to have a writable page
// where the gate was, to be written to. (To read the word in each get as well takes 0.2 us, a third of a short one.)
#pragma once

#include <array>
#include <memory>

#include "link/peer_regions.hpp"
#include "rma/part.hpp"
#include "rma/remote_part.hpp"
#include "rma/requests.hpp"

namespace tutti::rma {

class CmaPart final : public RemotePart {
 public:
  /// Throws Error(Unsupported) if the kernel does not permit it: it tries. The peer's process has been confirmed.
  /// `signals`: those of the peer's part, mapped.
  CmaPart(Connections& connections, Rank peer, uint64_t window, const Part& part, link::PeerRegions::Mapped signals);

  void put(std::span<const std::byte> source, uint64_t offset, double limit) override;
  void get(std::span<std::byte> into, uint64_t offset, double limit) override;
  void signal(uint32_t signal, double limit) override;
  uint64_t add(uint64_t operand, uint64_t offset, double limit) override {
    return requests_.add(operand, offset, limit);
  }
  uint64_t compare_swap(uint64_t expected, uint64_t desired, uint64_t offset, double limit) override {
    return requests_.compare_swap(expected, desired, offset, limit);
  }
  const char* name() const override { return "CMA"; }
  const Connection* connection() const override { return nullptr; }

 private:
  void probe() const;
  template <class Copy, class CheckHere>
  bool copy(Copy&& copy, CheckHere&& check_here);
  void check_open() const;
  [[noreturn]] void throw_failed(int error) const;

  Connections& connections_;
  const Rank peer_;
  const uint64_t window_;
  const Part part_;
  const int process_;
  const link::PeerRegions::Mapped signals_;
  SignalLine& line_;  // this rank's, of the peer's
  Requests requests_;
  bool is_permitted_ = true;  // the kernel has refused nothing
  std::array<uint64_t, kSignals> sent_{};
};

}  // namespace tutti::rma
