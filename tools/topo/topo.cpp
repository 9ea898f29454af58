// tutti topo: this machine's topology, or a file's.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/format.hpp"
#include "base/spelling.hpp"
#include "tools/commands.hpp"
#include "tools/machine_options.hpp"
#include "tools/output_file.hpp"
#include "tools/output_option.hpp"
#include "tools/topo/job.hpp"
#include "tools/topo/view.hpp"
#include "tools/topo/weakest.hpp"
#include "topo/graph_json.hpp"
#include "topo/link_figures.hpp"

namespace tutti::tools {
namespace {

using nlohmann::ordered_json;
using topo::Graph;

struct TopoOptions {
  std::string import, svg, json;
  double nvlink = 0;  // GB/s
  uint32_t hosts = 1;
  int ranks = 0;  // 0: as the topology has it
  bool figures = false, weakest = false;
  std::string collective = "all_gather";  // of `weakest`
  std::vector<std::string> without;
};

/// Ranks on each host, each on an equal share of its cores, as `tutti run` binds them.
void place_ranks(Graph& graph, int ranks) {
  graph.ranks.clear();
  for (const topo::NodeId host : graph.all(topo::NodeKind::Host)) {
    const topo::Node& node = graph.nodes[host];
    const Cores& cores = node.usable.empty() ? node.processors : node.usable;
    if (cores.empty()) {
      throw_error(Code::InvalidArgument, "-n {}: the processors of {} are not known", ranks, label(graph, host));
    }
    const size_t all = cores.size(), wanted = static_cast<size_t>(ranks);
    for (size_t rank = 0; rank < wanted; ++rank) {
      const size_t first = rank * all / wanted;
      const size_t last = std::max(first + 1, (rank + 1) * all / wanted);
      graph.ranks.push_back(graph.place(
          host, Cores(cores.begin() + static_cast<ptrdiff_t>(first), cores.begin() + static_cast<ptrdiff_t>(last))));
    }
  }
}

/// The topology, and beside it, which an import ignores, the paths of the matrix.
std::string json_text(const Graph& graph, const Matrix& matrix) {
  ordered_json kinds = ordered_json::array(), gbps = ordered_json::array(), us = ordered_json::array();
  for (const auto& row : matrix.paths) {
    ordered_json row_kinds = ordered_json::array(), row_gbps = ordered_json::array(), row_us = ordered_json::array();
    for (const topo::Path& path : row) {
      row_kinds.push_back(name_of(path.kind));
      row_gbps.push_back(path.gbps);
      row_us.push_back(path.us);
    }
    kinds.push_back(std::move(row_kinds));
    gbps.push_back(std::move(row_gbps));
    us.push_back(std::move(row_us));
  }
  const ordered_json paths{{"ends", matrix.ends.names}, {"kind", kinds}, {"gbps", gbps}, {"us", us}};
  std::string text = to_json(graph);
  text.erase(text.rfind("\n}"));
  return text + ",\n\"paths\": " + paths.dump() + "\n}\n";
}

void print_figures() {
  fmt::print("{:<31}{:>9} {:>7}  {}\n", "published figure", "GB/s", "us", "of what");
  for (const topo::LinkFigureInfo& row : topo::link_figure_table()) {
    const auto told = [](double value) { return value > 0 ? fmt::format("{:.4g}", value) : std::string("-"); };
    fmt::print("{:<31}{:>9} {:>7}  {}\n    {}\n    source: {}\n", row.name, told(row.figure.gbps), told(row.figure.us),
               row.of, row.meaning, row.source);
  }
}

Graph topology_of(const TopoOptions& options) {
  Graph graph = topology_from(options.import, options.nvlink, options.hosts, options.without);
  if (options.ranks > 0) place_ranks(graph, options.ranks);
  return graph;
}

/// A list of figures or of losses is text alone.
void refuse_files(const TopoOptions& options) {
  if (!options.figures && !options.weakest) return;
  if (options.svg.empty() && options.json.empty()) return;
  throw_error(Code::InvalidArgument, "{} prints a table and writes no file: leave out -o, --svg and --json",
              options.figures ? "--figures" : "--weakest");
}

void show(const TopoOptions& options) {
  refuse_files(options);
  if (options.figures) {
    print_figures();
    return;
  }
  if (options.weakest) {
    fmt::print("{}", weakest_text(topology_of(options), read_collective(options.collective, "--collective")));
    return;
  }
  const bool of_job = options.import.empty() && options.ranks == 0 && options.hosts == 1 && is_in_job();
  JobTopology job;
  if (of_job) job = topology_of_job();
  if (job.rank != 0) return;  // all have the same
  check_output("--json", options.json, {options.import});
  check_output("--svg", options.svg, {options.import});
  const Graph graph = of_job ? std::move(job.graph) : topology_of(options);
  const Matrix matrix = matrix_of(graph);
  if (options.json != "-" && options.svg != "-") {
    const std::string paths = matrix_text(graph, matrix);
    fmt::print("{}{}{}", tree_text(graph), paths.empty() ? "" : "\n", paths);
  }
  if (!options.json.empty()) write_file("--json", options.json, json_text(graph, matrix));
  if (options.svg.empty()) return;
  const std::string source = options.import.substr(options.import.find_last_of('/') + 1);
  write_file("--svg", options.svg, draw_topology(graph, options.import.empty() ? label(graph, 0) : source));
}

}  // namespace

void add_topo(CLI::App& app) {
  CLI::App* command = app.add_subcommand("topo", "the machine's topology: a tree, and the paths between GPUs or cores");
  const auto options = std::make_shared<TopoOptions>();
  command
      ->add_option("--import", options->import,
                   "shows a file's topology: NCCL's XML (NCCL_TOPO_DUMP_FILE), hwloc's XML, or Tutti's JSON")
      ->type_name("FILE");
  command->add_option("--hosts", options->hosts, "this many such hosts, joined by a network")
      ->check(CLI::Range(uint32_t{1}, uint32_t{kMaxModelled}));
  command->add_option("-n,--np", options->ranks, "paths between N ranks of each host, each on its share of the cores")
      ->check(CLI::Range(1, kMaxModelled));
  add_nvlink(*command, options->nvlink);
  add_output(*command, {{".svg", "a drawing", &options->svg}, {".json", "the topology and its paths", &options->json}});
  command->add_option("--svg", options->svg, "draws it; - is the standard output")->type_name("FILE");
  command->add_option("--json", options->json, "writes it, and the paths, as JSON")->type_name("FILE");
  command->add_flag("--figures", options->figures, "lists the published figures of links, with their sources");
  CLI::Option* const weakest =
      command->add_flag("--weakest", options->weakest, "what the loss of each link costs a collective at best");
  command->add_option("--collective", options->collective, "the collective of --weakest")
      ->capture_default_str()
      ->needs(weakest);
  add_without(*command, options->without);
  command->footer(
      "\"?\" marks a figure that is assumed, because it is unknown. docs/topology.md explains the output.\n"
      "Examples:\n  tutti topo\n  tutti run -n 4 -- tutti topo\n  tutti topo --import hgx.xml --hosts 4 -o "
      "cluster.svg\n  tutti topo --import hgx.xml --hosts 2 --weakest --collective all_reduce\n");
  command->callback([options] { show(*options); });
}

}  // namespace tutti::tools
