// One faulty link: holds the messages of an executor until they are due, spoils those that shall be spoilt, and lets
// them through.
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

  /// What the executor writes to.
  /// Its payloads lie where the inner link's do; lent memory, which the gate could not spoil, only in one process.
  link::OutLink link() const {
    return {.memory = ring_.get(),
            .peer = inner_.peer,
            .zcopy_threshold = inner_.arena == nullptr ? inner_.zcopy_threshold : link::kNever};
  }

  /// Lets through what is due and has room. True when anything moved.
  bool progress(Clock::time_point now);
  /// Is there any message that has not gone through?
  bool waiting() const;
  /// When the next message that is known is due.
  std::optional<Clock::time_point> due() const;
  void stop();

 private:
  bool schedule(Clock::time_point now);
  bool give_back();
  void send_spoilt(link::Header header, const link::Arrival& arrival);
  unsigned char* spoil(const link::Header& header, const link::Arrival& arrival);
  void send(const link::Header& header, const unsigned char* data);

  const FaultPlan plan_;
  std::unique_ptr<link::LinkMemory> ring_ = std::make_unique<link::LinkMemory>();
  link::InLink in_;
  link::OutLink inner_;                                 // its `next` says how many messages have gone through
  uint64_t scheduled_ = 0;                              // messages whose time is known
  std::array<Clock::time_point, link::kCapacity> due_;  // of the message in each slot
  Clock::time_point free_{};                            // when the link has no message in it any more
  std::mt19937_64 times_, spoils_;                      // two, since what is drawn first depends on the time
  std::vector<unsigned char> forged_;                   // a spoilt payload
  bool stopped_ = false;
};

}  // namespace tutti::transports
