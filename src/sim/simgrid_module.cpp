// SimGrid as the network: max-min fair shares of all links at once.
#include <exception>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <simgrid/s4u.hpp>
#include <utility>

#include "base/format.hpp"
#include "sim/network.hpp"
#include "sim/simgrid_module.hpp"

namespace tutti::sim {
namespace {

namespace s4u = simgrid::s4u;

/// SimGrid's seconds are our microseconds: it takes times that differ by less than 10 µs as equal.
constexpr double kScale = 1e6;

/// Latencies are the replay's, and links are as fast as they are: SimGrid's corrections for TCP are off.
std::unique_ptr<s4u::Engine> make_engine() {
  static char name[] = "tutti", quiet[] = "--log=root.thresh:warning";
#ifdef __SANITIZE_ADDRESS__
  static char contexts[] = "--cfg=contexts/factory:thread";  // AddressSanitizer knows no stacks but those of threads
  static char* arguments[] = {name, quiet, contexts, nullptr};
#else
  static char* arguments[] = {name, quiet, nullptr};
#endif
  int count = static_cast<int>(std::size(arguments)) - 1;
  auto engine = std::make_unique<s4u::Engine>(&count, arguments);
  static bool configured = false;  // SimGrid takes its settings once a process
  if (std::exchange(configured, true)) return engine;
  s4u::Engine::set_config("network/model:CM02");
  s4u::Engine::set_config("network/bandwidth-factor:1");
  s4u::Engine::set_config("network/crosstraffic:0");
  s4u::Engine::set_config("network/TCP-gamma:0");
  s4u::Engine::set_config("network/weight-S:0");
  return engine;
}

/// For each set of links that a message uses, a zone of two hosts.
class SimGrid final : public Network {
 public:
  SimGrid(std::span<const SharedResource> resources, std::span<const std::vector<uint32_t>> routes)
      : zone_(s4u::create_full_zone("tutti")) {
    for (size_t i = 0; i < resources.size(); ++i) {
      links_.push_back(zone_->create_link(fmt::format("link-{}", i), resources[i].rate / kScale)->seal());
    }
    driver_ = zone_->create_host("driver", 1)->seal();
    for (const auto& route : routes) add(route);
  }
  s4u::Host* driver() { return driver_; }

  uint32_t start(std::span<const uint32_t> resources, double bytes) override {
    const auto [from, to] = ends_.at({resources.begin(), resources.end()});
    auto comm = s4u::Comm::sendto_init(from, to);
    comm->set_payload_size(static_cast<uint64_t>(bytes));
    comm->start();
    uint32_t number = static_cast<uint32_t>(numbers_.size());
    comms_.push_back(comm);
    if (free_.empty()) {
      number = next_++;
    } else {
      number = free_.back();
      free_.pop_back();
    }
    numbers_.push_back(number);
    return number;
  }

  double advance(double until, std::vector<uint32_t>& ended) override {
    const double now = clock();
    if (comms_.empty()) {
      if (until > now) s4u::this_actor::sleep_for((until - now) * kScale);
      return until;
    }
    const bool bounded = until < 1e300;
    const auto at = s4u::Comm::wait_any_for(comms_, bounded ? std::max(0.0, until - now) * kScale : -1);
    if (at < 0) return until;
    const auto index = static_cast<size_t>(at);
    ended.push_back(numbers_[index]);
    free_.push_back(numbers_[index]);
    comms_[index] = comms_.back();
    numbers_[index] = numbers_.back();
    comms_.pop_back();
    numbers_.pop_back();
    return clock();
  }

  bool idle() const override { return comms_.empty(); }
  void begin() { begin_ = s4u::Engine::get_clock(); }

 private:
  double clock() const { return (s4u::Engine::get_clock() - begin_) / kScale; }

  void add(const std::vector<uint32_t>& resources) {
    const auto [at, is_new] = ends_.try_emplace(resources);
    if (!is_new || resources.empty()) return;
    const std::string name = fmt::format("route-{}", ends_.size());
    s4u::NetZone* const zone = s4u::create_full_zone(name)->set_parent(zone_);
    s4u::Host* const from = zone->create_host(name + "-from", 1)->seal();
    s4u::Host* const to = zone->create_host(name + "-to", 1)->seal();
    std::vector<s4u::LinkInRoute> links;
    for (const uint32_t resource : resources) links.emplace_back(links_[resource]);
    zone->add_route(from->get_netpoint(), to->get_netpoint(), nullptr, nullptr, links, false);
    zone->seal();
    at->second = {from, to};
  }

  s4u::NetZone* zone_;
  s4u::Host* driver_ = nullptr;
  std::vector<s4u::Link*> links_;
  std::map<std::vector<uint32_t>, std::pair<s4u::Host*, s4u::Host*>> ends_;
  std::vector<s4u::CommPtr> comms_;  // under way, and …
  std::vector<uint32_t> numbers_;    // … their numbers
  std::vector<uint32_t> free_;
  uint32_t next_ = 0;
  double begin_ = 0;
};

void run_in_engine(std::span<const SharedResource> resources, std::span<const std::vector<uint32_t>> routes,
                   const std::function<void(Network&)>& run) {
  const auto engine = make_engine();  // a process may have one at a time
  SimGrid network(resources, routes);
  std::exception_ptr failure;
  s4u::Actor::create("replay", network.driver(), [&] {
    network.begin();
    try {
      run(network);
    } catch (...) {
      failure = std::current_exception();
    }
  });
  engine->run();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const SimGridModule* tutti_module() {
  static constexpr SimGridModule kModule{
      .tutti = TUTTI_VERSION, .simgrid = TUTTI_SIMGRID_VERSION, .run = run_in_engine};
  return &kModule;
}

}  // namespace tutti::sim
