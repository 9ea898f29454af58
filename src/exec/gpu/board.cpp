#include "exec/gpu/board.hpp"

#include <algorithm>
#include <atomic>

#include "base/format.hpp"

namespace tutti::exec::gpu {
namespace {

constexpr uint32_t kBlocksTold = 8;  // of a call; the others mostly wait for the same

uint64_t load(const uint64_t& word) {
  return std::atomic_ref<uint64_t>(const_cast<uint64_t&>(word)).load(std::memory_order_acquire);
}

const char* name_of(Await await) {
  constexpr const char* kNames[] = {"nothing", "message",  "credit", "staging",   "lane",
                                    "round",   "exchange", "signal", "far signal"};
  const auto number = static_cast<size_t>(await);
  return number < std::size(kNames) ? kNames[number] : "unknown";
}

}  // namespace

bool read_wait(const BlockWait& wait, uint64_t call, Stall& stall) {
  if (load(wait.turn) == 0 || load(wait.call) != call) return false;
  const uint64_t await_peer = load(wait.await_peer), replica_lane = load(wait.replica_lane);
  const auto peer = static_cast<Rank>(static_cast<uint32_t>(await_peer));
  if (peer == kNoRank) return false;
  stall.await = static_cast<Await>(await_peer >> 32);
  stall.peer = peer;
  stall.step = static_cast<uint32_t>(load(wait.link_lane_step));
  stall.replica = static_cast<uint32_t>(replica_lane >> 32);
  stall.lane = static_cast<uint32_t>(replica_lane);
  stall.round = load(wait.round);
  stall.rounds = load(wait.rounds);
  return true;
}

std::string wait_text(const Stall& stall) {
  if (stall.what != nullptr) return fmt::format("rank {} ({})", stall.peer, stall.what);
  if (stall.await == Await::Signal || stall.await == Await::FarSignal)
    return fmt::format("rank {} (signal of a window)", stall.peer);
  return fmt::format("rank {} ({}) at replica {}, lane {}, step {}, round {} of {}", stall.peer, name_of(stall.await),
                     stall.replica, stall.lane, stall.step, stall.round, stall.rounds);
}

std::string board_text(const HostRecord& record, uint64_t enqueued) {
  const uint64_t started = load(record.started), ended = load(record.ended);
  std::string text =
      fmt::format("{} calls enqueued, {} begun, {} ended", std::max({enqueued, started, ended}), started, ended);
  if (started <= ended) return text + "; no kernel of a call runs";
  uint32_t waiting = 0;
  for (uint32_t block = 0; block < kMaxBlocks; ++block) {
    Stall stall;
    if (!read_wait(record.waits[block], ended + 1, stall) || ++waiting > kBlocksTold) continue;
    text += fmt::format("; block {} waits in call {} for {}", block, ended + 1, wait_text(stall));
  }
  if (waiting == 0) return text + fmt::format("; no block has told that it waits in call {}", ended + 1);
  return waiting <= kBlocksTold ? text : text + fmt::format("; and {} more blocks", waiting - kBlocksTold);
}

}  // namespace tutti::exec::gpu
