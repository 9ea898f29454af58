// One faulty link: holds the executor's messages until they are due, corrupts those that the plan names, and forwards
// them.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "link/host_memory.hpp"
#include "transports/fault/plan.hpp"

namespace tutti::transports {

class Gate {
 public:
  using Clock = std::chrono::steady_clock;

  Gate(const link::OutLink& inner, const FaultPlan& plan, uint64_t link_seed);

  /// The link that the executor writes to. Its payloads lie where the inner link's do.
  link::OutLink link() const { return {.ring = ring_->ring, .consumed = &ring_->consumed, .peer = inner_.peer}; }

  /// Forwards the messages that are due and have room. True when anything moved.
  bool progress(Clock::time_point now);
  /// Is there a message that has not been forwarded?
  bool waiting() const;
  /// When the next scheduled message is due.
  std::optional<Clock::time_point> due() const;
  void stop();

 private:
  bool schedule(Clock::time_point now);
  bool release_consumed();
  void send_corrupted(link::Header header, const link::Arrival& arrival);
  unsigned char* corrupt_payload(const link::Header& header, const link::Arrival& arrival);
  void send(const link::Header& header, const unsigned char* data);

  const FaultPlan plan_;
  std::unique_ptr<link::LinkMemory> ring_ = std::make_unique<link::LinkMemory>();
  link::InLink in_;
  link::OutLink inner_;                                 // `next`: messages forwarded so far
  uint64_t scheduled_ = 0;                              // messages that have a due time
  std::array<Clock::time_point, link::kCapacity> due_;  // of the message in each slot
  Clock::time_point free_{};                            // when the link is empty
  std::mt19937_64 times_, corruptions_;                 // two, because the order of draws depends on time
  std::vector<unsigned char> corrupted_;                // a corrupted payload
  bool stopped_ = false;
};

}  // namespace tutti::transports
