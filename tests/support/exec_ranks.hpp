// All ranks of one all-reduce in one thread, one step at a time, in an order given by a seed.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "exec/compile/lower.hpp"
#include "exec/host/cooperative_copy.hpp"
#include "exec/host/execution.hpp"
#include "exec/host/host_policies.hpp"
#include "exec/host/release_buffers.hpp"
#include "plan/plan.hpp"
#include "support/link_ends.hpp"

namespace tutti::exec {

/// The links of ranks in this process.
struct Wires {
  struct Key {
    Rank from, to;
    uint32_t link_lane;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, std::unique_ptr<link::LinkMemory>> memory;
  std::map<Key, link::HostWriter> writers;
  std::map<Key, link::HostReader> readers;

  link::LinkMemory* of(const Key& key) {
    auto& made = memory[key];
    if (made == nullptr) made = std::make_unique<link::LinkMemory>();
    return made.get();
  }
};

/// One rank's links. Zero-copy messages are read in place.
class Wired : public Connector {
 public:
  Wired(Wires& wires, Rank rank, bool cooperative = true) : wires_(wires), rank_(rank), cooperative_(cooperative) {}
  link::LinkTraits traits(Rank) override {
    return {.out = {.address = true, .cooperative = cooperative_},
            .in = {.address = true, .cooperative = cooperative_}};
  }
  link::OutLink connect_out(Rank peer, uint32_t link_lane) override {
    const Wires::Key key{rank_, peer, link_lane};
    link::OutLink out = link::writing_end(*wires_.of(key), &wires_.writers[key]);
    out.peer = peer;
    return out;
  }
  link::InLink connect_in(Rank peer, uint32_t link_lane) override {
    const Wires::Key key{peer, rank_, link_lane};
    link::InLink in = link::reading_end(*wires_.of(key), &wires_.readers[key]);
    in.peer = peer;
    in.addresses = true;
    return in;
  }

 private:
  Wires& wires_;
  Rank rank_;
  bool cooperative_;
};

class ExecRanks {
 public:
  struct Conditions {
    Rank ranks = 2;
    bool in_place = false;
    uint64_t count = 1000, window = 300;  ///< elements: four rounds, the last one short
    bool cooperates = false;              ///< ranks take part in cooperative copies as writers
  };
  using Plans = std::function<plan::RankPlan(Rank me)>;

  ExecRanks(const Plans& plan_of, const Conditions& setting) : setting_(setting) {
    for (Rank r = 0; r < setting.ranks; ++r) {
      auto& data = *ranks_.emplace_back(std::make_unique<RankData>(wires_, r));
      for (uint64_t i = 0; i < setting.count; ++i) data.in.push_back(value(r, i));
      data.out.assign(setting.count, kPoison);
      const PeerTraits traits(static_cast<size_t>(setting.ranks), data.connector.traits(0));
      const Arithmetic arithmetic{.fold = fold_function(DType::U32, tutti::Op::Sum), .element_bytes = 4};
      data.execution =
          std::make_unique<HostExecution>(lower(plan_of(r), geometry(), traits), 4, arithmetic, data.links);
      give_memory(data);
      void* const out = setting.in_place ? data.in.data() : data.out.data();
      data.replica().bind({.in = data.in.data(), .out = out, .tag = 42}, data.scratch.data(), data.links);
    }
  }

  /// Runs until all ranks are done. Fails after so many steps that there is no end.
  void run(uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<bool> done(ranks_.size(), false);
    for (int steps = 0; std::count(done.begin(), done.end(), false) > 0; ++steps) {
      ASSERT_LT(steps, 1000000);
      const size_t r = random() % done.size();
      RankState& state = this->state(r);
      bool all = true;
      for (uint32_t lane = 0; lane < state.lane_count; ++lane) {
        if (setting_.cooperates && random() % 4 == 0) copy_for_readers(state.out, ranks_[r]->replica().outs);
        const Outcome outcome = HostInterpreter::try_step({}, state, state.lanes[lane]);
        ASSERT_NE(outcome, Outcome::Fault) << static_cast<int>(state.fault.kind);
        all = all && outcome == Outcome::LaneDone;
      }
      done[r] = all;
    }
  }

  void expect_sums() {
    for (size_t data = 0; data < ranks_.size(); ++data) {
      for (uint64_t i = 0; i < setting_.count; ++i) {
        uint32_t sum = 0;
        for (Rank r = 0; r < setting_.ranks; ++r) sum += value(r, i);
        ASSERT_EQ(result(data)[i], sum) << "rank " << data << ", element " << i;
      }
    }
  }

  /// The number of links whose writer has copied or stored to the reader's memory.
  int64_t claimed() const {
    return std::count_if(wires_.memory.begin(), wires_.memory.end(),
                         [](const auto& link) { return link.second->claim.done != 0; });
  }
  RankState& state(size_t rank) { return ranks_[rank]->replica().state; }
  Links& links(size_t rank) { return ranks_[rank]->links; }
  std::vector<uint32_t>& result(size_t rank) { return setting_.in_place ? ranks_[rank]->in : ranks_[rank]->out; }
  static constexpr uint32_t kPoison = 0xdeadbeef;

 private:
  static constexpr size_t kArena = 1 << 20;
  struct RankData {
    RankData(Wires& wires, Rank rank) : connector(wires, rank), links(connector) {}
    Wired connector;
    Links links;
    Replica& replica() { return *execution->replicas.front(); }
    std::vector<uint32_t> in, out;
    std::vector<unsigned char> memory = std::vector<unsigned char>(kArena);
    link::Arena arena{memory.data(), memory.size()};
    Staging staging{arena};
    std::vector<unsigned char> scratch;
    std::unique_ptr<HostExecution> execution;
  };

  Geometry geometry() const {
    return {.count = setting_.count,
            .window = setting_.window,
            .element_bytes = 4,
            .in_place = setting_.in_place,
            .rules = {.address_from = 0, .direct_store_from = 1}};
  }
  static void give_memory(RankData& data) {
    data.execution->own_stages(data.links);
    ASSERT_TRUE(data.staging.assign(data.execution->stages()));
    data.scratch.resize(data.execution->scratch_bytes + 1);
  }
  static uint32_t value(Rank rank, uint64_t i) {
    return static_cast<uint32_t>(rank) * 0x01000193u + static_cast<uint32_t>(i) * 7919u;
  }

  const Conditions setting_;
  Wires wires_;
  std::vector<std::unique_ptr<RankData>> ranks_;
};

}  // namespace tutti::exec
