// Ranks that are started again when they have failed, and jobs that go on without some (tutti run --restarts,
// --min-ranks). The ranks ask this process's job server (control/elastic/job_server.hpp) who they are.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/deadline.hpp"
#include "base/fd.hpp"
#include "control/elastic/job_server.hpp"

namespace tutti::tools {

struct Job;

class Restarts {
 public:
  /// Opens the job server. `most`: starts after the first ones; `min_ranks` 0: the job does not go on without a rank.
  /// Throws Error(SystemError).
  Restarts(const Job& job, int most, int min_ranks);

  /// The value of TUTTI_JOB_SERVER.
  std::string address() const { return server_->address(); }
  /// How often the rank's process has been replaced: the value of TUTTI_RESTART.
  uint32_t incarnation(int rank) const { return ranks_[static_cast<size_t>(rank)].incarnation; }

  enum class Then { End, Again, Without };
  /// A rank has failed, and `others` run or will: decides what to do, and tells the server. `refused`: it refused its
  /// arguments, as it would again.
  Then after_failure(int rank, int others, bool refused = false);
  /// What after_failure() has decided, for messages.
  std::string words(Then then, bool refused) const;
  /// A process of the rank has been started.
  void has_started(int rank) { ranks_[static_cast<size_t>(rank)].started = Deadline::Clock::now(); }
  /// A rank has ended, and none takes its place.
  void has_ended(int rank) { server_->drop(rank); }
  void announce_end(double seconds) { server_->announce_end(seconds); }

  /// A rank that is to be started again now; the seconds until the next one is.
  std::optional<int> take_due();
  std::optional<double> next_due() const;
  /// Ranks that will be started again.
  int due() const { return static_cast<int>(due_.size()); }

  /// Readable when a rank does not answer.
  int fd() const { return wake_.get(); }
  std::vector<int> take_lost();

 private:
  struct Rank {
    uint32_t incarnation = 0;
    Deadline::Clock::time_point started{};
    double pause = 0;  // seconds before it is started again: longer each time, where it fails at once
  };
  struct Lost {
    std::mutex mutex;
    std::vector<std::pair<int, uint32_t>> processes;  // ranks and incarnations
  };
  const int most_, min_ranks_;
  int used_ = 0;
  std::vector<Rank> ranks_;
  std::vector<std::pair<Deadline, int>> due_;
  Fd wake_;
  std::shared_ptr<Lost> lost_ = std::make_shared<Lost>();
  std::shared_ptr<control::JobServer> server_;
};

}  // namespace tutti::tools
