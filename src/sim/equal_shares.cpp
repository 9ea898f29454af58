#include <algorithm>
#include <limits>
#include <queue>

#include "sim/network.hpp"

namespace tutti::sim {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

class EqualShares final : public Network {
 public:
  explicit EqualShares(std::span<const SharedResource> resources) : resources_(resources), users_(resources.size()) {
    dirty_mark_.resize(resources.size());
  }

  uint32_t start(std::span<const uint32_t> resources, double bytes) override {
    uint32_t number = static_cast<uint32_t>(messages_.size());
    if (free_.empty()) {
      messages_.emplace_back();
    } else {
      number = free_.back();
      free_.pop_back();
    }
    Message& message = messages_[number];
    message.resources.assign(resources.begin(), resources.end());
    message.left = bytes;
    message.rate = 0;
    message.since = now_;
    ++message.version;
    for (const uint32_t resource : resources) {
      users_[resource].push_back(number);
      touch(resource);
    }
    ++active_;
    return number;
  }

  double advance(double until, std::vector<uint32_t>& ended) override {
    settle();
    while (!ends_.empty() && messages_[ends_.top().message].version != ends_.top().version) ends_.pop();
    const double next = ends_.empty() ? kNever : ends_.top().time;
    if (next > until) {
      now_ = until;
      return now_;
    }
    now_ = next;
    while (!ends_.empty() && ends_.top().time <= now_ + kInstant) {
      const End end = ends_.top();
      ends_.pop();
      if (messages_[end.message].version != end.version) continue;
      finish(end.message);
      ended.push_back(end.message);
    }
    return now_;
  }

  bool idle() const override { return active_ == 0; }

 private:
  struct Message {
    std::vector<uint32_t> resources;
    double left = 0, rate = 0, since = 0;
    uint32_t version = 0;
  };
  struct End {
    double time;
    uint32_t message, version;
    bool operator<(const End& other) const { return time > other.time; }
  };

  void touch(uint32_t resource) {
    if (dirty_mark_[resource]) return;
    dirty_mark_[resource] = true;
    dirty_.push_back(resource);
  }

  void finish(uint32_t number) {
    Message& message = messages_[number];
    ++message.version;
    for (const uint32_t resource : message.resources) {
      auto& users = users_[resource];
      const auto at = std::find(users.begin(), users.end(), number);
      *at = users.back();
      users.pop_back();
      touch(resource);
    }
    free_.push_back(number);
    --active_;
  }

  /// Gives the messages of links whose users have changed their new rates.
  void settle() {
    for (const uint32_t resource : dirty_) {
      for (const uint32_t number : users_[resource]) rate(number);
      dirty_mark_[resource] = false;
    }
    dirty_.clear();
  }

  void rate(uint32_t number) {
    Message& message = messages_[number];
    double share = kNever;
    for (const uint32_t resource : message.resources) {
      share = std::min(share, resources_[resource].rate / static_cast<double>(users_[resource].size()));
    }
    if (share == message.rate) return;
    message.left = std::max(0.0, message.left - (now_ - message.since) * message.rate);
    message.since = now_;
    message.rate = share;
    ends_.push({now_ + message.left / share, number, ++message.version});
  }

  std::span<const SharedResource> resources_;
  std::vector<std::vector<uint32_t>> users_;  // by resource
  std::vector<Message> messages_;
  std::vector<uint32_t> free_, dirty_;
  std::vector<bool> dirty_mark_;
  std::priority_queue<End> ends_;
  double now_ = 0;
  size_t active_ = 0;
};

}  // namespace

std::unique_ptr<Network> equal_shares(std::span<const SharedResource> resources) {
  return std::make_unique<EqualShares>(resources);
}

}  // namespace tutti::sim
