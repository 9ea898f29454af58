// What a rank notes of its calls on one communicator: for peers that ask why it does not answer, and for people who
// watch.
#pragma once

#include <atomic>
#include <cstdint>

#include "comm/call_board.hpp"
#include "comm/call_totals.hpp"
#include "comm/call_trace.hpp"

namespace tutti::comm {

struct CallLog {
  explicit CallLog(Rank ranks) : board(ranks) {}

  CallBoard board;
  CallTotals totals;
  CallTrace trace{totals};
  std::atomic<uint64_t> registered{0};  ///< bytes of registered buffers
};

}  // namespace tutti::comm
