// What `tutti tune` measures: cells, and the file in which they are kept until all are done.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "select/profile.hpp"
#include "select/select.hpp"

namespace tutti::tools {

/// One algorithm at one size, by one method.
struct Cell {
  Collective collective = Collective::AllReduce;
  std::string algorithm;
  uint64_t bytes = 0;  ///< of a block
  std::string method;  ///< for memory of GPUs; "": threads run it, in host memory

  auto operator<=>(const Cell&) const = default;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Cell, collective, algorithm, bytes, method)

/// As a profile calls its algorithm and method.
std::string name_of(const Cell& cell);
/// Seconds that measuring takes, roughly.
double effort_of(const Cell& cell);

/// Sizes of the whole buffer from 8 B on.
struct Sizes {
  uint64_t largest = 256ULL << 20;
  uint64_t factor = 4;  ///< from one to the next
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Sizes, largest, factor)

/// At each size, the algorithms that are predicted within `within` times the best there or at a neighbouring size.
std::vector<Cell> cells_of(const select::CostInputs& inputs, const Sizes& sizes, double within);

/// Cells that one job can measure: of each collective, those of one algorithm and method, which it forces.
std::vector<std::vector<Cell>> jobs_of(const std::vector<Cell>& cells);
/// Bytes of each of the two buffers that a rank needs for them.
uint64_t buffer_bytes(const std::vector<Cell>& cells, Rank ranks);
/// TUTTI_ALGO of such a job (`what`: &Cell::algorithm), or its TUTTI_METHOD (&Cell::method).
std::string forced_by(const std::vector<Cell>& job, std::string Cell::*what);

/// One line of the file of partial results, whose first line names what they are of; read_partial() knows all kinds.
inline std::string line_of(const nlohmann::json& page) { return page.dump() + "\n"; }
std::string line_of(const Cell& cell, double seconds);
std::string line_of(const select::CostInputs& inputs);
/// The GPUs of all ranks, and their situation.
std::string line_of(const select::MeasuredGpus& gpus, const std::string& situation);
/// `what`: "link", or "gpu_link".
std::string line_of(const char* what, const std::string& kind, const select::MeasuredLink& link);
/// Of a link whose figures cannot be right, and are not written, or are those of a busy machine: why.
std::string line_of_doubt(const std::string& kind, const std::string& why);

/// What an earlier run that was interrupted has measured.
struct Partial {
  std::optional<select::CostInputs> inputs;  ///< the machine, as the communicator of the ranks sees it
  std::string situation;                     ///< of its calls; "": unknown
  std::vector<Cell> cells;                   ///< on GPUs: those to measure
  select::Profile profile;                   ///< machines, links and γ, and times in the setting's situation
  std::string graph;                         ///< the job's, as rank 0 has dumped it; "": of one host
  std::set<Cell> done;
  std::map<std::string, std::string> doubts;  ///< by kind of link: what of its figures is not right, or disturbed
};
/// Lines of another heading, and lines that cannot be read, count as none.
Partial read_partial(const std::string& text, const std::string& heading);

/// Of several hosts, whose graph is known: the network between them, and the order of ranks on it, as communicators
/// will see them with the profile.
select::CostInputs inputs_on_network(const Partial& known);
/// That network.
topo::Graph graph_on_network(const Partial& known);
/// As TUTTI_ORDER says it.
std::string order_text(const plan::RankOrder& order);

}  // namespace tutti::tools
