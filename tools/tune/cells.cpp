#include "tools/tune/cells.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <sstream>

#include "base/format.hpp"
#include "select/explain.hpp"
#include "select/machine.hpp"
#include "select/network.hpp"
#include "topo/graph_json.hpp"

namespace tutti::tools {
namespace {

using nlohmann::json;

constexpr uint64_t kSmallest = 8;

std::vector<uint64_t> list(const Sizes& sizes) {
  std::vector<uint64_t> all;
  for (uint64_t bytes = kSmallest; bytes < sizes.largest; bytes *= sizes.factor) all.push_back(bytes);
  all.push_back(sizes.largest);
  return all;
}

using Names = std::set<std::pair<std::string, std::string>>;  // algorithms and methods

/// Candidates that may be the best for blocks of this size: by a method that runs only where it is forced, too.
Names hopeful(Collective collective, uint64_t block, const select::CostInputs& inputs, double within) {
  Names names;
  const auto all = select::candidates(collective, block, inputs);
  const double best = all.empty() ? 0 : all.front().seconds;
  const auto add = [&](const select::Candidate& candidate) {
    if (!candidate.rejected.empty() || candidate.seconds > within * best) return;
    const exec::Method& method = *candidate.row.method;
    names.emplace(select::name_of_algorithm(candidate.row), method.is_on_host() ? "" : method.name);
  };
  for (const select::Candidate& candidate : all) add(candidate);
  for (const select::UsableMethod& usable : inputs.methods) {
    if (!usable.method->only_modelled || !usable.why_not.empty()) continue;
    select::CostInputs forced = inputs;
    forced.forced_methods = {{"", usable.method->name}};
    for (const select::Candidate& candidate : select::candidates(collective, block, forced)) {
      if (*candidate.row.method == *usable.method) add(candidate);
    }
  }
  return names;
}

json to_json(const select::LinkCost& link) { return {link.alpha, link.beta, link.message, link.in_place}; }

select::LinkCost link_from(const json& link) { return {link.at(0), link.at(1), link.at(2), link.at(3)}; }

select::CostInputs inputs_from(const json& line) {
  const auto labels = line.at("groups").get<std::vector<Rank>>();
  select::CostInputs inputs{.ranks = static_cast<Rank>(labels.size()),
                            .groups = std::make_shared<const plan::Grouping>(labels),
                            .inside = link_from(line.at("inside")),
                            .between = link_from(line.at("between")),
                            .gamma = line.at("gamma"),
                            .oversubscription = line.at("oversubscription"),
                            .staging = line.at("staging"),
                            .message = line.at("message")};
  inputs.situation = line.at("situation");
  return inputs;
}

void read_line(const std::string& text, Partial& partial) {
  const json line = json::parse(text);
  if (line.contains("situation")) partial.situation = line["situation"];
  if (line.contains("gpus")) {
    partial.profile.gpus = select::measured_gpus_from(line["gpus"]);
  } else if (line.contains("situation")) {
    partial.inputs = inputs_from(line);
  } else if (line.contains("gpu_link")) {
    partial.profile.gpu_links[line["gpu_link"]] = {line.at("alpha"), line.at("beta")};
  } else if (line.contains("cell")) {
    partial.cells.push_back(line["cell"].get<Cell>());
  } else if (line.contains("machine")) {
    const auto machine = select::measured_machine_from(line["machine"]);
    auto& known = partial.profile.machines;
    if (std::find(known.begin(), known.end(), machine) == known.end()) known.push_back(machine);
  } else if (line.contains("link")) {
    const std::string kind = line["link"];
    partial.profile.links[kind] = {line.at("alpha"), line.at("beta")};
    if (kind != "threads" && kind != "processes") partial.doubts.erase("hosts");  // of an earlier try
  } else if (line.contains("doubt")) {
    partial.doubts[line["doubt"]] = line.at("why");
  } else if (line.contains("graph")) {
    partial.graph = line["graph"];
  } else if (line.contains("hosts")) {
    partial.profile.hosts = select::measured_hosts_of(line["hosts"]);
  } else if (line.contains("gamma")) {
    partial.profile.gamma = line["gamma"].get<double>();
  } else if (const auto cell = line.get<Cell>(); !partial.situation.empty()) {
    partial.profile.measured[partial.situation][cell.collective][name_of(cell)][cell.bytes] = line.at("seconds");
    partial.done.insert(cell);
  }
}

}  // namespace

std::string name_of(const Cell& cell) {
  const exec::Method* const method = exec::find_method(cell.method.empty() ? "lanes" : cell.method);
  return method == nullptr ? cell.algorithm : select::candidate_name(cell.algorithm, *method);
}

uint64_t buffer_bytes(const std::vector<Cell>& cells, Rank ranks) {
  uint64_t most = sizeof(float);
  for (const Cell& cell : cells) {
    const auto n = static_cast<uint64_t>(ranks);
    const bool has_blocks = select::block_bytes(cell.collective, n, ranks) == 1;
    most = std::max(most, has_blocks ? cell.bytes * n : cell.bytes);
  }
  return most;
}

double effort_of(const Cell& cell) { return 0.02 + 2.5e-9 * static_cast<double>(cell.bytes); }

std::vector<Cell> cells_of(const select::CostInputs& inputs, const Sizes& sizes, double within) {
  std::vector<Cell> cells;
  const std::vector<uint64_t> all = list(sizes);
  for (int c = 0; c < kCollectives; ++c) {
    const auto collective = static_cast<Collective>(c);
    if (plan::algorithms_of(collective).empty()) continue;
    std::vector<uint64_t> blocks;
    for (const uint64_t bytes : all) {
      if (collective == Collective::Barrier && !blocks.empty()) break;
      const uint64_t block = select::block_bytes(collective, bytes, inputs.ranks) / sizeof(float) * sizeof(float);
      if (block >= sizeof(float)) blocks.push_back(block);
    }
    std::vector<Names> names;
    for (const uint64_t block : blocks) names.push_back(hopeful(collective, block, inputs, within));
    for (size_t i = 0; i < blocks.size(); ++i) {
      Names wanted = names[i];
      if (i > 0) wanted.insert(names[i - 1].begin(), names[i - 1].end());
      if (i + 1 < blocks.size()) wanted.insert(names[i + 1].begin(), names[i + 1].end());
      for (const auto& [algorithm, method] : wanted) cells.push_back({collective, algorithm, blocks[i], method});
    }
  }
  return cells;
}

std::vector<std::vector<Cell>> jobs_of(const std::vector<Cell>& cells) {
  std::map<Collective, std::vector<std::string>> algorithms;
  std::vector<std::vector<Cell>> jobs;
  for (const Cell& cell : cells) {
    auto& known = algorithms[cell.collective];
    const std::string name = name_of(cell);
    auto at = std::find(known.begin(), known.end(), name);
    if (at == known.end()) at = known.insert(known.end(), name);
    const auto job = static_cast<size_t>(at - known.begin());
    if (jobs.size() <= job) jobs.resize(job + 1);
    jobs[job].push_back(cell);
  }
  return jobs;
}

std::string forced_by(const std::vector<Cell>& job, std::string Cell::*what) {
  std::set<std::string> words;
  for (const Cell& cell : job) {
    if (!(cell.*what).empty()) words.insert(fmt::format("{}:{}", name_of(cell.collective), cell.*what));
  }
  return fmt::format("{}", fmt::join(words, ","));
}

std::string line_of(const Cell& cell, double seconds) {
  json page = cell;
  page["seconds"] = seconds;
  return line_of(page);
}

std::string line_of(const select::MeasuredGpus& gpus, const std::string& situation) {
  return line_of(json{{"gpus", select::to_json(gpus)}, {"situation", situation}});
}

std::string line_of(const char* what, const std::string& kind, const select::MeasuredLink& link) {
  return line_of(json{{what, kind}, {"alpha", link.alpha}, {"beta", link.beta}});
}

std::string line_of_doubt(const std::string& kind, const std::string& why) {
  return line_of(json{{"doubt", kind}, {"why", why}});
}

std::string line_of(const select::CostInputs& inputs) {
  std::vector<Rank> labels;
  for (Rank rank = 0; rank < inputs.ranks; ++rank) labels.push_back(inputs.groups->group_of(rank));
  return line_of(json{{"situation", inputs.situation},
                      {"groups", labels},
                      {"inside", to_json(inputs.inside)},
                      {"between", to_json(inputs.between)},
                      {"gamma", inputs.gamma},
                      {"oversubscription", inputs.oversubscription},
                      {"staging", inputs.staging},
                      {"message", inputs.message}});
}

Partial read_partial(const std::string& text, const std::string& heading) {
  Partial partial;
  std::istringstream lines(text);
  std::string line;
  if (!std::getline(lines, line) || line != heading) return partial;
  while (std::getline(lines, line)) {
    try {
      read_line(line, partial);
    } catch (const std::exception&) {  // cut short when the run was interrupted
    }
  }
  return partial;
}

topo::Graph graph_on_network(const Partial& known) {
  using topo::Figure;
  topo::Graph graph = topo::graph_of_json(known.graph, "the job's topology");
  for (Figure& figure : graph.figures) {
    const bool far = figure.between == Figure::Between::Hosts, threads = figure.between == Figure::Between::Threads;
    const auto link = known.profile.links.find(far ? figure.transport : threads ? "threads" : "processes");
    if (link == known.profile.links.end()) continue;
    figure.us = link->second.alpha * 1e6;
    figure.gbps = 1e-9 / link->second.beta;
  }
  if (known.profile.gamma) graph.facts[select::facts::kGamma] = *known.profile.gamma;
  select::add_measured_hosts(graph, known.profile.hosts);
  return graph;
}

select::CostInputs inputs_on_network(const Partial& known) {
  select::CostInputs inputs = select::inputs_of(graph_on_network(known), 0, known.inputs->groups).inputs;
  inputs.situation = known.inputs->situation;
  return inputs;
}

std::string order_text(const plan::RankOrder& order) {
  return order.is_given() ? fmt::format("{}", fmt::join(order.ranks(), ",")) : "natural";
}

}  // namespace tutti::tools
