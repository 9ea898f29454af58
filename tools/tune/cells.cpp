#include "tools/tune/cells.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/format.hpp"
#include "select/explain.hpp"

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

/// Algorithms that may be the best for blocks of this size.
std::set<std::string> hopeful(Collective collective, uint64_t block, const select::CostInputs& inputs, double within) {
  std::set<std::string> names;
  const auto all = select::candidates(collective, block, inputs);
  for (const select::Candidate& candidate : all) {
    if (candidate.rejected.empty() && candidate.seconds <= within * all.front().seconds) {
      names.insert(select::name_of_algorithm(candidate.row));
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
  if (line.contains("situation")) {
    partial.inputs = inputs_from(line);
    return;
  }
  if (line.contains("link")) {
    partial.profile.links[line["link"]] = {line.at("alpha"), line.at("beta")};
    return;
  }
  if (line.contains("gamma")) {
    partial.profile.gamma = line["gamma"].get<double>();
    return;
  }
  const auto collective = static_cast<Collective>(line.at("collective").get<int>());
  const Cell cell{collective, line.at("algorithm"), line.at("bytes")};
  if (!partial.inputs) return;
  partial.profile.measured[partial.inputs->situation][collective][cell.algorithm][cell.bytes] = line.at("seconds");
  partial.done.insert(cell);
}

}  // namespace

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
    std::vector<std::set<std::string>> names;
    for (const uint64_t block : blocks) names.push_back(hopeful(collective, block, inputs, within));
    for (size_t i = 0; i < blocks.size(); ++i) {
      std::set<std::string> wanted = names[i];
      if (i > 0) wanted.insert(names[i - 1].begin(), names[i - 1].end());
      if (i + 1 < blocks.size()) wanted.insert(names[i + 1].begin(), names[i + 1].end());
      for (const std::string& name : wanted) cells.push_back({collective, name, blocks[i]});
    }
  }
  return cells;
}

std::vector<std::vector<Cell>> jobs_of(const std::vector<Cell>& cells) {
  std::map<Collective, std::vector<std::string>> algorithms;
  std::vector<std::vector<Cell>> jobs;
  for (const Cell& cell : cells) {
    auto& known = algorithms[cell.collective];
    auto at = std::find(known.begin(), known.end(), cell.algorithm);
    if (at == known.end()) at = known.insert(known.end(), cell.algorithm);
    const auto job = static_cast<size_t>(at - known.begin());
    if (jobs.size() <= job) jobs.resize(job + 1);
    jobs[job].push_back(cell);
  }
  return jobs;
}

std::string forced_by(const std::vector<Cell>& job) {
  std::set<std::string> words;
  for (const Cell& cell : job) words.insert(fmt::format("{}:{}", name_of(cell.collective), cell.algorithm));
  return fmt::format("{}", fmt::join(words, ","));
}

std::string line_of(const Cell& cell, double seconds) {
  return json{{"collective", static_cast<int>(cell.collective)},
              {"algorithm", cell.algorithm},
              {"bytes", cell.bytes},
              {"seconds", seconds}}
             .dump() +
         "\n";
}

std::string line_of(const select::CostInputs& inputs) {
  std::vector<Rank> labels;
  for (Rank rank = 0; rank < inputs.ranks; ++rank) labels.push_back(inputs.groups->group_of(rank));
  return json{{"situation", inputs.situation},
              {"groups", labels},
              {"inside", to_json(inputs.inside)},
              {"between", to_json(inputs.between)},
              {"gamma", inputs.gamma},
              {"oversubscription", inputs.oversubscription},
              {"staging", inputs.staging},
              {"message", inputs.message}}
             .dump() +
         "\n";
}

Partial read_partial(const std::string& text, const std::string& heading) {
  Partial partial;
  std::istringstream lines(text);
  std::string line;
  if (!std::getline(lines, line) || line != heading) return partial;
  while (std::getline(lines, line)) {
    try {
      read_line(line, partial);
    } catch (const json::exception&) {  // cut short when the run was interrupted
    }
  }
  return partial;
}

}  // namespace tutti::tools
