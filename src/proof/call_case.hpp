// A kind of call, for which a method is proven; and the job that the method makes of it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "exec/compile/lower.hpp"
#include "exec/method.hpp"
#include "proof/job.hpp"

namespace tutti::proof {

/// Where peers may copy, or store folds, for each other: nowhere, for every message, or for every other message.
enum class Help : uint8_t { None, All, Some };

struct CallCase {
  std::string name;         ///< "staged", "zero-copy, in place"
  exec::Geometry geometry;  ///< with the method
  link::Access access;      ///< of links between ranks 2i and 2i + 1, …
  link::Access far;         ///< … and of all others
  Help help = Help::None;
  uint32_t versions = 4;    ///< of scratch
  uint32_t calls = 2;       ///< one after the other, of the same kind
  uint64_t slot_bytes = 0;  ///< copy engines: of a slot of staging memory; NVLS: of a slot
};

/// What every rank runs, by the communicator's ranks. `plans`: by the plans' ranks. Throws what lower() throws.
std::vector<exec::Program> lower_all(std::span<const plan::RankPlan> plans, const CallCase& how);

/// Shape, buffers with their memories, and no threads yet.
Job empty_job(std::span<const plan::RankPlan> plans, const CallCase& how);

/// The job of a method. Throws Error(Unsupported) where the method cannot run the programs.
using MakeJob = Job(std::span<const plan::RankPlan> plans, const CallCase& how, std::vector<exec::Program> programs);
MakeJob lanes_job, copy_engine_job, nvls_job;

/// That of the case's method.
MakeJob job_of;
inline Job job_of(std::span<const plan::RankPlan> plans, const CallCase& how) {
  return job_of(plans, how, lower_all(plans, how));
}

}  // namespace tutti::proof
