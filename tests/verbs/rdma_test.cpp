// Memory of a peer that a device writes, reads and changes: over the device in this process, which places bytes as late
// and in as odd an order as the standard permits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "transports/ends.hpp"
#include "transports/pod_text.hpp"
#include "transports/verbs/rdma_memory.hpp"
#include "transports/verbs/rdma_queue.hpp"
#include "verbs/fake_nic.hpp"

namespace tutti::test {
namespace {

namespace verbs = transports::verbs;
using transports::RemoteAtomics;
using transports::RemoteKey;
using transports::RemoteQueue;
using verbs::RdmaMemory;

/// Ends a wait after so many looks, or never within a test's time.
struct WaitLimit final : transports::RemoteWait {
  explicit WaitLimit(int looks = 1 << 30) : left(looks) {}
  void check() override {
    if (--left < 0 || limit.passed()) throw Error(Code::Timeout, "the test's time limit");
  }
  int left;
  Deadline limit = Deadline::in(kWaitLimit);
};

std::unique_ptr<RdmaMemory> make_memory() {
  return std::make_unique<RdmaMemory>("verbs", make_fake_nic(), make_fake_nic());
}

/// Exposed bytes, between bytes that nobody may touch.
struct Part {
  static constexpr uint64_t kMargin = 256;
  static constexpr unsigned char kPoison = 0xa5;

  Part(RdmaMemory& owner, uint64_t size) : all(size + 2 * kMargin, kPoison), bytes(size) {
    handle = owner.expose(at(), size, key);
  }
  unsigned char* at() { return all.data() + kMargin; }
  uint64_t* word(uint64_t offset) { return reinterpret_cast<uint64_t*>(at() + offset); }
  bool is_poisoned(uint64_t from, uint64_t to) const {
    const auto* const first = all.data() + kMargin;
    return std::all_of(first + from, first + to, [](unsigned char byte) { return byte == kPoison; });
  }
  bool margins_are_intact() const {
    return std::all_of(all.begin(), all.begin() + kMargin, [](auto byte) { return byte == kPoison; }) &&
           std::all_of(all.end() - kMargin, all.end(), [](auto byte) { return byte == kPoison; });
  }
  std::vector<unsigned char> all;
  const uint64_t bytes;
  RemoteKey key;
  std::shared_ptr<const void> handle;
};

std::span<const std::byte> bytes_of(const Payload& payload) { return std::as_bytes(std::span(payload)); }

class Rdma : public testing::Test {
 protected:
  void SetUp() override { start({}); }
  void TearDown() override {
    queue.reset();
    mine.reset();
    theirs.reset();
    set_fake_nic_rules({});
  }
  void start(const FakeNicRules& rules) {
    queue.reset();
    set_fake_nic_rules(rules);
    mine = make_memory();
    theirs = make_memory();
    queue = connected(*mine, 0);
  }
  std::unique_ptr<RemoteQueue> connected(RdmaMemory& from, Rank rank) {
    auto made = from.make_queue(1);
    made->connect(theirs->accept(rank, made->offer()));
    return made;
  }
  Code code_of(const std::function<void()>& call, std::string* text = nullptr) {
    try {
      call();
    } catch (const Error& error) {
      if (text != nullptr) *text = error.what();
      return error.code();
    }
    return Code::Ok;
  }
  std::unique_ptr<RdmaMemory> mine, theirs;
  std::unique_ptr<RemoteQueue> queue;
  WaitLimit wait;
};

constexpr uint64_t kSizes[] = {0,    1,    7,     8,     63,    64,    65,    219,   220,    221,    1000,  8191,
                               8192, 8193, 16384, 16385, 32768, 40001, 65536, 99999, 100000, 262144, 300001};

TEST_F(Rdma, WritesAndReadsBytesOfEverySize) {
  for (const uint32_t max_inline : {64u, 220u}) {
    start({.max_inline = max_inline, .max_message = 10000});
    Part part(*theirs, 400000);
    for (uint64_t m = 0; m < std::size(kSizes); ++m) {
      const uint64_t size = kSizes[m], offset = m * 4099 + m % 3;
      std::memset(part.at(), Part::kPoison, part.bytes);
      Payload source = payload_of(m, size);
      const Payload expected = source;
      queue->write(bytes_of(source), part.key, offset, wait);
      std::fill(source.begin(), source.end(), 0xee);  // the caller may do that
      queue->flush(part.key, wait);
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), part.at() + offset)) << size << " bytes";
      ASSERT_TRUE(part.is_poisoned(0, offset) && part.is_poisoned(offset + size, part.bytes)) << size << " bytes";
      Payload got(size + 2, 0x11);
      queue->read(std::as_writable_bytes(std::span(got)).subspan(1, size), part.key, offset, wait);
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), got.begin() + 1)) << size << " bytes";
      ASSERT_TRUE(got.front() == 0x11 && got.back() == 0x11);
    }
    EXPECT_TRUE(part.margins_are_intact());
  }
}

TEST_F(Rdma, LongMessagesAreSplitAtWhatADeviceCarries) {
  start({.max_message = 4096 * 3});
  Part part(*theirs, 300000);
  const uint64_t before = fake_works();
  const Payload source = payload_of(3, 300000);
  queue->write(bytes_of(source), part.key, 0, wait);
  queue->flush(part.key, wait);
  EXPECT_GE(fake_works() - before, 300000u / (4096 * 3));
  EXPECT_TRUE(std::equal(source.begin(), source.end(), part.at()));
}

TEST_F(Rdma, WhoeverSeesACounterSeesTheWritesBeforeIt) {
  for (const RemoteAtomics atomics : {RemoteAtomics::BetweenDevices, RemoteAtomics::Global}) {
    start({.atomics = atomics});
    Part part(*theirs, 120000), counters(*theirs, 64);
    *counters.word(8) = 0;
    for (uint64_t m = 1; m <= 150; ++m) {
      const uint64_t size = m % 10 == 0 ? 100000 + m : m * 17 % 9000, offset = m * 13 % 1000;
      const Payload payload = payload_of(m, size);
      queue->write(bytes_of(payload), part.key, offset, wait);
      queue->count(counters.key, 8, wait);
      const Deadline limit = Deadline::in(kWaitLimit);
      auto turn = make_fake_nic();  // the device works while somebody polls
      while (__atomic_load_n(counters.word(8), __ATOMIC_ACQUIRE) != m) {
        verbs::Completion none;
        (void)turn->poll(&none, 1);
        ASSERT_FALSE(limit.passed());
      }
      ASSERT_TRUE(std::equal(payload.begin(), payload.end(), part.at() + offset)) << "message " << m;
    }
    EXPECT_EQ(*counters.word(0), *reinterpret_cast<const uint64_t*>(Payload(8, Part::kPoison).data()));
    EXPECT_TRUE(counters.margins_are_intact());
  }
}

TEST_F(Rdma, MoreWorkIsPostedThanAQueueHolds) {
  start({.drop = 2});
  Part part(*theirs, 8 * 3000), counter(*theirs, 8);
  *counter.word(0) = 5;
  for (uint64_t i = 0; i < 3000; ++i) {
    queue->write(std::as_bytes(std::span(&i, 1)), part.key, 8 * i, wait);
    queue->count(counter.key, 0, wait);
  }
  queue->flush(part.key, wait);
  for (uint64_t i = 0; i < 3000; ++i) ASSERT_EQ(*part.word(8 * i), i);
  EXPECT_EQ(*counter.word(0), 3005u);
}

TEST_F(Rdma, AtomicStepsOfTwoRanksAddUp) {
  for (const RemoteAtomics atomics : {RemoteAtomics::BetweenDevices, RemoteAtomics::Global}) {
    start({.atomics = atomics});
    const auto third = make_memory();
    const auto other = connected(*third, 2);
    EXPECT_EQ(queue->atomics(), atomics);
    Part part(*theirs, 24);
    *part.word(8) = 100;
    *part.word(16) = 0;
    for (uint64_t i = 0; i < 200; ++i) {
      EXPECT_EQ(queue->add(3, part.key, 8, wait), 100 + 7 * i);
      EXPECT_EQ(other->add(4, part.key, 8, wait), 103 + 7 * i);
      EXPECT_EQ(queue->compare_swap(i, i + 1, part.key, 16, wait), i);
      EXPECT_EQ(other->compare_swap(i, 77, part.key, 16, wait), i + 1) << "it did not swap";
    }
    EXPECT_EQ(*part.word(8), 1500u);
    EXPECT_EQ(*part.word(16), 200u);
    EXPECT_TRUE(part.is_poisoned(0, 8) && part.margins_are_intact());
  }
}

TEST_F(Rdma, ADeviceWithoutAtomicStepsSaysSo) {
  start({.atomics = RemoteAtomics::None});
  EXPECT_EQ(queue->atomics(), RemoteAtomics::None);
  Part part(*theirs, 64);
  const Payload source = payload_of(1, 64);
  queue->write(bytes_of(source), part.key, 0, wait);
  queue->flush(part.key, wait);
  EXPECT_TRUE(std::equal(source.begin(), source.end(), part.at()));
}

TEST_F(Rdma, NothingIsWrittenOnceMemoryIsExposedNoMore) {
  for (const uint64_t size : {uint64_t{8}, uint64_t{5000}, uint64_t{100000}}) {
    start({});
    Part part(*theirs, 100000), stays(*theirs, 64);
    const Payload source = payload_of(size, size);
    queue->write(bytes_of(source), part.key, 0, wait);
    queue->write(bytes_of(source).first(8), part.key, 99000, wait);  // is on its way, or not begun
    part.handle.reset();
    const std::vector<unsigned char> then = part.all;
    std::string text;
    const Code code = code_of(
        [&] {
          queue->write(bytes_of(source), part.key, 0, wait);
          queue->flush(part.key, wait);
        },
        &text);
    EXPECT_EQ(code, Code::InvalidUsage) << text;
    for (const char* words : {"rank 1", "fake:1", "refused access"}) {
      EXPECT_NE(text.find(words), std::string::npos) << text;
    }
    EXPECT_EQ(then, part.all) << "the device has written to memory that was given back";
    EXPECT_NE(code_of([&] { queue->write(bytes_of(source), stays.key, 0, wait); }), Code::Ok) << "the queue is broken";
    const auto next = connected(*mine, 0);  // in place of the broken one
    next->write(bytes_of(source).first(8), stays.key, 8, wait);
    next->flush(stays.key, wait);
    EXPECT_TRUE(std::equal(source.begin(), source.begin() + 8, stays.at() + 8));
  }
}

TEST_F(Rdma, TheDeviceRefusesWhatLiesOutsideOfThePart) {
  struct Case {
    int64_t offset;
    uint64_t size;
  };
  for (const Case& at : {Case{-1, 8}, Case{4089, 8}, Case{4096, 1}, Case{0, 4097}, Case{1 << 20, 8}}) {
    start({});
    Part part(*theirs, 4096);
    const Payload source = payload_of(1, at.size);
    Payload into(at.size, 0x33);
    const auto offset = static_cast<uint64_t>(at.offset);
    const auto written = [&] {
      queue->write(bytes_of(source), part.key, offset, wait);
      queue->flush(part.key, wait);
    };
    EXPECT_EQ(code_of(written), Code::InvalidUsage) << at.offset;
    EXPECT_TRUE(part.is_poisoned(0, 4096) && part.margins_are_intact());
    queue = connected(*mine, 0);
    const auto read = [&] { queue->read(std::as_writable_bytes(std::span(into)), part.key, offset, wait); };
    EXPECT_EQ(code_of(read), Code::InvalidUsage) << at.offset;
    EXPECT_EQ(into, Payload(at.size, 0x33));
  }
}

TEST_F(Rdma, APeerThatDoesNotAnswerIsAnErrorThatNamesIt) {
  Part part(*theirs, 100000);
  const Payload source = payload_of(1, 100000);
  deafen_fake_queues();
  std::string text;
  EXPECT_EQ(code_of([&] { queue->write(bytes_of(source), part.key, 0, wait); }, &text), Code::PeerFailed);
  for (const char* words : {"rank 1", "fake:1", "does not answer", "retry"}) {
    EXPECT_NE(text.find(words), std::string::npos) << text;
  }
  uint64_t word = 0;
  EXPECT_EQ(code_of([&] { queue->read(std::as_writable_bytes(std::span(&word, 1)), part.key, 0, wait); }),
            Code::PeerFailed);
}

TEST_F(Rdma, AWaitThatIsEndedLeavesTheCallersMemoryAlone) {
  start({.lazy = 1u << 30});  // nothing moves
  Part part(*theirs, 100000);
  Payload into(100000, 0x33);
  WaitLimit little(10);
  const auto read = [&] { queue->read(std::as_writable_bytes(std::span(into)), part.key, 0, little); };
  EXPECT_EQ(code_of(read), Code::Timeout);
  set_fake_nic_rules({.lazy = 1});
  auto turn = make_fake_nic();
  verbs::Completion none;
  for (int i = 0; i < 1000; ++i) (void)turn->poll(&none, 1);
  EXPECT_EQ(into, Payload(100000, 0x33)) << "a device has written there after the call";
}

TEST_F(Rdma, MemoryThatTheDeviceCannotRegisterIsAnError) {
  std::vector<unsigned char> memory(4096);
  FakeNicRules rules;
  rules.max_regions = fake_regions();
  set_fake_nic_rules(rules);
  RemoteKey key;
  EXPECT_EQ(code_of([&] { (void)theirs->expose(memory.data(), memory.size(), key); }), Code::OutOfMemory);
  EXPECT_EQ(key, RemoteKey());
}

TEST_F(Rdma, SourcesAndTargetsThatCannotBeRegisteredAreCopied) {
  Part part(*theirs, 300000);
  FakeNicRules rules;
  rules.max_regions = fake_regions();
  set_fake_nic_rules(rules);
  const Payload source = payload_of(5, 300000);
  queue->write(bytes_of(source), part.key, 0, wait);
  Payload got(300000);
  queue->read(std::as_writable_bytes(std::span(got)), part.key, 0, wait);
  EXPECT_EQ(got, source);
}

TEST_F(Rdma, ManyPeersAreWrittenAndReadInTurn) {
  std::vector<std::unique_ptr<RemoteQueue>> queues;
  for (Rank rank = 2; rank < 50; ++rank) queues.push_back(connected(*mine, rank));
  Part part(*theirs, 48 * 1000);
  for (size_t i = 0; i < queues.size(); ++i) {
    queues[i]->write(bytes_of(payload_of(i, 1000)), part.key, i * 1000, wait);
  }
  for (size_t i = 0; i < queues.size(); ++i) {
    Payload got(1000);
    queues[i]->read(std::as_writable_bytes(std::span(got)), part.key, i * 1000, wait);
    ASSERT_EQ(got, payload_of(i, 1000));
  }
}

/// Puts to a host that is gone return, as others do, until its slots are full; the device gives up seconds later.
TEST_F(Rdma, PeersThatDoNotAnswerDelayNoOther) {
  const auto also_silent = connected(*mine, 2), other = connected(*mine, 3);
  Part part(*theirs, 4000);
  const Payload source = payload_of(1, 1000);
  const auto put = [&](RemoteQueue& to, int times) {
    for (int i = 0; i < times; ++i) to.write(bytes_of(source), part.key, 0, wait);
  };
  for (RemoteQueue* silent : {queue.get(), also_silent.get()}) {
    hold_fake_queue(verbs::read_rdma_greeting(silent->offer()).queue.number);
    put(*silent, 16);
  }
  EXPECT_TRUE(part.is_poisoned(0, 4000));
  put(*other, 100);
  other->flush(part.key, wait);
  EXPECT_EQ(std::memcmp(part.at(), source.data(), 1000), 0);
}

TEST_F(Rdma, APeerReachesOnlyWhatIsExposed) {
  Part part(*theirs, 64);
  const auto intruder = make_fake_nic();  // it writes to the end that is to write itself
  const auto to = verbs::read_rdma_greeting(queue->offer());
  const auto wrong = intruder->make_queue({.receive_id = 1, .works = 4});
  wrong->connect(to.nic, to.queue, 1);
  verbs::Work work{.completes = true, .inlined = true, .count = 1, .remote = part.key.address};
  work.remote_key = static_cast<uint32_t>(part.key.key);
  const uint64_t word = 7;
  work.pieces[0] = {&word, sizeof word, 0};
  ASSERT_EQ(wrong->post(work), 0);
  verbs::Completion done;
  const Deadline limit = Deadline::in(kWaitLimit);
  while (intruder->poll(&done, 1) == 0) ASSERT_FALSE(limit.passed());
  EXPECT_EQ(done.result, verbs::Completion::Result::Refused);
  EXPECT_TRUE(part.is_poisoned(0, 64));
}

TEST_F(Rdma, GreetingsOfPeersAreChecked) {
  using verbs::RdmaGreeting;
  const auto good = verbs::read_rdma_greeting(queue->offer());
  struct Case {
    const char* words;
    std::function<void(RdmaGreeting&)> change;
  };
  const Case cases[] = {
      {"does not begin like one", [](auto& g) { g.magic ^= 1; }},
      {"packet size", [](auto& g) { g.nic.mtu = 0; }},
      {"packet size", [](auto& g) { g.nic.mtu = 9000; }},
      {"queue pair is impossible", [](auto& g) { g.queue.number = 1u << 24; }},
      {"queue pair is impossible", [](auto& g) { g.queue.first = ~0u; }},
      {"number of reads", [](auto& g) { g.reads = 0; }},
      {"number of reads", [](auto& g) { g.reads = 1000; }},
      {"unknown kind of atomic", [](auto& g) { g.atomics = static_cast<RemoteAtomics>(9); }},
  };
  for (const Case& wrong : cases) {
    RdmaGreeting greeting = good;
    wrong.change(greeting);
    std::string text;
    EXPECT_EQ(code_of([&] { (void)theirs->accept(0, transports::pack(greeting)); }, &text), Code::ProtocolError);
    EXPECT_NE(text.find(wrong.words), std::string::npos) << text;
    EXPECT_EQ(code_of([&] { mine->make_queue(1)->connect(transports::pack(greeting)); }), Code::ProtocolError);
  }
  for (const std::string& bytes : {std::string(), std::string("x"), transports::pack(good) + "x"}) {
    EXPECT_EQ(code_of([&] { (void)theirs->accept(0, bytes); }), Code::ProtocolError);
  }
  RdmaGreeting greedy = good;
  greedy.reads = 64;  // more than this device has
  EXPECT_EQ(code_of([&] { mine->make_queue(1)->connect(transports::pack(greedy)); }), Code::ProtocolError);
  EXPECT_EQ(verbs::read_rdma_greeting(theirs->accept(0, transports::pack(greedy))).reads, 4u);
}

}  // namespace
}  // namespace tutti::test
