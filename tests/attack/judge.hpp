// Compares the ranks' results with what a program's fault must lead to.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "attack/program.hpp"

namespace tutti::attack {

struct LineResult {
  int index = 0;
  int code = 0;
  double seconds = 0;
  std::string text;
};

struct Outcome {
  std::vector<std::vector<LineResult>> results;  ///< by rank
  std::vector<int> exits;                        ///< by process: its exit status, or −(signal)
  bool hung = false;                             ///< it was killed after too long
};

/// The kinds of findings. `inexact` violates no promise: it counts errors that do not name exactly the first calls that
/// differ.
struct Finding {
  std::string kind;  ///< hang, crash, data, alarm, silent, code, unnamed, slow, inexact
  std::string text;
};

std::vector<Finding> judge(const Program& program, const Outcome& outcome);

}  // namespace tutti::attack
