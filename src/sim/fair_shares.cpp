#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <queue>

#include "sim/network.hpp"

namespace tutti::sim {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kSame = 1e-12;  // rates whose ratio differs less from 1

/// Max-min fair shares. Messages that use the same resources always have the same rate, so they are one *flow*: what
/// each of its messages has got since the flow was made is one number, and a message ends when that has grown by its
/// bytes. When a message starts or ends, only flows that it is joined with, by resources and other flows, change.
class FairShares final : public Network {
 public:
  explicit FairShares(std::span<const SharedResource> resources) : resources_(resources), links_(resources.size()) {}

  uint32_t start(std::span<const uint32_t> resources, double bytes) override {
    const uint32_t f = flow_of(resources);
    Flow& flow = flows_[f];
    serve(flow);
    uint32_t number = next_;
    if (free_.empty()) {
      ++next_;
    } else {
      number = free_.back();
      free_.pop_back();
    }
    if (flow.ends.empty()) {
      for (const uint32_t r : flow.resources) links_[r].flows.push_back(f);
    }
    flow.ends.push({flow.served + bytes, number});
    touch(f);
    ++active_;
    return number;
  }

  double advance(double until, std::vector<uint32_t>& ended) override {
    settle();
    while (!ends_.empty() && !is_valid(ends_.front())) pop_end();
    const double next = ends_.empty() ? kNever : ends_.front().time;
    now_ = std::min(next, until);
    if (next > until) return now_;
    while (!ends_.empty() && ends_.front().time <= now_ + kInstant) {
      const End end = ends_.front();
      pop_end();
      if (is_valid(end)) finish(end.flow, ended);
    }
    return now_;
  }

  bool idle() const override { return active_ == 0; }

 private:
  struct Message {
    double target;  // of Flow::served
    uint32_t number;
    bool operator<(const Message& other) const { return target > other.target; }
  };
  struct Flow {
    std::vector<uint32_t> resources;
    std::priority_queue<Message> ends;
    double served = 0, rate = 0, since = 0;  // bytes of a message, bytes a second, when the two were so
    double target = -1;                      // of the next end
    uint32_t version = 0;
    bool touched = false, fixed = false;  // in a settlement: found, and its rate is known
    size_t messages() const { return ends.size(); }
  };
  struct Link {
    std::vector<uint32_t> flows;  // with messages
    double left = 0;              // in a settlement: of its rate
    size_t open = 0;              // … and messages whose rate is unknown
    bool found = false;
    double level() const { return left / static_cast<double>(open); }
  };
  struct End {
    double time;
    uint32_t flow, version;
    bool operator<(const End& other) const { return time > other.time; }
  };
  struct Level {
    double rate;
    uint32_t link;
    bool operator<(const Level& other) const { return rate > other.rate; }
  };

  uint32_t flow_of(std::span<const uint32_t> resources) {
    const auto [at, is_new] = numbers_.try_emplace(std::vector<uint32_t>(resources.begin(), resources.end()),
                                                   static_cast<uint32_t>(flows_.size()));
    if (is_new) flows_.emplace_back().resources = at->first;
    return at->second;
  }

  void serve(Flow& flow) const {
    flow.served += (now_ - flow.since) * flow.rate;
    flow.since = now_;
  }

  void touch(uint32_t f) {
    if (flows_[f].touched) return;
    flows_[f].touched = true;
    changed_.push_back(f);
  }

  /// Ends the flow's messages whose time has come.
  void finish(uint32_t f, std::vector<uint32_t>& ended) {
    Flow& flow = flows_[f];
    serve(flow);
    const double soon = flow.served + kInstant * flow.rate;
    do {
      ended.push_back(flow.ends.top().number);
      free_.push_back(flow.ends.top().number);
      flow.ends.pop();
      --active_;
    } while (!flow.ends.empty() && flow.ends.top().target <= soon);
    touch(f);
    if (!flow.ends.empty()) return;
    for (const uint32_t r : flow.resources) {
      std::vector<uint32_t>& flows = links_[r].flows;
      *std::find(flows.begin(), flows.end(), f) = flows.back();
      flows.pop_back();
    }
    flow.rate = 0;
    flow.target = -1;
    ++flow.version;
  }

  /// Gives new rates to all flows that share a link with a changed one, or with one that does, and so on. The least
  /// level of a link (what is left of its rate for each message whose rate is unknown) is the rate of its messages.
  void settle() {
    if (changed_.empty()) return;
    find_joined();
    std::priority_queue<Level> levels;
    for (const uint32_t r : found_) {
      Link& link = links_[r];
      link.left = resources_[r].rate;
      link.open = 0;
      for (const uint32_t f : link.flows) link.open += flows_[f].messages();
      if (link.open > 0) levels.push({link.level(), r});
    }
    while (!levels.empty()) {
      const Level least = levels.top();
      levels.pop();
      Link& link = links_[least.link];
      if (link.open == 0) continue;
      if (link.level() > least.rate * (1 + kSame)) {  // levels only rise: look again when it is the least
        levels.push({link.level(), least.link});
        continue;
      }
      for (const uint32_t f : link.flows) {
        if (!flows_[f].fixed) fix(f, least.rate);
      }
    }
    for (const uint32_t r : found_) links_[r].found = false;
    for (const uint32_t f : changed_) flows_[f].touched = flows_[f].fixed = false;
    changed_.clear();
    found_.clear();
  }

  void find_joined() {
    for (size_t i = 0; i < changed_.size(); ++i) {  // it grows
      for (const uint32_t r : flows_[changed_[i]].resources) {
        if (links_[r].found) continue;
        links_[r].found = true;
        found_.push_back(r);
        for (const uint32_t f : links_[r].flows) touch(f);
      }
    }
  }

  void fix(uint32_t f, double rate) {
    Flow& flow = flows_[f];
    flow.fixed = true;
    for (const uint32_t r : flow.resources) {
      Link& link = links_[r];
      link.left = std::max(0.0, link.left - rate * static_cast<double>(flow.messages()));
      link.open -= flow.messages();
    }
    const double target = flow.ends.top().target;
    if (flow.target == target && std::abs(flow.rate - rate) <= kSame * rate) return;
    serve(flow);
    flow.rate = rate;
    flow.target = target;
    push_end({now_ + std::max(0.0, target - flow.served) / rate, f, ++flow.version});
  }

  bool is_valid(const End& end) const { return flows_[end.flow].version == end.version; }
  void pop_end() {
    std::pop_heap(ends_.begin(), ends_.end());
    ends_.pop_back();
  }
  void push_end(const End& end) {
    if (ends_.size() > 4 * flows_.size()) {  // most of them are no longer so
      std::erase_if(ends_, [&](const End& old) { return !is_valid(old); });
      std::make_heap(ends_.begin(), ends_.end());
    }
    ends_.push_back(end);
    std::push_heap(ends_.begin(), ends_.end());
  }

  std::span<const SharedResource> resources_;
  std::vector<Link> links_;  // by resource
  std::vector<Flow> flows_;
  std::map<std::vector<uint32_t>, uint32_t> numbers_;
  std::vector<uint32_t> changed_, found_;  // flows and resources that a settlement looks at
  std::vector<uint32_t> free_;             // numbers of messages
  std::vector<End> ends_;                  // a heap: of each flow, the next one
  uint32_t next_ = 0;
  double now_ = 0;
  size_t active_ = 0;
};

}  // namespace

std::unique_ptr<Network> fair_shares(std::span<const SharedResource> resources) {
  return std::make_unique<FairShares>(resources);
}

}  // namespace tutti::sim
