#include "attack/program.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <random>
#include <stdexcept>

#include "tutti/types.hpp"

namespace tutti::attack {
namespace {

constexpr const char* kFaultNames[kFaults] = {"none",  "delay", "skip",    "extra", "count", "type", "operator", "root",
                                              "other", "swap",  "destroy", "abort", "exit",  "kill", "stop"};
constexpr tuttiDataType_t kTypes[] = {tuttiFloat32, tuttiFloat64, tuttiInt32, tuttiInt64, tuttiUint8};
constexpr tuttiRedOp_t kOperators[] = {tuttiSum, tuttiMax, tuttiMin, tuttiProd};
constexpr size_t kCounts[] = {0, 1, 3, 17, 40, 500, 1024, 5000, 20000, 70001, 300000};
constexpr size_t kLongCount = 2000000;  // long enough to be killed in the middle

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<uint64_t>(n)); }
  bool one_in(int n) { return below(n) == 0; }
  template <class T, size_t n>
  T of(const T (&all)[n]) {
    return all[below(static_cast<int>(n))];
  }

 private:
  std::mt19937_64 engine_;
};

bool folds(Call call) {
  return call == Call::AllReduce || call == Call::ReduceScatter || call == Call::Reduce || call == Call::ReduceScatterV;
}
bool rooted(Call call) {
  return call == Call::Broadcast || call == Call::Reduce || call == Call::Gather || call == Call::Scatter;
}
bool moves_data(Call call) { return call != Call::Barrier && call != Call::Split; }

Line random_line(Dice& dice, int slots) {
  Line line;
  line.call = static_cast<Call>(dice.one_in(12) ? dice.below(kCalls) : dice.below(kCalls - 1));
  line.slot = dice.one_in(2) ? 0 : dice.below(slots + 1);
  line.count = dice.of(kCounts);
  line.type = dice.of(kTypes);
  line.op = dice.of(kOperators);
  line.root = dice.below(64);  // modulo the communicator's number of ranks
  line.mapped = dice.one_in(4);
  line.in_place = dice.one_in(3);
  return line;
}

void choose_processes(Program& program, Dice& dice) {
  int process = 0;
  for (int rank = 0; rank < program.ranks; ++rank) {
    const bool alone = program.transport == "shm" || program.transport == "tcp";
    if (rank > 0 && (alone || (program.transport == "mixed" && dice.one_in(2)))) ++process;
    program.process_of.push_back(process);
  }
}

void choose_environment(Program& program, Dice& dice) {
  program.environment = {"TUTTI_TIMEOUT=15", "TUTTI_INIT_TIMEOUT=30"};
  if (program.transport == "tcp") program.environment.emplace_back("TUTTI_TRANSPORT=tcp");
  if (program.fault == Fault::Stop) program.environment.emplace_back("TUTTI_HEARTBEAT_TIMEOUT=2");
  if (dice.one_in(4)) program.environment.emplace_back("TUTTI_GROUPS=2");
  if (dice.one_in(6)) program.environment.emplace_back("TUTTI_CMA=off");
  if (dice.one_in(6)) program.environment.emplace_back("TUTTI_CMA=always");
  if (dice.one_in(6)) program.environment.emplace_back("TUTTI_MESSAGE=4096");
  if (dice.one_in(8)) program.environment.emplace_back("TUTTI_REPRODUCIBLE=1");
}

/// Changes the faulty line so that the fault makes a difference.
void prepare(Program& program, Dice& dice) {
  Line& line = program.lines[program.at];
  if (program.fault == Fault::Count || program.fault == Fault::Type) {
    while (!moves_data(line.call)) line.call = static_cast<Call>(dice.below(kCalls));
  } else if (program.fault == Fault::Operator) {
    while (!folds(line.call)) line.call = static_cast<Call>(dice.below(kCalls));
  } else if (program.fault == Fault::Root) {
    while (!rooted(line.call)) line.call = static_cast<Call>(dice.below(kCalls));
  } else if (program.fault == Fault::Kill || program.fault == Fault::Stop) {
    while (!moves_data(line.call)) line.call = static_cast<Call>(dice.below(kCalls));
    line.count = kLongCount / static_cast<size_t>(program.ranks);
  }
}

Line wrong(const Program& program, const Line& right) {
  Line line = right;
  const int ranks = static_cast<int>(members(program, right.slot, program.culprit).size());
  switch (program.fault) {
    case Fault::Count:
      line.count += 1;
      break;
    case Fault::Type:
      line.type = right.type == tuttiFloat32 ? tuttiInt32 : tuttiFloat32;
      break;
    case Fault::Operator:
      line.op = right.op == tuttiSum ? tuttiMax : tuttiSum;
      break;
    case Fault::Root:
      line.root = (right.root + 1) % ranks;
      break;
    default:
      line.call = right.call == Call::AllReduce ? Call::AllToAll : Call::AllReduce;
      break;
  }
  return line;
}

Line act(const Line& near, Line::Act what) {
  Line line = near;
  line.act = what;
  return line;
}

}  // namespace

const char* name_of(Fault fault) { return kFaultNames[static_cast<int>(fault)]; }

Fault fault_named(const std::string& name) {
  for (int i = 0; i < kFaults; ++i) {
    if (name == kFaultNames[i]) return static_cast<Fault>(i);
  }
  throw std::invalid_argument(fmt::format("there is no fault {}; there are {}", name, fmt::join(kFaultNames, ", ")));
}

Program make_program(uint64_t seed, const Choice& choice) {
  constexpr const char* kTransports[] = {"local", "shm", "shm", "tcp", "mixed"};
  Dice dice(seed);
  Program program;
  program.seed = seed;
  const char* any = dice.of(kTransports);
  program.transport = choice.transport.empty() ? any : choice.transport;
  program.ranks = 2 + dice.below(choice.max_ranks - 1);
  const auto drawn = static_cast<Fault>(dice.below(kFaults));
  program.fault = choice.fault.empty() ? drawn : fault_named(choice.fault);
  program.culprit = dice.below(program.ranks);
  choose_processes(program, dice);
  if (program.fault >= Fault::Exit && program.processes() == 1) program.fault = Fault::Abort;  // no rank would be left
  choose_environment(program, dice);
  const int slots = dice.below(3);
  for (int slot = 0; slot < slots; ++slot) {
    std::vector<int>& colours = program.colours.emplace_back();
    for (int rank = 0; rank < program.ranks; ++rank) colours.push_back(dice.below(5) - 1 > 1 ? 1 : dice.below(3) - 1);
  }
  const int lines = 4 + dice.below(9);
  for (int i = 0; i < lines; ++i) {
    program.lines.push_back(random_line(dice, slots));
    program.lines.back().number = static_cast<size_t>(i);
  }
  program.at = static_cast<size_t>(dice.below(lines));
  prepare(program, dice);
  if (members(program, program.lines[program.at].slot, program.culprit).size() < 2) program.lines[program.at].slot = 0;
  for (Line& line : program.lines) {
    if (line.call == Call::Exchange) line.mapped = false;
  }
  return program;
}

std::vector<int> members(const Program& program, int slot, int rank) {
  std::vector<int> all;
  for (int other = 0; other < program.ranks; ++other) {
    const auto colour = [&](int r) {
      return slot == 0 ? 0 : program.colours[static_cast<size_t>(slot - 1)][static_cast<size_t>(r)];
    };
    if (colour(rank) >= 0 && colour(other) == colour(rank)) all.push_back(other);
  }
  return all;
}

std::vector<Line> lines_of(const Program& program, int rank) {
  std::vector<Line> lines = program.lines;
  if (rank != program.culprit) return lines;
  const auto here = lines.begin() + static_cast<std::ptrdiff_t>(program.at);
  const auto before = [&](Line::Act what) { lines.insert(here, act(*here, what)); };
  switch (program.fault) {
    case Fault::None:
      break;
    case Fault::Delay:
      before(Line::Act::Delay);
      break;
    case Fault::Skip:
      lines.erase(here);
      break;
    case Fault::Extra:
      lines.insert(here, *here);
      break;
    case Fault::Swap: {
      auto next = here + 1;
      while (next != lines.end() && next->slot != here->slot) ++next;
      if (next != lines.end()) std::iter_swap(here, next);
      break;
    }
    case Fault::Destroy:
      before(Line::Act::Destroy);
      break;
    case Fault::Abort:
      before(Line::Act::Abort);
      break;
    case Fault::Exit:
      before(Line::Act::Exit);
      break;
    case Fault::Kill:
      before(Line::Act::Kill);
      break;
    case Fault::Stop:
      before(Line::Act::Stop);
      break;
    default:
      *here = wrong(program, *here);
  }
  return lines;
}

std::string describe(const Line& line) {
  constexpr const char* kNames[kCalls] = {
      "all_reduce", "reduce_scatter", "all_gather",   "all_to_all",       "broadcast",    "reduce", "gather",
      "scatter",    "barrier",        "all_gather_v", "reduce_scatter_v", "all_to_all_v", "send",   "split"};
  const char* name = kNames[static_cast<int>(line.call)];
  if (line.call == Call::Barrier) return "barrier()";
  if (line.call == Call::Split) return "split(";
  const auto type_name = [&] {
    switch (line.type) {
      case tuttiFloat32:
        return "f32";
      case tuttiFloat64:
        return "f64";
      case tuttiInt32:
        return "i32";
      case tuttiInt64:
        return "i64";
      default:
        return "u8";
    }
  };
  if (line.call == Call::Exchange) return fmt::format("(count={}, {}, ", line.count, type_name());
  const bool varies = line.call >= Call::AllGatherV && line.call <= Call::AllToAllV;
  return fmt::format("{}({}{}{}{}", name, varies ? "" : fmt::format("count={}, ", line.count), type_name(),
                     folds(line.call) ? fmt::format(", {}", name_of(static_cast<Op>(line.op))) : "",
                     varies              ? ""
                     : rooted(line.call) ? ", root="
                                         : ")");
}

std::string describe(const Program& program) {
  std::string text =
      fmt::format("seed {}: {} ranks over {} in {} processes ({}), fault {} of rank {} at line {}\n", program.seed,
                  program.ranks, program.transport, program.processes(), fmt::join(program.environment, " "),
                  name_of(program.fault), program.culprit, program.at);
  for (size_t s = 0; s < program.colours.size(); ++s) {
    text += fmt::format("  split {}: colours {}\n", s + 1, fmt::join(program.colours[s], " "));
  }
  for (const Line& line : program.lines) {
    text += fmt::format("  {:2} on {}: {} root {}{}{}\n", line.number, line.slot, describe(line), line.root,
                        line.mapped ? " mapped" : "", line.in_place ? " in place" : "");
  }
  return text;
}

}  // namespace tutti::attack
