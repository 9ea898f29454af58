#include "select/synthesised.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "base/printable.hpp"
#include "base/private_file.hpp"
#include "base/shallow_json.hpp"
#include "plan/json.hpp"
#include "select/profile.hpp"

namespace tutti::select {
namespace {

constexpr size_t kMaxRanks = 512;  // synthesis takes no more (synth/network.hpp)

using nlohmann::json;
using topo::NodeId;
using topo::NodeKind;

constexpr const char* kTextFormat = "tutti-synthesised";
constexpr int kTextVersion = 1;
constexpr size_t kMaxWords = 1000, kMaxPlans = 64;

[[noreturn]] void wrong(const std::string& why) { throw Error(Code::InvalidArgument, why); }

std::string text_of_key(uint64_t key) { return fmt::format("{:016x}", key); }

std::string_view without_hash(std::string_view name) { return name.substr(0, name.find('@')); }

json json_of(const KnownBound& bound) {
  return {{"seconds_per_byte", bound.seconds_per_byte},
          {"seconds", bound.seconds},
          {"exact", bound.exact},
          {"words", bound.words}};
}

KnownBound bound_from(const json& object) {
  KnownBound bound{.seconds_per_byte = object.at("seconds_per_byte"),
                   .seconds = object.at("seconds"),
                   .exact = object.at("exact"),
                   .words = printable(object.at("words").get<std::string>().substr(0, kMaxWords))};
  for (const double figure : {bound.seconds_per_byte, bound.seconds}) {
    if (!std::isfinite(figure) || figure < 0) wrong("a bound is not a time");
  }
  return bound;
}

const plan::Algorithm& adopted(const std::string& text, Rank ranks) {
  plan::PlanSet set = plan::from_json(text, plan::Proof::Omit);
  if (!is_synthesised(set.name)) wrong("a plan has the name of no synthesised one");
  if (set.plans.size() != static_cast<size_t>(ranks)) {
    wrong(fmt::format("{} is for {} ranks, where there are {}", set.name, set.plans.size(), ranks));
  }
  return plan::adopt(set.name, std::move(set.plans));
}

std::shared_ptr<const Synthesised> parse(const std::string& text, std::optional<uint64_t> key, Rank ranks) {
  const json page = parse_shallow_json(text);
  if (!page.is_object() || page.value("format", "") != kTextFormat || page.value("version", 0) != kTextVersion) {
    wrong(fmt::format("it is not of the format {}, version {}", kTextFormat, kTextVersion));
  }
  const auto its = page.at("key").get<std::string>();
  if (key && its != text_of_key(*key)) wrong(fmt::format("it is of the machine and ranks {}", printable(its)));
  if (whole_number(page.at("ranks")) != static_cast<uint64_t>(ranks)) {
    wrong(fmt::format("it is for {} ranks, where there are {}", whole_number(page.at("ranks")), ranks));
  }
  if (page.at("plans").size() > kMaxPlans) wrong(fmt::format("it has more than {} plans", kMaxPlans));
  auto read = std::make_shared<Synthesised>();
  for (const auto& [name, bound] : page.at("bounds").items()) read->bounds[collective_named(name)] = bound_from(bound);
  for (const json& plan : page.at("plans")) {
    const plan::Algorithm& algorithm = adopted(plan.get_ref<const std::string&>(), ranks);
    if (read->find(algorithm.collective, without_hash(algorithm.name)) != nullptr) {
      wrong(fmt::format("it has two plans {} for {}", without_hash(algorithm.name), name_of(algorithm.collective)));
    }
    read->algorithms.push_back(&algorithm);
  }
  read->text = text;
  return read;
}

/// Once a process for each file.
void warn_once(const std::string& path, const char* why) {
  static std::mutex* const kMutex = new std::mutex;
  static auto* const kSaid = new std::set<std::string>;
  const std::lock_guard lock(*kMutex);
  if (!kSaid->insert(path).second) return;
  log_warn("the synthesised plans in {} are not used: {}; `tutti tune --synth` makes them again", path, why);
}

}  // namespace

double KnownBound::of(uint64_t bytes) const { return std::max(seconds, seconds_per_byte * static_cast<double>(bytes)); }

bool is_synthesised(std::string_view algorithm) {
  const std::string_view name = without_hash(algorithm);
  return name == kSynthesised || name.starts_with("synth_");
}

const plan::Algorithm* Synthesised::find(Collective collective, std::string_view name) const {
  for (const plan::Algorithm* const a : algorithms) {
    if (a->collective == collective && (name == a->name || name == without_hash(a->name))) return a;
  }
  return nullptr;
}

std::string to_text(const SynthesisedText& page) {
  json bounds = json::object();
  for (const auto& [collective, bound] : page.bounds) bounds[name_of(collective)] = json_of(bound);
  return json{{"format", kTextFormat}, {"version", kTextVersion}, {"key", text_of_key(page.key)},
              {"ranks", page.ranks},   {"bounds", bounds},        {"plans", page.plans}}
             .dump() +
         "\n";
}

std::shared_ptr<const Synthesised> read_synthesised(const std::string& text, std::optional<uint64_t> key, Rank ranks) {
  struct Known {
    std::optional<uint64_t> key;
    Rank ranks = 0;
    std::shared_ptr<const Synthesised> read;
  };
  static std::mutex* const kMutex = new std::mutex;
  static auto* const kKnown = new std::vector<Known>;  // plans that were adopted stay for as long
  const std::lock_guard lock(*kMutex);                 // ranks that are threads wait for the first one's proof
  for (const Known& known : *kKnown) {
    if (known.key == key && known.ranks == ranks && known.read->text == text) return known.read;
  }
  try {
    kKnown->push_back({key, ranks, parse(text, key, ranks)});
  } catch (const json::exception& error) {
    throw_error(Code::InvalidArgument, "it is damaged ({})", error.what());
  } catch (const Error& error) {
    throw Error(Code::InvalidArgument, error.what());
  }
  return kKnown->back().read;
}

std::vector<NodeId> nodes_of_plans(const topo::Graph& graph, const std::vector<NodeId>& ranks,
                                   const plan::RankOrder& order) {
  std::map<NodeId, size_t> users;
  const auto is_end = [&](NodeId node) {
    return graph.nodes[node].kind == NodeKind::Core || graph.nodes[node].kind == NodeKind::Gpu;
  };
  for (const NodeId node : ranks) users[node] += is_end(node) ? 1 : 0;
  const std::vector<NodeId> cores = graph.all(NodeKind::Core);
  std::vector<NodeId> nodes = ranks;
  for (NodeId& node : nodes) {
    if (is_end(node)) continue;
    NodeId best = topo::kNoNode;
    for (const NodeId core : cores) {
      const bool inside = graph.enclosing(core, graph.nodes[node].kind) == node;
      if (inside && (best == topo::kNoNode || users[core] < users[best])) best = core;
    }
    if (best == topo::kNoNode) continue;
    ++users[best];
    node = best;
  }
  std::vector<NodeId> ordered;
  const auto n = static_cast<Rank>(nodes.size());
  for (Rank planned = 0; planned < n; ++planned) {
    ordered.push_back(nodes[static_cast<size_t>(order.actual(planned, 0, n))]);
  }
  return ordered;
}

uint64_t synthesis_key(const topo::Graph& graph, const std::vector<NodeId>& nodes) {
  Hash hash;
  hash.add(machine_key(graph));
  for (const NodeId node : nodes) hash.add(node);
  return hash.value();
}

std::string synthesised_path(uint64_t key) {
  const std::string folder = cache_folder();
  return folder.empty() ? "" : fmt::format("{}/synth-{}.json", folder, text_of_key(key));
}

std::shared_ptr<const Synthesised> kept_synthesised(const topo::Graph& graph, const std::vector<NodeId>& ranks,
                                                    const plan::RankOrder& order) {
  if (env().synth == Synth::Off || ranks.size() < 2 || ranks.size() > kMaxRanks || cache_folder().empty())
    return nullptr;
  const uint64_t key = synthesis_key(graph, nodes_of_plans(graph, ranks, order));
  const std::string path = synthesised_path(key);
  try {
    const auto text = read_file(path, kMaxSynthesised, true);
    return text ? read_synthesised(*text, key, static_cast<Rank>(ranks.size())) : nullptr;
  } catch (const std::exception& error) {  // also without memory: the job runs without these plans
    warn_once(path, error.what());
    return nullptr;
  }
}

}  // namespace tutti::select
