// Calls on the host backend, on one thread and wide: ranks are threads of this process.
#include "exec/host/host_backend.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "plan/algorithm.hpp"
#include "support/exec_ranks.hpp"

namespace tutti::exec {
namespace {

struct Silent final : Observer {
  Status fault(const Fault& fault) override { return {Code::ProtocolError, std::to_string(fault.lane)}; }
  Status stalled(const Stall& stall) override {
    ++stalls;
    awaits += stall.all.size();
    return {};
  }
  Status failed() override { return {Code::Aborted, "failed"}; }
  bool lost(Rank) const override { return false; }
  std::atomic<int> stalls{0};
  std::atomic<size_t> awaits{0};
};

constexpr uint32_t kCount = 10000;

struct Side {
  Side(Wires& wires, Rank rank, Rank ranks, uint32_t threads) : connector(wires, rank), links(connector) {
    backend = std::make_unique<HostBackend>(HostBackend::Context{.rank = rank,
                                                                 .ranks = ranks,
                                                                 .links = &links,
                                                                 .arena = &arena,
                                                                 .engines = {},
                                                                 .failed = &failed,
                                                                 .observer = &observer,
                                                                 .backoff = &backoff,
                                                                 .threads = threads});
    const plan::RankPlan plan =
        plan::generate(*plan::find_algorithm(Collective::AllReduce, "two_shot"), {Collective::AllReduce, ranks}, rank);
    const Reduction sum{.type = DType::U32, .op = Op::Sum};
    execution = backend->compile(
        plan, {.count = kCount, .window = 700, .element_bytes = 4, .width = 8, .rules = {.address_from = 8192}}, &sum);
    for (uint32_t i = 0; i < kCount; ++i) in.push_back(i + static_cast<uint32_t>(rank));
  }
  void launch(uint64_t tag) { backend->enqueue(*execution, {.in = in.data(), .out = out.data(), .tag = tag}); }

  Wired connector;
  Links links;
  std::vector<unsigned char> memory = std::vector<unsigned char>(4 << 20);
  link::Arena arena{memory.data(), memory.size()};
  std::atomic<uint32_t> failed{0};
  Silent observer;
  Backoff backoff{.spins = 0};
  std::unique_ptr<HostBackend> backend;
  std::unique_ptr<Execution> execution;
  std::vector<uint32_t> in, out = std::vector<uint32_t>(kCount);
};

class HostBackendOf : public testing::TestWithParam<uint32_t> {};  // threads

TEST_P(HostBackendOf, RunsAWideProgramAgainAndAgain) {
  Wires wires;
  Side first(wires, 0, 2, GetParam()), second(wires, 1, 2, GetParam());
  EXPECT_EQ(first.execution->program().width, 8u);
  for (uint64_t call = 1; call <= 20; ++call) {
    first.launch(call);
    second.launch(call);
    Pending* const both[] = {first.backend.get(), second.backend.get()};
    while (!first.backend->done() || !second.backend->done()) {
      std::vector<Pending*> running;
      for (Pending* e : both) {
        if (!e->done()) running.push_back(e);
      }
      wait_for_one(running, first.backoff);
    }
    ASSERT_TRUE(first.backend->status().ok() && second.backend->status().ok());
    for (uint32_t i = 0; i < kCount; ++i) ASSERT_EQ(first.out[i], 2 * i + 1) << i;
    ASSERT_EQ(first.out, second.out);
    std::fill(first.out.begin(), first.out.end(), 0);
    std::fill(second.out.begin(), second.out.end(), 0);
  }
}

TEST_P(HostBackendOf, EndsWhenTheCommunicatorHasFailed) {
  Wires wires;
  Side alone(wires, 0, 2, GetParam());
  alone.launch(1);  // the other rank never comes
  std::jthread abort([&] {
    while (alone.observer.stalls == 0) std::this_thread::yield();
    alone.failed = 1;
  });
  alone.backend->wait();
  EXPECT_EQ(alone.backend->status().code, Code::Aborted);
  EXPECT_GT(alone.observer.awaits, 0u) << "the stall named what all threads wait for";
}

TEST_P(HostBackendOf, ReportsAFaultOfAnyThread) {
  Wires wires;
  Side first(wires, 0, 2, GetParam()), second(wires, 1, 2, GetParam());
  first.launch(1);
  second.launch(2);  // another call
  std::jthread other([&] { second.backend->wait(); });
  first.backend->wait();
  second.failed = 1;
  EXPECT_EQ(first.backend->status().code, Code::ProtocolError);
}

INSTANTIATE_TEST_SUITE_P(Threads, HostBackendOf, testing::Values(1, 3, 8),
                         [](const auto& test) { return std::to_string(test.param); });

}  // namespace
}  // namespace tutti::exec
