// What `tutti sim` simulates: a call, its candidates, and the machine.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "select/explain.hpp"
#include "select/machine.hpp"
#include "select/select.hpp"
#include "sim/simulate.hpp"
#include "topo/graph.hpp"

namespace tutti::tools {

struct SceneOptions {
  std::string topology;  ///< a file; "": this machine
  Rank ranks = 0, hosts = 1;
  Rank root = 0;                       ///< of the collectives that have one
  double nvlink = 0;                   ///< GB/s between GPUs of the file that has none; 0: as the file says
  uint32_t width = 16;                 ///< of a GPU's programs, as far as the call is long enough
  std::vector<std::string> without;    ///< parts that the machine does without
  const topo::Graph* graph = nullptr;  ///< not null: the machine, in place of the file's, whose name it has
};

/// --engine, and how much is replayed with it.
void add_engine(CLI::App& command, std::string& engine);
sim::SimulateOptions effort_of(const std::string& engine);

/// In us, for tables.
std::string time_text(double seconds);

class Scene {
 public:
  Scene(Collective collective, uint64_t bytes, const SceneOptions& options);

  Collective collective() const { return collective_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t block() const { return block_; }  ///< bytes
  Rank ranks() const { return inputs_.inputs.ranks; }
  /// What was assumed of the machine.
  const std::vector<std::string>& notes() const { return inputs_.notes.unknown; }
  /// On which the catalogue's plans are drawn.
  const plan::RankOrder& order() const { return inputs_.inputs.order_of(collective_); }
  Rank hosts() const { return inputs_.notes.hosts; }
  /// "32 ranks of 4 hosts, on the GPUs of hgx.xml".
  std::string words() const;
  /// What the call takes at least; none: unknown.
  std::optional<select::LeastTime> least() const { return select::least_time(collective_, block_, inputs_.inputs); }
  /// As the selector orders them.
  std::vector<select::Candidate> candidates() const;
  /// What links alone take of a call by this candidate, by the selector's formulas; nothing where cores copy.
  std::optional<double> links_alone(const select::Candidate& candidate) const;
  /// Plans that were made for these ranks, with what they cost in the communicator's order.
  select::Candidate made(const plan::Algorithm& algorithm) const;
  sim::Call call_of(const select::Candidate& candidate) const { return call_of(candidate, order()); }
  /// On this order of ranks. That of made() is the communicator's.
  sim::Call call_of(const select::Candidate& candidate, const plan::RankOrder& order) const;
  sim::Machine& machine() const { return *machine_; }

 private:
  void take_topology();
  void take_this_machine();

  Collective collective_;
  uint64_t bytes_, block_;
  SceneOptions options_;
  select::MachineInputs inputs_;
  std::vector<uint32_t> hosts_;  // by rank
  std::unique_ptr<sim::Machine> machine_;
};

}  // namespace tutti::tools
