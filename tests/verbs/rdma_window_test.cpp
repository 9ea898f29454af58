// Parts of windows that a device reaches: which calls it carries out, which the peer's agent does, and in what order
// they are seen. Two ranks of this process, as if each were on a host of its own.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "rma/connections.hpp"
#include "rma/rdma_part.hpp"
#include "rma/target.hpp"
#include "support/fake_wireup.hpp"
#include "transports/ends.hpp"
#include "transports/verbs/rdma_memory.hpp"
#include "tutti/error.hpp"
#include "verbs/fake_nic.hpp"

namespace tutti::test {
namespace {

using rma::Request;
using transports::RemoteAtomics;
using transports::verbs::RdmaMemory;

constexpr uint64_t kWindow = 17, kBytes = 200000;
constexpr double kLimit = kWaitLimit;

/// Rank 1, which has the part.
struct Owner {
  explicit Owner(const std::string& job)
      : wireup(job, 1, 2), target(rma::Target::open(wireup)), lines(2), memory(kBytes) {
    wireup.set_hosts_apart();
    std::iota(memory.begin(), memory.end(), static_cast<unsigned char>(1));
    exposed = {.memory = reinterpret_cast<std::byte*>(memory.data()),
               .bytes = kBytes,
               .signals = lines.data(),
               .signal_bytes = lines.size() * sizeof(rma::SignalLine)};
    part = {.bytes = kBytes, .memory = reinterpret_cast<uint64_t>(memory.data())};
  }
  ~Owner() { target->close(); }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  /// Without `device`, its agent alone serves it.
  void expose(RdmaMemory* device) {
    if (device != nullptr) rma::expose_to(*device, part, exposed);
    target->expose(kWindow, exposed);
    exposed.to_device.reset();
  }
  uint64_t signals(uint32_t number) const { return lines[0].arrived[number].load(std::memory_order_acquire); }
  uint64_t* word(uint64_t offset) { return reinterpret_cast<uint64_t*>(memory.data() + offset); }
  /// What the test reads, in the order in which streams make it: as a call of the owner would.
  uint64_t value(uint64_t offset) {
    target->synchronize();
    const uint64_t now = *word(offset);
    target->synchronize();
    return now;
  }
  bool has(const Payload& payload, uint64_t offset) {
    target->synchronize();
    const bool equal = std::equal(payload.begin(), payload.end(), memory.begin() + static_cast<ptrdiff_t>(offset));
    target->synchronize();
    return equal;
  }

  FakeWireup wireup;
  std::shared_ptr<rma::Target> target;
  std::vector<rma::SignalLine> lines;
  std::vector<unsigned char> memory;
  rma::Target::Exposed exposed;
  rma::Part part;
};

struct RdmaWindow : testing::Test {
  void SetUp() override { start({}); }
  void TearDown() override { stop(); }
  void start(const FakeNicRules& rules, bool with_device = true) {
    stop();
    static std::atomic<int> number{0};
    set_fake_nic_rules(rules);
    const std::string job = fmt::format("rdma-window-{}-{}", ::getpid(), ++number);
    failed = 0;
    has_left = false;
    owner = std::make_unique<Owner>(job);
    theirs = std::make_unique<RdmaMemory>("verbs", make_fake_nic(), make_fake_nic());
    if (with_device) owner->target->use(*theirs);
    owner->expose(theirs.get());
    wireup = std::make_unique<FakeWireup>(job, 0, 2);
    wireup->set_hosts_apart();
    mine = std::make_unique<RdmaMemory>("verbs", make_fake_nic(), make_fake_nic());
    connections = std::make_unique<rma::Connections>(
        *wireup, regions, rma::Ends{failed, [this](Rank) { return has_left.load(); }}, false);
    connections->use_rdma(mine.get(), {"it is of this host", ""});
    part = make_part(kWindow);
    worker = std::make_unique<FakeWorker>();
  }
  std::unique_ptr<rma::RdmaPart> make_part(uint64_t window) {
    return std::make_unique<rma::RdmaPart>(*connections, *connections->rdma(1), 0, 1, window, owner->part);
  }
  void stop() {
    worker.reset();
    part.reset();
    connections.reset();
    mine.reset();
    wireup.reset();
    if (owner != nullptr) owner->target->close();
    owner.reset();
    theirs.reset();
    set_fake_nic_rules({});
  }
  static std::span<const std::byte> bytes_of(const Payload& payload) { return std::as_bytes(std::span(payload)); }
  void await_signals(uint32_t number, uint64_t count) {
    const Deadline limit = Deadline::in(kWaitLimit);
    while (owner->signals(number) != count && !limit.passed()) std::this_thread::yield();
    ASSERT_EQ(owner->signals(number), count);
  }
  static Error error_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      return error;
    }
    return {Code::Ok, "no error"};
  }
  std::atomic<uint32_t> failed{0};
  std::atomic<bool> has_left{false};
  std::unique_ptr<Owner> owner;
  std::unique_ptr<RdmaMemory> theirs, mine;
  std::unique_ptr<FakeWireup> wireup;
  link::PeerRegions regions;
  std::unique_ptr<rma::Connections> connections;
  std::unique_ptr<rma::RdmaPart> part;
  std::unique_ptr<FakeWorker> worker;
};

TEST_F(RdmaWindow, WhatASignalAnnouncesIsThereWhateverTheDeviceCan) {
  for (const RemoteAtomics atomics : {RemoteAtomics::None, RemoteAtomics::BetweenDevices, RemoteAtomics::Global}) {
    start({.atomics = atomics});
    for (uint64_t m = 1; m <= 60; ++m) {
      const uint64_t size = m % 9 == 0 ? 100001 : m * 37 % 9000, offset = m * 11;
      const Payload payload = payload_of(m, size);
      part->put(bytes_of(payload), offset, kLimit);
      part->signal(3, kLimit);
      await_signals(3, m);
      ASSERT_TRUE(owner->has(payload, offset));
    }
    EXPECT_EQ(owner->lines[1].arrived[3], 0u) << "that is another rank's line";
    EXPECT_EQ(owner->signals(2) + owner->signals(4), 0u);
  }
}

TEST_F(RdmaWindow, GetsSeeThePutsBeforeThem) {
  for (uint64_t m = 0; m < 30; ++m) {
    const Payload payload = payload_of(m, m % 5 == 0 ? 70000 : 100 + m);
    part->put(bytes_of(payload), m, kLimit);
    Payload got(payload.size());
    part->get(std::as_writable_bytes(std::span(got)), m, kLimit);
    ASSERT_EQ(got, payload);
  }
}

TEST_F(RdmaWindow, AtomicStepsOfRanksOfTheHostAndOfTheDeviceAddUp) {
  constexpr uint64_t kSteps = 300;
  for (const RemoteAtomics atomics : {RemoteAtomics::None, RemoteAtomics::BetweenDevices, RemoteAtomics::Global}) {
    start({.lazy = 1, .atomics = atomics});
    *owner->word(8) = *owner->word(16) = 0;
    const uint64_t before = fake_atomic_steps();
    std::atomic<bool> done{false};
    uint64_t of_processor = 0;
    std::jthread local([&] {
      const std::atomic_ref word(*owner->word(8));
      for (; !done; ++of_processor) word.fetch_add(1);
    });
    for (uint64_t i = 0; i < kSteps; ++i) part->add(uint64_t{1} << 40, 8, kLimit);
    done = true;
    local.join();
    EXPECT_EQ(owner->value(8), (kSteps << 40) + of_processor) << "a step was lost";
    EXPECT_EQ(part->compare_swap(0, 5, 16, kLimit), 0u);
    EXPECT_EQ(part->compare_swap(0, 6, 16, kLimit), 5u);
    EXPECT_EQ(owner->value(16), 5u);
    EXPECT_EQ(fake_atomic_steps() - before, atomics == RemoteAtomics::Global ? kSteps + 2 : 0);
  }
}

TEST_F(RdmaWindow, AnAtomicStepByTheAgentFollowsThePutsOfTheDevice) {
  for (uint64_t m = 1; m <= 50; ++m) {
    const Payload payload = payload_of(m, 3000);
    part->put(bytes_of(payload), 100, kLimit);
    part->add(1, 8, kLimit);
    ASSERT_TRUE(owner->has(payload, 100));
  }
}

TEST_F(RdmaWindow, AFlushPutsWhatWasPutInPlace) {
  const Payload payload = payload_of(1, 8000);
  part->put(bytes_of(payload), 100, kLimit);
  connections->flush(1, kLimit);
  EXPECT_TRUE(owner->has(payload, 100));
  EXPECT_FALSE(connections->are_dirty(1));
}

TEST_F(RdmaWindow, APeerWithoutADeviceIsReachedByRequests) {
  start({}, false);
  const Payload payload = payload_of(1, 5000);
  part->put(bytes_of(payload), 7, kLimit);
  EXPECT_EQ(part->connection(), connections->open_channel(1)) << "the signal must follow the puts";
  part->signal(0, kLimit);
  await_signals(0, 1);
  EXPECT_TRUE(owner->has(payload, 7));
  const uint64_t before = owner->value(0);
  EXPECT_EQ(part->add(1, 0, kLimit), before);
  EXPECT_EQ(owner->value(0), before + 1);
  Payload got(5000);
  part->get(std::as_writable_bytes(std::span(got)), 7, kLimit);
  EXPECT_EQ(got, payload);
}

/// Their devices may lie in networks that are not joined, when another transport carries the messages.
TEST_F(RdmaWindow, APeerWhoseDeviceDoesNotAnswerIsReachedByRequests) {
  start({.apart = true});
  EXPECT_FALSE(connections->rdma(1)->is_refused()) << "it was not tried yet";
  const uint64_t works = fake_works();
  for (uint64_t m = 1; m <= 3; ++m) {
    const Payload payload = payload_of(m, 5000);
    part->put(bytes_of(payload), m, kLimit);
    part->signal(0, kLimit);
    await_signals(0, m);
    EXPECT_TRUE(owner->has(payload, m));
  }
  EXPECT_NE(connections->rdma(1)->refusal().find("transport retry counter exceeded"), std::string::npos)
      << connections->rdma(1)->refusal();
  EXPECT_EQ(fake_works(), works + 1) << "it is tried once";
  EXPECT_EQ(part->connection(), connections->open_channel(1));
}

/// A trial is no reason to go on after the communicator has failed.
TEST_F(RdmaWindow, ATrialEndsWithTheCommunicator) {
  start({.lazy = 1u << 30});  // nothing moves
  std::jthread fails([&] { failed = 1; });
  const Payload payload = payload_of(1, 10);
  EXPECT_EQ(error_of([&] { part->put(bytes_of(payload), 0, kLimit); }).code(), Code::Aborted);
  EXPECT_FALSE(connections->rdma(1)->is_refused());
}

TEST_F(RdmaWindow, NothingIsWrittenOnceThePartIsWithdrawn) {
  const Payload payload = payload_of(1, 5000);
  part->put(bytes_of(payload), 0, kLimit);
  part->put(bytes_of(payload).first(8), 150000, kLimit);
  owner->target->withdraw(kWindow);
  const auto then = owner->memory;
  const Error error = error_of([&] {
    part->put(bytes_of(payload), 50, kLimit);
    connections->flush(1, kLimit);
  });
  EXPECT_EQ(then, owner->memory);
  EXPECT_EQ(error.code(), Code::PeerFailed) << error.what();
  for (const char* words : {"rank 1", "fake:1", "refused", "window of call 17"}) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST_F(RdmaWindow, EachWaitEndsWithItsReason) {
  const Payload payload = payload_of(1, 100000);
  const auto put = [&](double limit) { return error_of([&, limit] { part->put(bytes_of(payload), 0, limit); }); };
  const auto silent = [&] {
    start({});
    part->put(bytes_of(payload).first(1), 0, kLimit);  // connects
    connections->flush(1, kLimit);
    set_fake_nic_rules({.lazy = 1u << 30});  // nothing moves any more
  };
  silent();
  Error error = put(0.05);
  EXPECT_EQ(error.code(), Code::Timeout);
  EXPECT_NE(std::string(error.what()).find("rank 1"), std::string::npos) << error.what();

  silent();
  std::jthread fails([&] { failed = 1; });
  EXPECT_EQ(put(kLimit).code(), Code::Aborted);
  fails.join();

  silent();
  std::jthread leaves([&] { has_left = true; });
  error = put(kLimit);
  EXPECT_EQ(error.code(), Code::InvalidUsage);
  EXPECT_STREQ(error.what(), "rank 1 has left the communicator");
  leaves.join();

  start({});
  part->put(bytes_of(payload).first(1), 0, kLimit);
  connections->flush(1, kLimit);
  failed = 1;  // so that nobody waits for a reason
  deafen_fake_queues();
  error = put(kLimit);
  EXPECT_TRUE(error.code() == Code::PeerFailed || error.code() == Code::Aborted) << error.what();
}

TEST_F(RdmaWindow, KeysThatAreNotThoseOfThePartAreRefused) {
  const rma::Part good = owner->part;
  const auto refused = [&](const std::function<void(rma::Part&)>& change) {
    owner->part = good;
    change(owner->part);
    return error_of([&] { make_part(kWindow); }).code();
  };
  EXPECT_EQ(refused([](rma::Part&) {}), Code::Ok);
  EXPECT_EQ(refused([](rma::Part& p) { p.memory_key.bytes -= 1; }), Code::ProtocolError);
  EXPECT_EQ(refused([](rma::Part& p) { p.memory_key.address += 8; }), Code::ProtocolError);
  EXPECT_EQ(refused([](rma::Part& p) { p.signal_key.bytes = 64; }), Code::ProtocolError);
  EXPECT_EQ(refused([](rma::Part& p) { p.bytes = 1u << 30; }), Code::ProtocolError);
}

TEST_F(RdmaWindow, OffersThatAreNoneAreRefusedWithAReason) {
  rma::Channel& channel = connections->channel(1, Deadline::in(kLimit));
  const Error garbage = error_of([&] { (void)channel.connect("garbage", kLimit); });
  EXPECT_EQ(garbage.code(), Code::Unsupported);
  EXPECT_NE(std::string(garbage.what()).find("rank 1 says: the greeting of a queue pair is invalid"), std::string::npos)
      << garbage.what();
  const Payload payload = payload_of(1, 100);
  part->put(bytes_of(payload), 0, kLimit);  // the stream is as good as before
  connections->flush(1, kLimit);
  EXPECT_TRUE(owner->has(payload, 0));
  failed = 1;  // nobody waits for the reason why the stream has ended
  const Error huge = error_of([&] { (void)channel.connect(std::string(5000, 'x'), kLimit); });
  EXPECT_TRUE(huge.code() == Code::PeerFailed || huge.code() == Code::Aborted) << huge.what();
}

}  // namespace
}  // namespace tutti::test
