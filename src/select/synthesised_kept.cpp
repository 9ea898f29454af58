// Where synthesised plans are kept, and which of them are a communicator's.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <queue>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "base/private_file.hpp"
#include "select/profile.hpp"
#include "select/synthesised.hpp"

namespace tutti::select {
namespace {

using topo::NodeId;
using topo::NodeKind;

constexpr size_t kMaxRanks = 512;  // synthesis takes no more (synth/network.hpp)

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
bool is_first(const std::string& path) {
  static std::mutex* const kMutex = new std::mutex;
  static auto* const kSaid = new std::set<std::string>;
  const std::lock_guard lock(*kMutex);
  return kSaid->insert(path).second;
}

/// Of what takes too long, the same would be made again.
void warn_once(const std::string& path, const char* why, bool is_late = false) {
  if (!is_first(path)) return;
  log_warn("the synthesised plans in {} are not used: {}; {}", path, why,
           is_late ? "a longer TUTTI_INIT_TIMEOUT leaves more time for it" : "`tutti tune --synth` makes them again");
}

/// Else there is no network between hosts, of which rates could be measured anew.
bool has_several_hosts(const topo::Graph& graph) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                       [](const topo::Node& node) { return node.kind == NodeKind::Host; }) > 1;
}

constexpr int kHalf = 32;  // bits of a key
constexpr uint64_t kLower = 0xffffffff;

/// Of the files whose keys have this upper half, the one that was written last; "": there is none.
std::string of_other_rates(uint64_t key, const std::string& folder) {
  namespace fs = std::filesystem;
  const std::string begin = fmt::format("synth-{:08x}", key >> kHalf);
  std::string latest;
  fs::file_time_type written;
  std::error_code error;
  for (fs::directory_iterator file(folder, error), end; !error && file != end; file.increment(error)) {
    const std::string name = file->path().filename();
    if (!name.starts_with(begin) || !name.ends_with(".json")) continue;
    const fs::file_time_type when = fs::last_write_time(file->path(), error);
    if (!error && (latest.empty() || when > written)) latest = file->path(), written = when;
  }
  return latest;
}

/// Plans that were made for other rates of the network are right, and the cost model prices them by those of now. Their
/// bounds are of those rates.
std::shared_ptr<const Synthesised> as_of_other_rates(const Synthesised& plans, const std::string& path) {
  auto known = std::make_shared<Synthesised>(plans);
  known->bounds.clear();
  known->is_of_now = false;
  if (is_first("other rates: " + path)) {
    log_info(
        "the synthesised plans in {} were made for other rates of the network than are known now: they are "
        "candidates, and `tutti tune --synth` makes plans for the rates of now",
        path);
  }
  return known;
}

}  // namespace

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

double seconds_of_proofs(const std::vector<NodeId>& nodes, double seconds) {
  std::map<NodeId, int> ranks;
  int most = 1;
  for (const NodeId node : nodes) most = std::max(most, ++ranks[node]);
  return seconds / most;
}

Deadline deadline_of_proofs(const std::vector<NodeId>& nodes) {
  return Deadline::in(seconds_of_proofs(nodes, env().init_timeout * kPartForProofs));
}

uint64_t synthesis_key(const topo::Graph& graph, const std::vector<NodeId>& nodes) {
  const topo::PartHashes parts = topo::part_hashes_of(graph);
  Hash hash;
  hash.add(parts.machines);
  for (const NodeId node : nodes) hash.add(node);
  const uint64_t upper = hash.value() >> kHalf << kHalf;
  hash.add(parts.network);
  return upper | (hash.value() & kLower);
}

std::string text_of_key(uint64_t key) { return fmt::format("{:016x}", key); }

std::string synthesised_path(uint64_t key) { return synthesised_path(key, cache_folder()); }

std::string synthesised_path(uint64_t key, const std::string& folder) {
  return folder.empty() ? "" : fmt::format("{}/synth-{}.json", folder, text_of_key(key));
}

void use_synthesised(std::string path) { NamedFile::get().name(std::move(path)); }

std::shared_ptr<const Synthesised> kept_synthesised(const topo::Graph& graph, const std::vector<NodeId>& ranks,
                                                    const plan::RankOrder& order) {
  if (env().synth == Synth::Off || ranks.size() < 2 || ranks.size() > kMaxRanks) return nullptr;
  const std::vector<NodeId> nodes = nodes_of_plans(graph, ranks, order);
  const uint64_t key = synthesis_key(graph, nodes);
  const std::string named = NamedFile::get().path();
  const std::string own = synthesised_path(key);
  std::string path = named.empty() ? own : named;
  if (path.empty()) return nullptr;
  try {
    auto text = read_file(path, kMaxSynthesised, true);
    if (!text && named.empty() && has_several_hosts(graph)) {
      path = of_other_rates(key, cache_folder());
      if (!path.empty()) text = read_file(path, kMaxSynthesised, true);
    }
    if (!text) return nullptr;
    const auto expected = path == own ? std::optional(key) : std::nullopt;
    const auto read = read_synthesised(*text, expected, static_cast<Rank>(ranks.size()), deadline_of_proofs(nodes));
    return expected || !named.empty() ? read : as_of_other_rates(*read, path);
  } catch (const Error& error) {
    warn_once(path, error.what(), error.code() == Code::Timeout);
    return nullptr;
  } catch (const std::exception& error) {  // without memory: the job runs without these plans
    warn_once(path, error.what());
    return nullptr;
  }
}

}  // namespace tutti::select
