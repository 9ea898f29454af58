// The processes of a job, as one of them knows them: what each says of itself, and what follows from all of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/status/status.hpp"

namespace tutti::control {

inline constexpr int kStatusFormat = 1;  ///< of to_json(); docs/watching.md has the schema

/// A rank, as others know it.
struct KnownRank {
  std::string communicator, title;
  Rank rank = 0;
};

struct JobProcess {
  enum class State : uint8_t { Answers, Silent, Stopped, Gone };
  std::string host;     ///< its name
  std::string address;  ///< "10.0.0.7"
  uint32_t process = 0;
  State state = State::Silent;
  std::optional<uint32_t> heard_ms;  ///< how long ago a process that answers heard of it
  std::vector<KnownRank> known;      ///< its ranks in communicators that the asked process is in
  ProcessStatus status;              ///< if it answers
};

struct JobStatus {
  std::string host;  ///< of the process that was asked
  uint32_t process = 0;
  std::vector<JobProcess> processes;  ///< the asked one first
};

/// Sets heard_ms of all processes, by what those that answer tell.
void note_heard(JobStatus& job);

/// Why ranks wait, a sentence for each cause: "world: ranks 0, 1, 3 wait, directly or not, for rank 2 (process 4711 on
/// b), which has not entered barrier(), call 41: …"; and which ranks and links are slow. Empty if none has waited for
/// longer than a moment, and none is slow.
std::vector<std::string> verdicts(const JobStatus& job);

std::string to_json(const JobStatus& job);

}  // namespace tutti::control
