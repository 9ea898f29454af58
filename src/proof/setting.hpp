// How calls are made of which jobs are proven.
#pragma once

#include <span>
#include <vector>

#include "exec/compile/lower.hpp"
#include "exec/method.hpp"
#include "proof/job.hpp"

namespace tutti::proof {

struct Setting {
  exec::Geometry geometry;  ///< with the method; sizes are in elements of `element_bytes`
  link::Access access;      ///< of all links
  uint32_t versions = 2;    ///< of scratch
  uint32_t calls = 2;       ///< one after the other, of the same kind
  bool helps = false;       ///< peers copy and store for each other wherever they may; else never
  uint64_t slot_bytes = 0;  ///< copy engines: of a slot of staging memory; switches: of a slot
};

/// What every rank runs, by the communicator's ranks. `plans`: by the plans' ranks. Throws what lower() throws.
std::vector<exec::Program> lower_all(std::span<const plan::RankPlan> plans, const Setting& setting);

/// Shape, buffers with their memories, and no threads yet.
Job empty_job(std::span<const plan::RankPlan> plans, const Setting& setting);

/// The job of a method. Throws Error(Unsupported) where the method cannot run the programs.
using MakeJob = Job(std::span<const plan::RankPlan> plans, const Setting& setting);
MakeJob lanes_job, copies_job, multimem_job;

/// That of the setting's method.
Job job_of(std::span<const plan::RankPlan> plans, const Setting& setting);

}  // namespace tutti::proof
