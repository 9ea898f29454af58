#include "tools/run/restarts.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/format.hpp"
#include "tools/run/job.hpp"
#include "tutti/error.hpp"

namespace tutti::tools {

Restarts::Restarts(const Job& job, int most, int min_ranks)
    : most_(most),
      min_ranks_(min_ranks),
      ranks_(static_cast<int>(job.ranks.size())),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_) throw_error(Code::SystemError, "eventfd: {}", std::strerror(errno));
  const auto report = [lost = lost_, fd = wake_.get()](int rank) {
    const std::lock_guard lock(lost->mutex);
    lost->ranks.push_back(rank);
    eventfd_write(fd, 1);
  };
  server_ = control::JobServer::open(job.name, job.secret, ranks_, report);
}

Restarts::Then Restarts::after_failure(int rank, int running) {
  if (used_ < most_) {
    ++used_;
    server_->restart(rank);
    return Then::Again;
  }
  if (min_ranks_ == 0 || running < min_ranks_) {
    server_->close(fmt::format(
        "rank {} has failed, and {}", rank,
        min_ranks_ == 0 ? "no restart is left" : fmt::format("fewer ranks than {} remain (--min-ranks)", min_ranks_)));
    return Then::End;
  }
  ++without_;
  server_->drop(rank);
  return Then::Without;
}

std::string Restarts::words(Then then) const {
  if (then == Then::Again) return fmt::format("it is started again ({} of {} restarts)", used_, most_);
  return fmt::format("the job goes on without it{}", most_ > 0 ? ", since no restart is left" : "");
}

std::vector<int> Restarts::take_lost() {
  eventfd_t ignored = 0;
  eventfd_read(wake_.get(), &ignored);
  const std::lock_guard lock(lost_->mutex);
  return std::exchange(lost_->ranks, {});
}

}  // namespace tutti::tools
