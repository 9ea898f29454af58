// A job in the terms of NCCL's RAS (reliability, availability, serviceability): what its report is made of.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "control/status/job_status.hpp"

namespace tutti::control::ras {

/// The collectives whose calls the report counts, in its order.
inline constexpr std::array<const char*, 5> kCounted = {"Broadcast", "Reduce", "AllGather", "ReduceScatter",
                                                        "AllReduce"};

/// In the order of their weight: a communicator has the highest one of its ranks.
enum class State : uint8_t { NoComm, Init, Running, Finalize, Abort };
const char* name_of(State state);

/// Where a rank is.
struct Place {
  std::string node;  ///< a numeric address
  uint32_t process = 0;
  int device = -1;  ///< −1: it has none
};

struct Rank {
  int32_t rank = 0;
  Place place;
  State state = State::Running;
  int error = 0;  ///< ncclResult_t of its communicator's failure; 0: it has not failed
  std::array<uint64_t, kCounted.size()> counts{};
};

/// A rank whose process has not answered, or does not know the communicator.
struct Missing {
  int32_t rank = 0;
  Place place;
  bool unresponsive = false, dead = false;
};

struct Communicator {
  uint64_t hash = 0;
  int32_t size = 0;
  std::vector<Rank> ranks;       ///< by number
  std::vector<Missing> missing;  ///< likewise
};

struct Process {
  Place place;               ///< its first rank's
  std::vector<int> devices;  ///< of its ranks; without devices, −1 for each
  bool answers = true, dead = false;
};

struct Job {
  std::string version;                      ///< of the library
  std::vector<Communicator> communicators;  ///< by hash
  std::vector<Process> processes;           ///< by address and number
  double seconds = 0;                       ///< that collecting took
};

Job job_of(const JobStatus& status);

}  // namespace tutti::control::ras
