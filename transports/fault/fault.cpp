#include "transports/fault/fault.hpp"

#include <algorithm>
#include <deque>
#include <string>
#include <thread>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/hash.hpp"
#include "transports/fault/gate.hpp"

namespace tutti::transports {
namespace {

class Fault final : public Transport {
 public:
  Fault(std::unique_ptr<Transport> inner, Rank me, const FaultPlan& plan)
      : inner_(std::move(inner)), me_(me), plan_(plan), name_(fmt::format("fault({})", inner_->name())) {}

  const char* name() const override { return name_.c_str(); }
  bool is_engine() const override { return true; }
  Reach probe(Rank peer) const override { return inner_->probe(peer); }

  /// A gated link has zero-copy within one process only, because the gate could not corrupt such a message for another
  /// process. What it holds back is not read in place, as far as other ranks know.
  Capabilities capabilities(Rank peer, const Word& word) const override {
    const Capabilities inner = inner_->capabilities(peer, word);
    const bool in_process = inner.out.address && inner.in.address;
    if (!is_gated(peer)) return {.out = inner.out, .in = inner.in};
    return {.out = {.address = in_process}, .in = inner.in};
  }
  uint64_t longest_message() const override { return inner_->longest_message(); }
  link::OutLink connect_out(Rank peer, uint32_t link_lane, Deadline deadline) override {
    const link::OutLink inner = inner_->connect_out(peer, link_lane, deadline);
    if (!is_gated(peer)) return inner;
    const Hash seed =
        Hash().add(plan_.seed).add(static_cast<uint64_t>(me_)).add(static_cast<uint64_t>(peer)).add(link_lane);
    gates_.emplace_back(inner, plan_, seed.value());
    return gates_.back().link();
  }
  link::InLink connect_in(Rank peer, uint32_t link_lane, Deadline deadline) override {
    return inner_->connect_in(peer, link_lane, deadline);
  }
  std::optional<uint64_t> direct_above() const override { return inner_->direct_above(); }
  Registration register_memory(const void* data, uint64_t bytes, MemoryUse use) override {
    return inner_->register_memory(data, bytes, use);
  }

  std::vector<Traffic> traffic() const override { return inner_->traffic(); }

  Status progress(bool& moved) override {
    const auto now = Gate::Clock::now();
    bool passed = false;
    for (Gate& gate : gates_) passed = gate.progress(now) || passed;
    Status status = inner_->progress(moved);
    moved = moved || passed;
    return status;
  }
  bool flushed() const override {
    return inner_->flushed() && std::none_of(gates_.begin(), gates_.end(), [](const Gate& g) { return g.waiting(); });
  }
  void stop() override {
    for (Gate& gate : gates_) gate.stop();
    inner_->stop();
  }

  /// Sleeps at most until the next message is due.
  bool sleep(double seconds) override {
    bool expects = false;
    for (const Gate& gate : gates_) {
      const auto due = gate.due();
      if (!due) continue;
      seconds = std::min(seconds, std::chrono::duration<double>(*due - Gate::Clock::now()).count());
      expects = true;
    }
    if (seconds <= 0 || inner_->sleep(seconds)) return true;
    if (expects) std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    return expects;
  }

 private:
  bool is_gated(Rank peer) const { return plan_.peer == kNoRank || plan_.peer == peer; }

  const std::unique_ptr<Transport> inner_;
  const Rank me_;
  const FaultPlan plan_;
  const std::string name_;
  std::deque<Gate> gates_;
};

}  // namespace

std::unique_ptr<Transport> make_fault(std::unique_ptr<Transport> inner, const Context& context, const FaultPlan& plan) {
  const Rank me = context.wireup->rank();
  if (plan.rank != kNoRank && plan.rank != me) return inner;
  return std::make_unique<Fault>(std::move(inner), me, plan);
}

std::unique_ptr<Transport> with_faults_of_environment(std::unique_ptr<Transport> inner, const Context& context) {
  if (env().fault.empty()) return inner;
  return make_fault(std::move(inner), context, parse_fault_plan(env().fault));
}

namespace {
const WrapRegistration faults(with_faults_of_environment);
}  // namespace

}  // namespace tutti::transports
