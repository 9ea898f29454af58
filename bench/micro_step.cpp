// The parts of the small-message path: a message on a link, a step of the interpreter, a repeated call.
//
//   micro_step                     times, by Google Benchmark
//   micro_step --count NAME N      runs NAME N times and nothing else, for bench/instructions
//   micro_step --names
// Link: one thread publishes a message, finds and consumes it. Step: one of 256 copies of 4 bytes that are the plan of
// a single rank. Exchange: one rank's part of an all-reduce of 8 bytes among 2 or 8, stepped in turn. Call: an
// all-reduce of 8 bytes on a communicator of one rank, repeated or with two alternating sizes: the cost of a call
// without its messages.
#include <benchmark/benchmark.h>
#include <tutti/tutti.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "exec/compile/lower.hpp"
#include "exec/host/execution.hpp"
#include "exec/host/host_policies.hpp"
#include "link/host_memory.hpp"
#include "plan/algorithm.hpp"
#include "plan/builder.hpp"
#include "reduce/fold.hpp"

namespace tutti {
namespace {

using link::HostWire;

/// A repeatable operation; returns how many units of the counted thing it did.
using Work = std::function<int()>;

struct Link {
  std::unique_ptr<link::LinkMemory> memory = std::make_unique<link::LinkMemory>();
  std::array<unsigned char, 4096> arena{};
  link::OutLink out{.ring = memory->ring, .consumed = &memory->consumed, .arena = arena.data()};
  link::InLink in{
      .ring = memory->ring, .consumed = &memory->consumed, .arena = arena.data(), .arena_bytes = arena.size()};
  link::Header header{};
  link::Arrival arrival;

  int take() {
    if (HostWire::poll(in, header, arrival) != link::Poll::Ready) throw std::runtime_error("no message");
    benchmark::DoNotOptimize(arrival.data);
    HostWire::consume(in, arrival);
    return 1;
  }
};

Work inline_message() {
  return [link = std::make_shared<Link>()] {
    HostWire::can_publish(link->out);
    HostWire::publish_inline(link->out, 1, link->arena.data(), 8);
    return link->take();
  };
}

Work staged_message() {
  return [link = std::make_shared<Link>()] {
    HostWire::can_publish(link->out);
    HostWire::publish_staged(link->out, 1, link->arena.data(), 4096);
    return link->take();
  };
}

struct NoPeers final : exec::Connector {
  link::LinkTraits traits(Rank) override { return {}; }
  link::OutLink connect_out(Rank, uint32_t) override { throw std::runtime_error("no peer"); }
  link::InLink connect_in(Rank, uint32_t) override { throw std::runtime_error("no peer"); }
};

constexpr uint32_t kSteps = 256;

plan::RankPlan copies() {
  plan::PlanBuilder plan({Collective::AllReduce, 1}, 0);
  const uint32_t chunks = plan.partition(kSteps);
  const plan::View in = plan.input(chunks), out = plan.output(chunks);
  auto lane = plan.lane();
  for (Rank c = 0; c < static_cast<Rank>(kSteps); ++c) lane.copy(out[c], in[c]);
  return plan.finish();
}

struct Steps {
  NoPeers nobody;
  exec::Links links{nobody};
  exec::HostExecution execution{
      exec::lower(copies(), {.count = kSteps, .window = kSteps, .element_bytes = 4}, exec::PeerTraits(1)),
      1,
      {},
      links};
  std::vector<unsigned char> in = std::vector<unsigned char>(kSteps * 4), out = in;

  int run() {
    exec::Replica& all = *execution.replicas.front();
    all.bind({.in = in.data(), .out = out.data()}, nullptr, links);
    int steps = 0;
    while (exec::HostInterpreter::try_step({}, all.state, all.lanes[0]) == exec::Outcome::Progress) ++steps;
    benchmark::ClobberMemory();
    return steps;
  }
};

Work step() {
  return [steps = std::make_shared<Steps>()] { return steps->run(); };
}

/// All ranks of a one-shot all-reduce of 8 bytes, stepped in turn by one thread.
class Exchange {
 public:
  explicit Exchange(Rank ranks) : ranks_(static_cast<size_t>(ranks)) {
    const auto& algorithm = *plan::find_algorithm(Collective::AllReduce, "one_shot");
    for (Rank r = 0; r < ranks; ++r) {
      Side& side = ranks_[static_cast<size_t>(r)];
      side.ends.self = r;
      side.ends.memory = &memory_;
      const plan::RankPlan plan = plan::generate(algorithm, {Collective::AllReduce, ranks}, r);
      const exec::Arithmetic sum{.fold = fold_function(DType::F32, Op::Sum), .element_bytes = 4};
      side.execution = std::make_unique<exec::HostExecution>(
          exec::lower(plan, {.count = 2, .window = 2, .element_bytes = 4}, exec::PeerTraits(ranks_.size())), 1, sum,
          side.links);
    }
  }
  int run() {
    for (Side& side : ranks_) {
      side.replica().bind({.in = side.in.data(), .out = side.out.data()}, nullptr, side.links);
    }
    for (size_t done = 0; done < ranks_.size();) {
      done = 0;
      for (Side& side : ranks_) {
        exec::Outcome outcome;
        do {
          outcome = exec::HostInterpreter::try_step({}, side.replica().state, side.replica().lanes[0]);
        } while (outcome == exec::Outcome::Progress);
        done += outcome == exec::Outcome::LaneDone ? 1 : 0;
      }
    }
    benchmark::ClobberMemory();
    return static_cast<int>(ranks_.size());
  }

 private:
  using Memories = std::map<std::pair<Rank, Rank>, link::LinkMemory>;  // by writer and reader
  struct Ends final : exec::Connector {
    Rank self = 0;
    Memories* memory = nullptr;
    link::LinkTraits traits(Rank) override { return {}; }
    link::OutLink connect_out(Rank peer, uint32_t) override {
      link::LinkMemory& link = (*memory)[{self, peer}];
      return {.ring = link.ring, .consumed = &link.consumed, .peer = peer};
    }
    link::InLink connect_in(Rank peer, uint32_t) override {
      link::LinkMemory& link = (*memory)[{peer, self}];
      return {.ring = link.ring, .consumed = &link.consumed, .peer = peer, .addresses = true};
    }
  };
  struct Side {
    Ends ends;
    exec::Links links{ends};
    std::unique_ptr<exec::HostExecution> execution;
    exec::Replica& replica() const { return *execution->replicas.front(); }
    std::array<float, 2> in{}, out{};
  };
  Memories memory_;
  std::vector<Side> ranks_;
};

Work exchange_of_2() {
  return [exchange = std::make_shared<Exchange>(2)] { return exchange->run(); };
}

Work exchange_of_8() {
  return [exchange = std::make_shared<Exchange>(8)] { return exchange->run(); };
}

void check(tuttiResult_t result) {
  if (result != tuttiSuccess) throw std::runtime_error(tuttiGetLastError());
}

struct Caller {
  Caller() { check(tuttiCommInitAll(&comm, 1)); }
  ~Caller() { tuttiCommDestroy(comm); }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;
  int call(size_t count) {
    check(tuttiAllReduce(in.data(), out.data(), count, tuttiFloat32, tuttiSum, comm, nullptr));
    return 1;
  }
  tuttiComm_t comm = nullptr;
  std::array<float, 4> in{}, out{};
};

Work same_call() {
  return [caller = std::make_shared<Caller>()] { return caller->call(2); };
}

Work calls_in_turn() {
  return [caller = std::make_shared<Caller>(), count = size_t{1}]() mutable { return caller->call(count ^= 3); };
}

struct Named {
  const char* name;
  Work (*make)();
};
constexpr Named kAll[] = {{"link_inline", inline_message},  {"link_staged", staged_message},  {"step", step},
                          {"exchange_of_2", exchange_of_2}, {"exchange_of_8", exchange_of_8}, {"call_again", same_call},
                          {"calls_in_turn", calls_in_turn}};

void measure(benchmark::State& state, Work (*make)()) {
  const Work work = make();
  work();
  int64_t done = 0;
  for (auto _ : state) done += work();
  using benchmark::Counter;
  state.counters["each"] = Counter(static_cast<double>(done), Counter::kIsRate | Counter::kInvert);
}

}  // namespace

/// The function whose instructions bench/instructions counts, found by its name.
extern "C" [[gnu::noinline]] long tutti_counted(const Work& work, long times) {
  long done = 0;
  for (long i = 0; i < times; ++i) done += work();
  return done;
}

namespace {

int count(std::string_view name, long times) {
  for (const Named& named : kAll) {
    if (name != named.name) continue;
    const Work work = named.make();
    for (int i = 0; i < 10; ++i) work();
    std::printf("%ld\n", tutti_counted(work, times));
    return 0;
  }
  std::fprintf(stderr, "micro_step: there is no such work; --names lists it\n");
  return 2;
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  using namespace tutti;
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first == "--names") {
    for (const Named& named : kAll) std::puts(named.name);
    return 0;
  }
  if (first == "--count" && argc == 4) return count(argv[2], std::atol(argv[3]));
  for (const Named& named : kAll) {
    benchmark::RegisterBenchmark(named.name, [&named](benchmark::State& state) { measure(state, named.make); });
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
