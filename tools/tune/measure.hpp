// What the ranks of `tutti tune` do.
#pragma once

#include <string>
#include <vector>

#include "tools/tune/cells.hpp"
#include "tutti/tutti.hpp"

namespace tutti::tools {

/// A job's part of the whole, for its ranks.
struct Task {
  std::string links;  ///< "processes", "threads": measures links only, by this name; "": cells
  std::vector<Cell> cells;
  std::string results;       ///< the file to append lines to
  double done = 0, all = 1;  ///< effort, of all jobs
  double began = 0;          ///< seconds on the system's clock
};

std::string to_text(const Task& task);
Task parse_task(const std::string& text);

/// All ranks call it with the same task.
void work_on(Communicator& comm, const Task& task);

}  // namespace tutti::tools
