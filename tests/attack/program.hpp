// Random programs with one fault each. A program is a function of its seed, so a process needs only the seed to
// generate it again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::attack {

enum class Call : uint8_t {
  AllReduce,
  ReduceScatter,
  AllGather,
  AllToAll,
  Broadcast,
  Reduce,
  Gather,
  Scatter,
  Barrier,
  AllGatherV,
  ReduceScatterV,
  AllToAllV,
  Exchange,  ///< a group of a send to the next rank and a receive from the one before
  Split,     ///< a communicator of the same ranks, destroyed again at once
};
inline constexpr int kCalls = 14;

/// A rank's deviation from the program, or an event of its process.
enum class Fault : uint8_t {
  None,
  Delay,     ///< it is late; no rank may report an error
  Skip,      ///< it skips a call
  Extra,     ///< it makes an additional call
  Count,     ///< another count,
  Type,      ///< element type,
  Operator,  ///< operator,
  Root,      ///< root,
  Other,     ///< collective
  Swap,      ///< two calls in the wrong order
  Destroy,   ///< it destroys the communicator before its last calls
  Abort,     ///< it aborts the communicator
  Exit,      ///< its process ends
  Kill,      ///< its process is killed in the middle of a call
  Stop,      ///< its process is stopped, and continued when the others have ended
};
inline constexpr int kFaults = 15;
const char* name_of(Fault fault);
/// Throws std::invalid_argument for an unknown word.
Fault fault_named(const std::string& name);

struct Line {
  Call call = Call::Barrier;
  int slot = 0;  ///< 0: the communicator of all ranks; s: the parts of split s
  size_t count = 0;
  tuttiDataType_t type = tuttiFloat32;
  tuttiRedOp_t op = tuttiSum;
  int root = 0;
  bool mapped = false;    ///< buffers from tuttiMemAlloc
  bool in_place = false;  ///< if the call allows it
  size_t number = 0;      ///< the line's index in the program: inputs depend on it
  enum class Act : uint8_t { Make, Destroy, Abort, Exit, Kill, Stop, Delay } act = Act::Make;
};

/// Restrictions of a run.
struct Choice {
  std::string transport;  ///< local, shm, tcp or mixed; empty: any
  std::string fault;      ///< the name of one; empty: any
  int max_ranks = 6;
};

struct Program {
  uint64_t seed = 0;
  std::string transport;
  int ranks = 2;
  std::vector<int> process_of;              ///< by rank; processes hold consecutive ranks
  std::vector<std::string> environment;     ///< NAME=value, of all processes
  std::vector<std::vector<int>> colours{};  ///< by slot − 1 and rank: how communicators are split; −1: not in it
  std::vector<Line> lines;
  Fault fault = Fault::None;
  int culprit = 0;
  size_t at = 0;  ///< the faulty line

  int processes() const { return process_of.back() + 1; }
};

Program make_program(uint64_t seed, const Choice& choice);

/// The ranks that share the communicator of `rank` in that slot, in order; empty if it has none.
std::vector<int> members(const Program& program, int slot, int rank);

/// The rank's lines: the program's, with the fault if the rank is the culprit.
std::vector<Line> lines_of(const Program& program, int rank);

/// "all_reduce(count=8, f32, sum)": a call as Tutti's errors describe it.
std::string describe(const Line& line);
/// The whole program, for debugging.
std::string describe(const Program& program);

}  // namespace tutti::attack
