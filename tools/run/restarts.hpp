// Ranks that are started again when they have failed, and jobs that go on without some (tutti run --restarts,
// --min-ranks). The ranks ask this process's job server (control/elastic/job_server.hpp) who they are.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

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

  enum class Then { End, Again, Without };
  /// A rank has failed, and `running` others run: decides what to do, and tells the server.
  Then after_failure(int rank, int running);
  /// What after_failure() has decided, for messages.
  std::string words(Then then) const;
  /// A rank has ended by itself.
  void has_ended(int rank) { server_->drop(rank); }
  void announce_end(double seconds) { server_->announce_end(seconds); }

  /// Readable when a rank does not answer.
  int fd() const { return wake_.get(); }
  std::vector<int> take_lost();

 private:
  struct Lost {
    std::mutex mutex;
    std::vector<int> ranks;
  };
  const int most_, min_ranks_;
  int used_ = 0, without_ = 0;
  const int ranks_;
  Fd wake_;
  std::shared_ptr<Lost> lost_ = std::make_shared<Lost>();
  std::shared_ptr<control::JobServer> server_;
};

}  // namespace tutti::tools
