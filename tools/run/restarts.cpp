#include "tools/run/restarts.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/format.hpp"
#include "tools/run/job.hpp"
#include "tutti/error.hpp"

namespace tutti::tools {
namespace {

constexpr double kFailsAtOnce = 2;  // seconds
constexpr double kFirstPause = 0.5, kLongestPause = 30;

}  // namespace

Restarts::Restarts(const Job& job, int most, int min_ranks)
    : most_(most), min_ranks_(min_ranks), ranks_(job.ranks.size()), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_) throw_error(Code::SystemError, "eventfd: {}", std::strerror(errno));
  const auto report = [lost = lost_, fd = wake_.get()](int rank, uint32_t incarnation) {
    const std::lock_guard lock(lost->mutex);
    lost->processes.emplace_back(rank, incarnation);
    eventfd_write(fd, 1);
  };
  server_ = control::JobServer::open(job.name, job.secret, static_cast<int>(job.ranks.size()), report);
}

Restarts::Then Restarts::after_failure(int rank, int others, bool refused) {
  if (used_ < most_ && !refused) {
    ++used_;
    Rank& of = ranks_[static_cast<size_t>(rank)];
    const std::chrono::duration<double> lived = Deadline::Clock::now() - of.started;
    of.pause = lived.count() > kFailsAtOnce ? 0 : std::min(kLongestPause, of.pause == 0 ? kFirstPause : 2 * of.pause);
    due_.emplace_back(Deadline::in(of.incarnation == 0 ? 0 : of.pause), rank);
    server_->restart(rank, ++of.incarnation);
    return Then::Again;
  }
  if (min_ranks_ == 0 || others < min_ranks_) {
    server_->close(fmt::format("rank {} has failed, and {}", rank,
                               refused ? "it refuses its arguments"
                               : min_ranks_ == 0
                                   ? "no restart is left"
                                   : fmt::format("fewer ranks than {} remain (--min-ranks)", min_ranks_)));
    return Then::End;
  }
  server_->drop(rank);
  return Then::Without;
}

std::string Restarts::words(Then then, bool refused) const {
  if (then == Then::Again) return fmt::format("it is started again ({} of {} restarts)", used_, most_);
  return fmt::format("the job goes on without it{}", refused     ? ", since it would refuse its arguments again"
                                                     : most_ > 0 ? ", since no restart is left"
                                                                 : "");
}

std::optional<int> Restarts::take_due() {
  const auto due = std::find_if(due_.begin(), due_.end(), [](const auto& entry) { return entry.first.passed(); });
  if (due == due_.end()) return std::nullopt;
  const int rank = due->second;
  due_.erase(due);
  return rank;
}

std::optional<double> Restarts::next_due() const {
  std::optional<double> least;
  for (const auto& [deadline, rank] : due_)
    least = std::min(least.value_or(kLongestPause), std::max(0.0, deadline.left()));
  return least;
}

std::vector<int> Restarts::take_lost() {
  eventfd_t ignored = 0;
  eventfd_read(wake_.get(), &ignored);
  std::vector<int> ranks;
  const std::lock_guard lock(lost_->mutex);
  for (const auto& [rank, of] : lost_->processes) {
    if (of == incarnation(rank)) ranks.push_back(rank);
  }
  lost_->processes.clear();
  return ranks;
}

}  // namespace tutti::tools
