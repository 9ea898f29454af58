#include "comm/rank_status.hpp"

#include <algorithm>
#include <utility>

#include "base/hash.hpp"
#include "control/status/status.hpp"
#include "control/wait_table.hpp"

namespace tutti::comm {
namespace {

control::RankStatus status_of(const control::Endpoint& endpoint, const std::string& title, const CallBoard& board) {
  control::RankStatus status{.communicator = endpoint.name(),
                             .title = title.substr(0, control::kMaxName),
                             .rank = endpoint.rank(),
                             .ranks = endpoint.ranks(),
                             .call = {},
                             .awaited = {},
                             .failure = {}};
  status.left = board.finished();  // before those entered, which are then no fewer
  status.entered = board.begun();
  status.transfers = board.transfers();
  if (const auto last = board.last()) {
    status.call = describe(*last).substr(0, control::kMaxName);
    status.is_transfer = last->collective == Collective::SendRecv ? 1 : 0;
  }
  if (const auto failure = endpoint.failure()) status.failure = failure->second.substr(0, control::kMaxSmall);
  const auto wait = control::WaitTable::of_this_process().wait_of(hash64(endpoint.name()), endpoint.rank());
  if (!wait) return status;
  status.stuck_ms = static_cast<uint32_t>(std::min<uint64_t>(uint64_t{wait->stuck_ms} + wait->age_ms, 4'000'000'000));
  for (const control::Awaited& awaited : wait->on) {
    if (status.awaited.size() < control::RankStatus::kMaxAwaited) status.awaited.push_back(awaited.rank);
  }
  return status;
}

}  // namespace

ShownRank::ShownRank(const control::Endpoint& endpoint, std::string title, std::shared_ptr<const CallBoard> board) {
  control::StatusBook::of_this_process().add(this, [&endpoint, title = std::move(title), board = std::move(board)] {
    return status_of(endpoint, title, *board);
  });
}

ShownRank::~ShownRank() { control::StatusBook::of_this_process().remove(this); }

}  // namespace tutti::comm
