#include "select/synthesised.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <list>
#include <mutex>
#include <nlohmann/json.hpp>
#include <queue>
#include <set>
#include <unordered_map>
#include <utility>

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

/// What a process spends on proofs, in work_of(). 64 GPUs of 16 odd hosts take 1.7e8, which are 2 to 5 s.
constexpr double kMaxWork = 2e9;

/// What a proof takes, as the tables' sizes tell: clocks of all lanes at each step, and the chunks of each piece.
double work_of(const std::vector<plan::RankPlan>& plans) {
  double steps = 0, lanes = 0, pieces = 0, parts = 0;
  for (const plan::RankPlan& plan : plans) {
    steps += static_cast<double>(plan.steps.size());
    lanes += static_cast<double>(plan.lanes.size());
    pieces += static_cast<double>(plan.pieces.size());
    for (const plan::Partition& partition : plan.partitions) parts += partition.parts;
  }
  return steps * lanes + pieces * parts;
}

/// `work`: of all plans until now.
const plan::Algorithm& adopted(const std::string& text, Rank ranks, double& work) {
  plan::PlanSet set = plan::from_json(text, plan::Proof::Omit);
  if (!is_synthesised(set.name)) wrong("a plan has the name of no synthesised one");
  if (set.plans.size() != static_cast<size_t>(ranks)) {
    wrong(fmt::format("{} is for {} ranks, where there are {}", set.name, set.plans.size(), ranks));
  }
  work += work_of(set.plans);
  if (work > kMaxWork) {
    wrong(fmt::format("proving them takes {:.1f} times the work that communicators spend on it", work / kMaxWork));
  }
  return plan::adopt(set.name, std::move(set.plans));
}

std::shared_ptr<const Synthesised> parse(const std::string& text, std::optional<uint64_t> key, Rank ranks,
                                         std::optional<Deadline> give_up) {
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
  double work = 0;
  for (const json& plan : page.at("plans")) {
    const plan::Algorithm& algorithm = adopted(plan.get_ref<const std::string&>(), ranks, work);
    if (read->find(algorithm.collective, without_hash(algorithm.name)) != nullptr) {
      wrong(fmt::format("it has two plans {} for {}", without_hash(algorithm.name), name_of(algorithm.collective)));
    }
    read->algorithms.push_back(&algorithm);
    if (give_up && give_up->passed()) {
      throw Error(Code::Timeout,
                  "proving them takes too long: every rank does it while a communicator is made, which "
                  "has TUTTI_INIT_TIMEOUT for all");
    }
  }
  read->text = text;
  return read;
}

/// A rank there uses no other node.
bool is_end(const topo::Graph& graph, NodeId node) {
  return graph.nodes[node].kind == NodeKind::Core || graph.nodes[node].kind == NodeKind::Gpu;
}

/// The cores inside the nodes that ranks may use, for each the next one with the fewest ranks.
class FreeCores {
 public:
  FreeCores(const topo::Graph& graph, const std::vector<NodeId>& ranks) : users_(graph.nodes.size()) {
    for (const NodeId node : ranks) {
      if (is_end(graph, node)) {
        ++users_[node];
      } else {
        inside_[node];
      }
    }
    for (const NodeId core : graph.all(NodeKind::Core)) {
      for (NodeId node = core; node != topo::kNoNode; node = graph.nodes[node].parent) {
        const auto wanted = inside_.find(node);
        if (wanted != inside_.end()) wanted->second.emplace(0, core);
      }
    }
  }

  /// The node itself if there is no core inside.
  NodeId take(NodeId node) {
    Queue& queue = inside_.at(node);
    while (!queue.empty()) {
      const auto [users, core] = queue.top();
      if (users == users_[core]) return ++users_[core], core;
      queue.pop();  // others have taken it meanwhile
      queue.emplace(users_[core], core);
    }
    return node;
  }

 private:
  using Queue = std::priority_queue<std::pair<size_t, NodeId>, std::vector<std::pair<size_t, NodeId>>, std::greater<>>;
  std::vector<size_t> users_;                 // by node
  std::unordered_map<NodeId, Queue> inside_;  // with the users that a core had when it was put there
};

/// What became of a text in this process.
struct Outcome {
  std::optional<uint64_t> key;
  Rank ranks = 0;
  std::shared_ptr<const Synthesised> plans;  // null: it was refused
  std::string refused;                       // the text
  std::string why;
  bool too_slow = false;  // refused for that: it may be right
  const std::string& text() const { return plans == nullptr ? refused : plans->text; }
};

Outcome outcome_of(const std::string& text, std::optional<uint64_t> key, Rank ranks, std::optional<Deadline> give_up) {
  Outcome outcome{.key = key, .ranks = ranks, .plans = nullptr, .refused = "", .why = ""};
  try {
    outcome.plans = parse(text, key, ranks, give_up);
    return outcome;
  } catch (const json::exception& error) {
    constexpr size_t kMost = 200;  // more is the text itself
    outcome.why = fmt::format("it is damaged ({})", printable(std::string(error.what()).substr(0, kMost)));
  } catch (const Error& error) {
    outcome.why = error.what();
    outcome.too_slow = error.code() == Code::Timeout;
  }
  outcome.refused = text;
  return outcome;
}

/// Those of all texts that were read, and of the last ones that were refused: a text is proven, or refused, once.
class Outcomes {
 public:
  /// Null: not known. What took too long before is no answer for a reader who does not give up.
  const Outcome* find(std::optional<uint64_t> key, Rank ranks, const std::string& text, bool gives_up) const {
    const auto is_it = [&](const Outcome& one) {
      return one.key == key && one.ranks == ranks && one.text() == text && (gives_up || !one.too_slow);
    };
    const auto found = std::find_if(all_.begin(), all_.end(), is_it);
    return found == all_.end() ? nullptr : &*found;
  }

  const Outcome& keep(Outcome outcome) {
    std::erase_if(all_, [&](const Outcome& one) {  // that took too long
      return one.key == outcome.key && one.ranks == outcome.ranks && one.text() == outcome.text();
    });
    constexpr auto kMaxRefused = 8;  // a peer may send any number of them
    const auto is_refused = [](const Outcome& one) { return one.plans == nullptr; };
    if (std::count_if(all_.begin(), all_.end(), is_refused) >= kMaxRefused) {
      all_.erase(std::find_if(all_.begin(), all_.end(), is_refused));
    }
    return all_.emplace_back(std::move(outcome));
  }

 private:
  std::list<Outcome> all_;  // the oldest first
};

/// That of use_synthesised().
class NamedFile {
 public:
  static NamedFile& get() {
    static auto* const kFile = new NamedFile;
    return *kFile;
  }
  void name(std::string path) {
    const std::lock_guard lock(mutex_);
    path_ = std::move(path);
  }
  std::string path() const {
    const std::lock_guard lock(mutex_);
    return path_;
  }

 private:
  mutable std::mutex mutex_;
  std::string path_;
};

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

std::shared_ptr<const Synthesised> read_synthesised(const std::string& text, std::optional<uint64_t> key, Rank ranks,
                                                    std::optional<Deadline> give_up) {
  static std::mutex* const kMutex = new std::mutex;
  static auto* const kOutcomes = new Outcomes;  // plans that were adopted stay for as long
  const std::lock_guard lock(*kMutex);          // ranks that are threads wait for the first one's proof
  const Outcome* known = kOutcomes->find(key, ranks, text, give_up.has_value());
  if (known == nullptr) known = &kOutcomes->keep(outcome_of(text, key, ranks, give_up));
  if (known->plans == nullptr) throw Error(Code::InvalidArgument, known->why);
  return known->plans;
}

std::vector<NodeId> nodes_of_plans(const topo::Graph& graph, const std::vector<NodeId>& ranks,
                                   const plan::RankOrder& order) {
  std::vector<NodeId> nodes = ranks;
  FreeCores cores(graph, ranks);
  for (NodeId& node : nodes) {
    if (!is_end(graph, node)) node = cores.take(node);
  }
  std::vector<NodeId> ordered;
  const auto n = static_cast<Rank>(nodes.size());
  for (Rank planned = 0; planned < n; ++planned) {
    ordered.push_back(nodes[static_cast<size_t>(order.actual(planned, 0, n))]);
  }
  return ordered;
}

Deadline deadline_of_proofs(const std::vector<NodeId>& nodes) {
  constexpr double kPart = 1.0 / 6;
  std::map<NodeId, int> ranks;
  int most = 1;
  for (const NodeId node : nodes) most = std::max(most, ++ranks[node]);
  return Deadline::in(env().init_timeout * kPart / most);
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

void use_synthesised(std::string path) { NamedFile::get().name(std::move(path)); }

std::shared_ptr<const Synthesised> kept_synthesised(const topo::Graph& graph, const std::vector<NodeId>& ranks,
                                                    const plan::RankOrder& order) {
  if (env().synth == Synth::Off || ranks.size() < 2 || ranks.size() > kMaxRanks) return nullptr;
  const std::vector<NodeId> nodes = nodes_of_plans(graph, ranks, order);
  const uint64_t key = synthesis_key(graph, nodes);
  const std::string named = NamedFile::get().path();
  const std::string path = named.empty() ? synthesised_path(key) : named;
  if (path.empty()) return nullptr;
  try {
    const auto text = read_file(path, kMaxSynthesised, true);
    if (!text) return nullptr;
    return read_synthesised(*text, named.empty() ? std::optional(key) : std::nullopt, static_cast<Rank>(ranks.size()),
                            deadline_of_proofs(nodes));
  } catch (const std::exception& error) {  // also without memory: the job runs without these plans
    warn_once(path, error.what());
    return nullptr;
  }
}

}  // namespace tutti::select
