// What the ranks of `tutti tune` do.
#pragma once

#include <string>
#include <vector>

#include "tools/tune/cells.hpp"
#include "tutti/tutti.hpp"

namespace tutti::tools {

/// A job's part of the whole, for its ranks.
struct Task {
  /// "processes", "threads", "hosts", "GPUs": measures these links only; "candidates": lists the cells of GPUs; "":
  /// measures cells.
  std::string links;
  std::vector<Cell> cells;
  std::string profile;       ///< if not "": the profile, for other hosts to keep …
  std::string place;         ///< … there, as TUTTI_PROFILE would say
  std::string results;       ///< the file to append lines to
  double done = 0, all = 1;  ///< effort, of all jobs
  double began = 0;          ///< seconds on the system's clock
  bool on_gpus = false;      ///< the cells are of calls on memory of GPUs
  Sizes sizes;               ///< of candidates, as cells_of() takes them
  double within = 1;
  bool doubtful = false;  ///< figures of hosts that are in doubt are kept all the same
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Task, links, cells, profile, place, results, done, all, began, on_gpus, sizes,
                                   within, doubtful)

/// The task in a file of rank 0, as JSON, for all ranks. Throws Error(InvalidArgument) where rank 0 does not find it.
Task shared_task(Communicator& comm, const std::string& path);
/// All ranks call it with the same task.
void work_on(Communicator& comm, const Task& task);

}  // namespace tutti::tools
