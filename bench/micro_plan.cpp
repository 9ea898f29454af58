// The cost of one rank's plan, and of the proof of all ranks' plans, by the number of ranks.
//
// Generate, Lower and Run are about rank 0 alone: its plan; the program for a call whose messages hold 4 bytes each;
// that call, run by the host backend over links whose other ends are run by the same thread. Up to eight messages per
// link are published beforehand; if a peer sends or receives more in the call (a ring's neighbours), its part of each
// message is in the measured time. Steps are counted as in the plan, before fusing. Verify is about all ranks. `heap`
// is the peak of allocated memory; for Run, of the program and its state between calls. Lower/send is the program of a
// send, by its bytes: 1 MiB to 1 EiB.
#include <benchmark/benchmark.h>

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <memory>
#include <new>
#include <stdexcept>

#include "exec/compile/direct.hpp"
#include "exec/host/host_backend.hpp"
#include "link/host_memory.hpp"
#include "plan/algorithm.hpp"
#include "plan/verify.hpp"
#include "reduce/fold.hpp"

namespace {

size_t heap = 0, max_heap = 0;  // bytes; only one thread allocates

void* counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  heap += malloc_usable_size(memory);
  max_heap = std::max(max_heap, heap);
  return memory;
}

void release(void* memory) {
  heap -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

void* operator new(size_t bytes) { return counted(std::malloc(bytes)); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  const auto unit = static_cast<size_t>(alignment);
  return counted(std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit));
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete(void* memory, size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { release(memory); }

namespace tutti {
namespace {

using link::HostWire;

constexpr Rank kMe = 0;
constexpr uint32_t kElement = 4;

const plan::Algorithm& algorithm(Collective collective, const char* name) {
  const plan::Algorithm* found = plan::find_algorithm(collective, name);
  if (found == nullptr) throw std::runtime_error("there is no such algorithm");
  return *found;
}

/// Elements of a call (of a block, if there are blocks) whose messages hold one element each.
uint64_t elements(const plan::RankPlan& plan) { return plan.grain; }

/// The peak of bytes allocated by work(), including its result.
double heap_of(const auto& work) {
  const size_t before = max_heap = heap;
  static_cast<void>(work());
  return static_cast<double>(max_heap - before);
}

void report(benchmark::State& state, const plan::RankPlan& plan, double bytes) {
  using benchmark::Counter;
  const auto steps = static_cast<double>(plan.steps.size());
  state.counters["steps"] = steps;
  state.counters["per_step"] = Counter(steps, Counter::kIsIterationInvariantRate | Counter::kInvert);
  state.counters["heap"] = bytes;
  state.counters["heap_per_step"] = bytes / steps;
}

void generate(benchmark::State& state, Collective collective, const char* name) {
  const plan::Shape shape{collective, static_cast<Rank>(state.range(0))};
  const plan::Algorithm& made = algorithm(collective, name);
  const auto make = [&] { return plan::generate(made, shape, kMe); };
  for (auto _ : state) benchmark::DoNotOptimize(make());
  report(state, make(), heap_of(make));
}

/// The other ends of rank 0's links.
class Peers final : public exec::Connector, public transports::Transport {
 public:
  link::LinkTraits traits(Rank) override { return {}; }
  link::OutLink connect_out(Rank peer, uint32_t) override {
    link::LinkMemory& link = memory_.emplace_back();
    readers_.push_back({.ring = link.ring, .consumed = &link.consumed, .peer = kMe, .addresses = true});
    return {.ring = link.ring, .consumed = &link.consumed, .peer = peer};
  }
  link::InLink connect_in(Rank peer, uint32_t) override {
    link::LinkMemory& link = memory_.emplace_back();
    writers_.push_back({.ring = link.ring, .consumed = &link.consumed, .peer = kMe});
    return {.ring = link.ring, .consumed = &link.consumed, .peer = peer, .addresses = true};
  }

  /// Counts what the program sends and receives on each link. Links are numbered in the order of connecting.
  void expect(const exec::WindowProgram& program) {
    to_send_.assign(writers_.size(), 0);
    to_take_.assign(readers_.size(), 0);
    for (const exec::Instruction& op : program.ops) {
      for (uint32_t i = op.arrivals.begin; i < op.arrivals.end; ++i) ++to_send_[program.arrivals[i]];
      for (uint32_t i = op.outs.begin; i < op.outs.end; ++i) ++to_take_[program.outs[i].link];
      if (op.arrivals.end + op.outs.end > op.arrivals.begin + op.outs.begin && op.bytes != kElement) {
        throw std::runtime_error("a message is not of one element");
      }
    }
  }
  /// Before a call: publishes the first messages.
  void begin(uint64_t tag) {
    tag_ = tag;
    busy_writers_.clear();
    busy_readers_.clear();
    for (size_t i = 0; i < writers_.size(); ++i) {
      ends_.resize(std::max(ends_.size(), i + 1));
      ends_[i] = writers_[i].next + to_send_[i];
      send(i);
      if (to_send_[i] > link::kCapacity) busy_writers_.push_back(i);
    }
    for (size_t i = 0; i < readers_.size(); ++i) {
      if (to_take_[i] > link::kCapacity) busy_readers_.push_back(i);
    }
  }
  /// After a call: consumes the remaining messages.
  void finish() {
    for (size_t i = 0; i < readers_.size(); ++i) take(i);
  }

  const char* name() const override { return "peers"; }
  transports::Reach probe(Rank) const override { return {.ok = true}; }
  link::OutLink connect_out(Rank peer, uint32_t link_lane, Deadline) override { return connect_out(peer, link_lane); }
  link::InLink connect_in(Rank peer, uint32_t link_lane, Deadline) override { return connect_in(peer, link_lane); }
  bool is_engine() const override { return true; }
  Status progress(bool& moved) override {
    moved = false;
    for (const size_t i : busy_writers_) moved = send(i) || moved;
    for (const size_t i : busy_readers_) moved = take(i) || moved;
    return {};
  }

 private:
  bool send(size_t i) {
    const uint64_t before = writers_[i].next;
    const float one = 1;
    while (writers_[i].next < ends_[i] && HostWire::can_publish(writers_[i])) {
      HostWire::publish_inline(writers_[i], tag_, reinterpret_cast<const unsigned char*>(&one), kElement);
    }
    return writers_[i].next != before;
  }
  bool take(size_t i) {
    const uint64_t before = readers_[i].next;
    link::Header header;
    link::Arrival arrival;
    while (HostWire::poll(readers_[i], header, arrival) == link::Poll::Ready) {
      HostWire::consume(readers_[i], arrival);
    }
    return readers_[i].next != before;
  }

  std::deque<link::LinkMemory> memory_;
  std::vector<link::InLink> readers_;        // of what rank 0 sends, by its out-links
  std::vector<link::OutLink> writers_;       // by its in-links
  std::vector<uint64_t> to_send_, to_take_;  // in a call
  std::vector<uint64_t> ends_;               // number of the first message after the call
  std::vector<size_t> busy_writers_, busy_readers_;
  uint64_t tag_ = 0;
};

exec::Geometry geometry_of(const plan::RankPlan& plan) {
  return {.count = elements(plan), .window = elements(plan), .element_bytes = kElement};
}

void lower(benchmark::State& state, Collective collective, const char* name) {
  const plan::RankPlan plan =
      plan::generate(algorithm(collective, name), {collective, static_cast<Rank>(state.range(0))}, kMe);
  const auto make = [&] {
    return exec::lower(plan, geometry_of(plan), exec::PeerTraits(static_cast<size_t>(plan.shape.ranks)));
  };
  for (auto _ : state) benchmark::DoNotOptimize(make());
  report(state, plan, heap_of(make));
}

struct Complaints final : exec::Observer {
  Status fault(const exec::Fault&) override { return {Code::InternalError, "a message was wrong"}; }
  Status stalled(const exec::Stall&) override { return {Code::Timeout, "nothing moves"}; }
  Status failed() override { return {Code::Aborted, "failed"}; }
  bool lost(Rank) const override { return false; }
};

void run(benchmark::State& state, Collective collective, const char* name) {
  const plan::RankPlan plan =
      plan::generate(algorithm(collective, name), {collective, static_cast<Rank>(state.range(0))}, kMe);
  Peers peers;
  exec::Links links(peers);
  std::vector<unsigned char> memory(1 << 20);
  link::Arena arena(memory.data(), memory.size());
  const std::atomic<uint32_t> failed{0};
  Complaints complaints;
  const exec::Backoff backoff;
  exec::HostBackend backend({.rank = kMe,
                             .ranks = static_cast<Rank>(state.range(0)),
                             .links = &links,
                             .arena = &arena,
                             .engines = {&peers},
                             .failed = &failed,
                             .observer = &complaints,
                             .backoff = &backoff});
  const exec::Reduction sum{.type = DType::F32, .op = Op::Sum};
  const auto load = [&] { return backend.compile(plan, geometry_of(plan), &sum); };
  const std::unique_ptr<exec::Execution> execution = load();
  peers.expect(execution->program().last);
  const auto bytes_of = [&](plan::Buffer b) {
    return elements(plan) * kElement * std::max(blocks(plan.shape, b, kMe), 1u);
  };
  std::vector<unsigned char> in(bytes_of(plan::Buffer::Input)), out(bytes_of(plan::Buffer::Output));
  uint64_t tag = 0;
  const auto call = [&] {
    backend.enqueue(*execution, {.in = in.data(), .out = out.data(), .tag = tag});
    exec::Pending* const all[] = {&backend};
    exec::wait_for_one(all, backoff);
    return backend.status().ok();
  };
  for (auto _ : state) {
    peers.begin(++tag);
    const auto start = std::chrono::steady_clock::now();
    if (!call()) return state.SkipWithError(backend.status().text.c_str());
    state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    peers.finish();
  }
  report(state, plan, heap_of(load));
}

void verify(benchmark::State& state, Collective collective, const char* name) {
  const auto n = static_cast<Rank>(state.range(0));
  const plan::Algorithm& made = algorithm(collective, name);
  const auto prove = [&] {
    auto plans = plan::generate_all(made, n);
    if (!plan::verify(plans)) state.SkipWithError("not proven");
    return plans;
  };
  double bytes = 0;
  for (auto _ : state) bytes = heap_of(prove);
  state.counters["heap"] = bytes;
}

/// The program of a send of so many bytes, in messages of 64 KiB.
void lower_send(benchmark::State& state) {
  exec::Direct direct{.message = 64 << 10};
  direct.transfers.push_back({{1}, true, nullptr, static_cast<uint64_t>(state.range(0)), 1});
  const auto make = [&] { return exec::lower_direct(direct, 0, 2, exec::PeerTraits(2)); };
  for (auto _ : state) benchmark::DoNotOptimize(make());
  state.counters["heap"] = heap_of(make);
}

void each_of_three(const char* what, void (*measure)(benchmark::State&, Collective, const char*), bool manual) {
  const auto add = [&](Collective collective, const char* name) {
    const std::string title = std::string(what) + "/" + std::string(name_of(collective)) + ":" + name;
    auto* made =
        benchmark::RegisterBenchmark(title.c_str(), [=](benchmark::State& state) { measure(state, collective, name); });
    for (const int n : {8, 64, 1000}) made->Arg(n);
    if (manual) made->UseManualTime();
  };
  add(Collective::AllReduce, "ring");
  add(Collective::AllReduce, "recursive_doubling");
  add(Collective::AllToAll, "pairwise");
}

[[maybe_unused]] const bool registered = [] {
  each_of_three("Generate", generate, false);
  each_of_three("Lower", lower, false);
  each_of_three("Run", run, true);
  each_of_three("Verify", verify, false);
  auto* const send = benchmark::RegisterBenchmark("Lower/send", lower_send);
  for (const int shift : {20, 30, 40, 50, 60}) send->Arg(int64_t{1} << shift);
  return true;
}();

}  // namespace
}  // namespace tutti
