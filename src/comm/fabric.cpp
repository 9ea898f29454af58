#include "comm/fabric.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/secret.hpp"
#include "base/spelling.hpp"
#include "select/job.hpp"
#include "select/profile.hpp"
#include "topo/constants.hpp"
#include "topo/cores.hpp"

namespace tutti::comm {
namespace {

using transports::ProcessId;
using transports::Transport;

constexpr uint64_t kLinksToAPeer = 3;  // the lanes of an algorithm in which all ranks are peers, and transfers
constexpr const char* kReadableService = "readable";
constexpr const char* kArena = "arena";
constexpr const char* kYes = "yes";

/// Of this machine's profile, or what the transport says.
select::MeasuredLink cost_of(const transports::TransportEntry& entry, const transports::Reach& reach) {
  const auto profile = select::local_profile();
  if (profile == nullptr || !profile->links.contains(entry.name)) return {reach.alpha, reach.beta};
  return profile->links.at(entry.name);
}

const char* relation_of(const ProcessId& a, const ProcessId& b) {
  if (a == b) return kBetweenThreads;
  return a.host == b.host ? kBetweenProcesses : kBetweenHosts;
}

/// As the most preferred transport that has memory of its own kind for it makes it.
link::ArenaMemory memory_for_peers(uint64_t bytes, link::SegmentFiles& files) {
  for (const transports::TransportEntry& entry : transports::transports()) {
    const bool wanted = env().transport.empty() || env().transport == entry.name;
    if (wanted && entry.arena != nullptr) return entry.arena(bytes, files);
  }
  return link::private_memory(bytes);
}

void check_is_transport(const std::string& name) {
  std::vector<std::string> known;
  for (const transports::TransportEntry& entry : transports::transports()) {
    if (name == entry.name) return;
    known.emplace_back(entry.name);
  }
  for (const transports::UnusableModule& module : transports::unusable_modules()) {
    if (name != module.name) continue;
    throw_error(Code::Unsupported, "TUTTI_TRANSPORT: transport {} cannot be used: {}", name, module.why_not);
  }
  throw_error(Code::InvalidArgument,
              "TUTTI_TRANSPORT: there is no transport '{}'{}; there are {} (TUTTI_MODULES adds more)", name,
              did_you_mean(name, known), fmt::join(known, ", "));
}

}  // namespace

struct Fabric::Parts {
  link::ArenaMemory memory;
  std::unique_ptr<link::Arena> arena;
  const volatile uint64_t word = random_u64();  // peers try to read it
  uint64_t calls = 0;
  link::PeerRegions peer_regions;
  std::map<std::string, Transport*> by_name;
  std::vector<std::unique_ptr<Transport>> transports;  // last: they release the arena first

  /// The transport of this entry, made at first use.
  Transport& transport(const transports::TransportEntry& entry, const transports::Context& context) {
    Transport*& known = by_name[entry.name];
    if (known == nullptr) known = transports.emplace_back(transports::make(entry, context)).get();
    return *known;
  }
};

struct Fabric::ProcessShared {
  struct Retired {
    std::shared_ptr<control::Endpoint> endpoint;
    std::unique_ptr<Parts> parts;  // goes before the endpoint, which its transports call
  };
  std::mutex mutex;
  std::vector<Retired> retired;

  static std::shared_ptr<ProcessShared> of(const std::string& name) {
    static std::mutex* guard = new std::mutex;
    static auto* all = new std::map<std::string, std::weak_ptr<ProcessShared>>;
    const std::lock_guard lock(*guard);
    std::erase_if(*all, [](const auto& entry) { return entry.second.expired(); });
    auto& entry = (*all)[name];
    auto process_shared = entry.lock();
    if (process_shared == nullptr) entry = process_shared = std::make_shared<ProcessShared>();
    return process_shared;
  }
};

Fabric::Fabric(control::Endpoint& endpoint, double link_timeout, std::shared_ptr<link::SegmentFiles> arenas)
    : endpoint_(endpoint),
      link_timeout_(link_timeout),
      cma_(env().cma),
      parts_(std::make_unique<Parts>()),
      process_shared_(ProcessShared::of(endpoint.name())),
      arenas_(arenas != nullptr ? std::move(arenas) : std::make_shared<link::SegmentFiles>()),
      calls_(&parts_->calls) {
  make_arena();
  make_routes();
  report_.most = select::most_inside();
  serve_readability();
}

Fabric::~Fabric() = default;

void Fabric::retire(std::unique_ptr<Fabric> fabric, std::shared_ptr<control::Endpoint> endpoint) {
  if (fabric == nullptr) return;
  const std::shared_ptr<ProcessShared> process_shared = fabric->process_shared_;
  ProcessShared::Retired gone{std::move(endpoint), std::move(fabric->parts_)};
  const bool shared = fabric->shares_process_;
  fabric.reset();
  if (!shared) return;
  const std::lock_guard lock(process_shared->mutex);
  process_shared->retired.push_back(std::move(gone));
}

void Fabric::close(std::unique_ptr<Fabric> fabric) {
  control::Endpoint& endpoint = fabric->endpoint_;
  if (fabric->parts_->memory.when_peers_are_done) fabric->parts_->memory.when_peers_are_done();
  fabric.reset();
  endpoint.end_services();  // answers of transports, which outlive them, hold the arena's file
  endpoint.when_all_have_left(kArena, nullptr);
}

link::PeerRegions& Fabric::peer_regions() { return parts_->peer_regions; }

void Fabric::make_arena() {
  const ProcessId& mine = endpoint_.process_id(endpoint_.rank());
  bool others_on_host = false;
  for (Rank peer = 0; peer < endpoint_.ranks(); ++peer) {
    const ProcessId& place = endpoint_.process_id(peer);
    if (place.host != mine.host) continue;
    const bool same = place == mine;
    others_on_host = others_on_host || !same;
    shares_process_ = shares_process_ || (same && peer != endpoint_.rank());
  }
  uint64_t bytes = env().arena
                       ? env().arena->value
                       : (shares_process_ ? machine_constants().thread_arena : machine_constants().process_arena);
  bytes = (bytes + 4095) / 4096 * 4096;  // whole pages, since peers map it
  parts_->memory = others_on_host ? memory_for_peers(bytes, *arenas_) : link::private_memory(bytes);
  const link::ArenaMemory& memory = parts_->memory;
  if (memory.when_peers_are_done) endpoint_.when_all_have_left(kArena, memory.when_peers_are_done);
  const uint64_t links =
      kLinksToAPeer * static_cast<uint64_t>(env().threads) * static_cast<uint64_t>(endpoint_.ranks());
  parts_->arena = std::make_unique<link::Arena>(memory.base, bytes, links * sizeof(link::LinkMemory), memory.commit);
  arena_ = parts_->arena.get();
  report_.staging = arena_->staging_bytes();
  report_.arena = bytes;
  report_.cores = tutti::to_text(allowed_cores());
  if (cma_ != Cma::Off) report_.word = {reinterpret_cast<uint64_t>(&parts_->word), parts_->word};
}

struct Fabric::Route {
  Transport* transport = nullptr;  ///< null: none reaches the peer
  const transports::TransportEntry* entry = nullptr;
  transports::Reach reach;
  std::string reasons;  ///< why those that are preferred do not
};

void Fabric::make_routes() {
  const transports::Context context{.wireup = &endpoint_,
                                    .arena = arena_,
                                    .arena_file = parts_->memory.file,
                                    .arena_offset = parts_->memory.offset,
                                    .calls = calls_,
                                    .direct_access = cma_ != Cma::Off,
                                    .peer_regions = &parts_->peer_regions};
  if (!env().transport.empty()) check_is_transport(env().transport);
  routes_.assign(static_cast<size_t>(endpoint_.ranks()), nullptr);
  entries_.assign(static_cast<size_t>(endpoint_.ranks()), nullptr);
  for (Rank peer = 0; peer < endpoint_.ranks(); ++peer) {
    if (peer == endpoint_.rank()) continue;
    const Route route = find_route(peer, context);
    if (route.transport != nullptr) {
      use_route(peer, route);
    } else if (report_.unreachable.empty()) {
      report_.unreachable =
          fmt::format("rank {} cannot reach {} ({})", endpoint_.rank(), endpoint_.describe(peer), route.reasons);
    }
  }
}

Fabric::Route Fabric::find_route(Rank peer, const transports::Context& context) {
  const std::string& wanted = env().transport;
  Route route;
  for (const transports::TransportEntry& entry : transports::transports()) {
    route.reach = {.ok = false, .why_not = "TUTTI_TRANSPORT is " + wanted};
    if (wanted.empty() || wanted == entry.name) {
      Transport& made = parts_->transport(entry, context);
      route.reach = made.probe(peer);
      route.entry = &entry;
      if (route.reach.ok) route.transport = &made;
    }
    if (route.transport != nullptr) return route;
    route.reasons += fmt::format("{}{}: {}", route.reasons.empty() ? "" : "; ", entry.name, route.reach.why_not);
  }
  return route;
}

void Fabric::use_route(Rank peer, const Route& route) {
  Transport* const transport = route.transport;
  routes_[static_cast<size_t>(peer)] = transport;
  entries_[static_cast<size_t>(peer)] = route.entry;
  const char* const relation = relation_of(endpoint_.process_id(endpoint_.rank()), endpoint_.process_id(peer));
  FabricReport::Slowest& slowest = report_.links[relation];
  const select::MeasuredLink cost = cost_of(*route.entry, route.reach);
  slowest.alpha = std::max(slowest.alpha, cost.alpha);
  slowest.beta = std::max(slowest.beta, cost.beta);
  slowest.in_place = slowest.in_place && !transport->is_engine();
  report_.longest = std::min(report_.longest, transport->longest_message());
  note_route(peer, route.entry->name, route.reasons);
  const bool known = std::find(engines_.begin(), engines_.end(), transport) != engines_.end();
  if (transport->is_engine() && !known) engines_.push_back(transport);
}

void Fabric::note_route(Rank peer, const std::string& transport, const std::string& why_no_better) {
  const std::string relation = relation_of(endpoint_.process_id(endpoint_.rank()), endpoint_.process_id(peer));
  std::string& known = report_.routes[relation];
  if (known.empty()) reasons_[relation] = why_no_better;
  if (("+" + known + "+").find("+" + transport + "+") != std::string::npos) return;
  known += (known.empty() ? "" : "+") + transport;
}

std::map<std::string, std::vector<transports::Traffic>> Fabric::traffic() const {
  std::map<std::string, std::vector<transports::Traffic>> all;
  for (const transports::Transport* engine : engines_) all[engine->name()] = engine->traffic();
  return all;
}

std::string Fabric::why_no_better(const std::string& relation) const {
  const auto known = reasons_.find(relation);
  return known == reasons_.end() ? "" : known->second;
}

/// Outlives the fabric, as services do.
struct Fabric::Readable {
  std::mutex mutex;
  std::vector<bool> by_peer;
};

/// Answers peers that ask whether this rank can read their memory.
void Fabric::serve_readability() {
  readable_ = std::make_shared<Readable>();
  endpoint_.serve(kReadableService, [readable = readable_](Rank from, const std::string&) -> control::Endpoint::Reply {
    const std::lock_guard lock(readable->mutex);
    const auto peer = static_cast<size_t>(from);
    return {peer < readable->by_peer.size() && readable->by_peer[peer] ? kYes : "no", Fd()};
  });
}

transports::ReadAccess Fabric::probe_cma(const std::vector<transports::Word>& words) {
  auto least = transports::ReadAccess::Direct;
  std::vector<bool> readable;
  for (Rank peer = 0; peer < endpoint_.ranks(); ++peer) {
    const auto i = static_cast<size_t>(peer);
    capabilities_.push_back(routes_[i] == nullptr ? transports::Capabilities{}
                                                  : routes_[i]->capabilities(peer, words.at(i)));
    readable.push_back(capabilities_.back().reads != transports::ReadAccess::None);
    if (peer != endpoint_.rank()) least = std::min(least, capabilities_.back().reads);
  }
  const std::lock_guard lock(readable_->mutex);
  readable_->by_peer = std::move(readable);
  return least;
}

/// Can the peer read this rank's memory by CMA? It has tried.
bool Fabric::is_read_by(Rank peer) {
  if (all_read_) return true;
  const auto known = readers_.find(peer);
  if (known != readers_.end()) return known->second;
  try {
    const bool reads = endpoint_.ask(peer, kReadableService, "", Deadline::in(link_timeout_)).bytes == kYes;
    return readers_[peer] = reads;
  } catch (const Error& error) {
    log_debug("rank {} does not say whether it can read this process's memory: {}", peer, error.what());
    return false;
  }
}

link::LinkTraits Fabric::traits(Rank peer) {
  const transports::Capabilities& can = capabilities_.at(static_cast<size_t>(peer));
  link::LinkTraits traits{can.out, can.in};
  traits.out.cma = can.out.cma && is_read_by(peer);
  return traits;
}

link::OutLink Fabric::connect_out(Rank peer, uint32_t link_lane) {
  return routes_.at(static_cast<size_t>(peer))->connect_out(peer, link_lane, Deadline::in(link_timeout_));
}

link::InLink Fabric::connect_in(Rank peer, uint32_t link_lane) {
  return routes_.at(static_cast<size_t>(peer))->connect_in(peer, link_lane, Deadline::in(link_timeout_));
}

}  // namespace tutti::comm
