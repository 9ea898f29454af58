// The faults to inject into the links of a rank.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "base/rank.hpp"

namespace tutti::transports {

/// Messages are counted on each link, from 0. All random numbers follow from the seed and the link, so that a run can
/// be repeated.
struct FaultPlan {
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
  enum class Corrupt : uint8_t {
    Payload,  ///< one bit of the payload is flipped
    Tag,      ///< one bit of the fingerprint is flipped
    Length,   ///< the payload is cut to half; an empty message gets a byte
    Header    ///< the descriptor becomes invalid; for links through memory
  };

  double delay = 0;         ///< seconds that a message occupies its link, during which no other passes
  double rate = 0;          ///< bytes a second of each link: further seconds by a message's length. 0: no limit
  double latency = 0;       ///< further seconds until it arrives, during which others may follow
  double jitter = 0;        ///< at most so many further seconds, at random: reorders messages of different links
  uint64_t stall = kNever;  ///< this message and all after it never arrive
  uint64_t kill = kNever;   ///< the process dies (SIGKILL) instead of sending this message
  uint64_t corrupt = kNever;
  Corrupt what = Corrupt::Payload;
  Rank rank = kNoRank;  ///< only this rank's links are faulty; kNoRank: every rank's
  Rank peer = kNoRank;  ///< only links to this rank are faulty; kNoRank: to all
  uint64_t seed = 1;
};

/// Reads "delay=1ms,rate=2GB/s,latency=50us,jitter=2ms,stall=5,kill=7,corrupt=payload@3,rank=1,peer=0,seed=4": any of
/// these, in any order; times in s, ms or us; rates in GB/s, MB/s or kB/s; corrupt is payload, tag, length or header.
/// Throws Error(InvalidArgument) that names the part that cannot be used.
FaultPlan parse_fault_plan(std::string_view text);

}  // namespace tutti::transports
