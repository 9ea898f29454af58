// A process of a job whose ranks change while it runs (elastic/job_server.hpp).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/deadline.hpp"
#include "base/rank.hpp"
#include "control/bootstrap/launch.hpp"
#include "control/bootstrap/unique_id.hpp"
#include "control/channel.hpp"
#include "control/elastic/messages.hpp"
#include "tutti/error.hpp"

namespace tutti::control {

class ControlThread;

/// This process's place among the processes that make a communicator together.
struct Place {
  uint32_t generation = 0;  ///< from 1
  Rank rank = 0, ranks = 0;
  UniqueId id;
};

struct JobState {
  uint32_t generation = 0;        ///< that this process is in; 0: none
  bool newcomer = false;          ///< the job had begun when this process came
  uint32_t waiting = 0;           ///< processes that wait for the next generation
  std::optional<double> ends_in;  ///< seconds after which the job is to end
};

class JobMember {
 public:
  /// Of this process; null if its launcher has no job server. Waits, until the deadline, where the host has no interface
  /// that is up. Throws Error(InvalidArgument) for an environment that makes no sense.
  static JobMember* of_this_process(Deadline deadline);
  /// The same, if of_this_process() has made it.
  static JobMember* existing();

  /// Waits until all processes of the job want the next generation. Throws Error(Timeout) naming those that do not,
  /// Aborted if the job ends or its launcher is gone, InvalidArgument if that does not know this process.
  Place next(Deadline deadline);
  JobState state() const;

 private:
  JobMember(Rank slot, std::string address, const Key& key);
  void connect(Deadline deadline);
  void on_frame(std::string_view body);
  void on_end(const std::string& why);
  void make_id(uint32_t generation);
  void beat();

  ControlThread& control_;
  const Rank slot_;
  const std::string address_;
  const Key key_;
  // control thread
  std::optional<UniqueId> made_;  // the last one
  uint32_t heartbeat_ms_ = 0;
  Deadline::Clock::time_point last_beat_{};

  std::mutex calls_mutex_;    // of next()
  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::shared_ptr<SocketChannel> channel_;
  std::optional<Place> place_;    // of the answer that next() waits for, …
  std::optional<Error> refusal_;  // … or why there is none
  uint32_t generation_ = 0, first_generation_ = 0, waiting_ = 0;
  std::optional<Deadline> ends_;
};

}  // namespace tutti::control
