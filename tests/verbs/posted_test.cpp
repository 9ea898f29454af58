// Messages that a device writes to where the executor wants them, in the user's memory.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "transports/ends.hpp"
#include "transports/verbs/engine.hpp"
#include "transports/verbs/mapping_watch.hpp"
#include "verbs/fake_nic.hpp"

namespace tutti::test {
namespace {

namespace verbs = transports::verbs;

constexpr uint64_t kBytes = 1 << 20, kTag = 7;

/// `at`: memory of as many bytes that ends here, so that no other thread can take its place.
unsigned char* map(void* at = nullptr) {
  const int fixed = at == nullptr ? 0 : MAP_FIXED;
  void* const memory = ::mmap(at, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<unsigned char*>(memory);
}

struct Device {
  uint32_t queues;
  bool immediate, adaptive;
};

struct VerbsPosted : testing::TestWithParam<Device> {
  VerbsPosted() {
    fake_nic_rules() = {.immediate = GetParam().immediate, .adaptive = GetParam().adaptive};
    group = std::make_unique<RankGroup>(2, false);
    const auto make = [](const transports::Context& context) {
      return std::make_unique<verbs::Engine>(context, make_fake_nic(), GetParam().queues, "verbs");
    };
    writing = std::make_unique<TestRank>(*group, 0, make);
    reading = std::make_unique<TestRank>(*group, 1, make);
  }
  void SetUp() override {
    to = map();
    ASSERT_NE(to, nullptr);
    const auto begin = reinterpret_cast<uint64_t>(to);
    if (!verbs::MappingWatch::of_this_process().watch(begin, begin + kBytes))
      GTEST_SKIP() << "this system has no userfaultfd for this user";
  }
  void TearDown() override {
    fake_nic_rules() = {};
    ::munmap(to, kBytes);
  }
  void turn() {
    writing->turn();
    reading->turn();
  }
  void await(Reader& reader) {
    writing->until([&] { return reading->turn(), reader.ready(); }, "a message");
  }
  std::unique_ptr<RankGroup> group;
  std::unique_ptr<TestRank> writing, reading;
  unsigned char* to = nullptr;
};

TEST_P(VerbsPosted, AMessageArrivesWhereItIsWanted) {
  Writer writer(*writing, 1, 0, 0);
  Reader reader(*reading, 0, 0);
  for (uint64_t m = 0; m < 20; ++m) {
    const Payload payload = payload_of(m, m < 5 ? verbs::kMaxPreposted - m * 4000 : 1 + m * 40000);
    const uint64_t offset = m * 13;
    reader.post(kTag, to + offset, payload.size());
    if (m < 5 || m % 2 == 0) {  // the writer knows the destination before it has the message
      for (int i = 0; i < 200; ++i) turn();
    }
    writer.write_zcopy(kTag, payload);
    await(reader);
    EXPECT_EQ(reader.at(), to + offset) << "message " << m << " was copied";
    reader.take(kTag, payload);
    writing->until([&] { return reading->turn(), writer.returned(); }, "the message's memory");
  }
}

TEST_P(VerbsPosted, OtherMessagesArriveElsewhere) {
  Writer writer(*writing, 1, 0, 200000);
  Reader reader(*reading, 0, 0);
  const Payload untouched(kBytes, 0);
  const std::pair<uint64_t, uint64_t> posted[] = {{kTag + 1, 200000}, {kTag, 200001}, {kTag, 199999}, {kTag, 300}};
  for (uint64_t m = 0; m < std::size(posted); ++m) {
    reader.post(posted[m].first, to, posted[m].second);
    for (int i = 0; i < 200; ++i) turn();
    writer.write(kTag, payload_of(m, 200000));
    await(reader);
    EXPECT_NE(reader.at(), to);
    reader.take(kTag, payload_of(m, 200000));
  }
  EXPECT_EQ(std::memcmp(to, untouched.data(), kBytes), 0);
  reader.post(kTag, to, 200000);
  writer.write(kTag, payload_of(9, 200000));
  await(reader);
  reader.take(kTag, payload_of(9, 200000));
}

TEST_P(VerbsPosted, MemoryThatIsFreedAndAllocatedAgainAtTheSameAddressGetsTheBytes) {
  Writer writer(*writing, 1, 0, 0);
  Reader reader(*reading, 0, 0);
  for (uint64_t m = 0; m < 10; ++m) {
    const Payload payload = payload_of(m, kBytes);
    reader.post(kTag, to, kBytes);
    writer.write_zcopy(kTag, payload);
    await(reader);
    EXPECT_EQ(reader.at(), to);
    reader.take(kTag, payload);
    writing->until([&] { return reading->turn(), writer.returned(); }, "the message's memory");
    ASSERT_EQ(map(to), to);
  }
}

TEST_P(VerbsPosted, MessagesOfEverySizeAreMixed) {
  Writer writer(*writing, 1, 0, 300000);
  Reader reader(*reading, 0, 0);
  const auto length = [](uint64_t m) { return m % 7 == 0 ? 300000 - m : m % 3 == 0 ? 40000 + m : m % 5 * 300; };
  uint64_t written = 0;
  for (uint64_t m = 0; m < 300; ++m) {
    if (m % 2 == 0) reader.post(m, to + m, length(m));
    while (written < std::min<uint64_t>(300, m + 3) &&
           writer.try_write(written, payload_of(written, length(written)))) {
      ++written;
    }
    await(reader);
    reader.take(m, payload_of(m, length(m)));
    ASSERT_FALSE(HasFailure());
  }
}

TEST_P(VerbsPosted, ADestinationThatCannotBeWatchedIsNotUsed) {
  const Fd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  void* const mapped = ::mmap(nullptr, 2 * verbs::kMaxPreposted, PROT_READ | PROT_WRITE, MAP_PRIVATE, file.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  Writer writer(*writing, 1, 0, 0);
  Reader reader(*reading, 0, 0);
  const Payload payload = payload_of(0, 2 * verbs::kMaxPreposted);
  reader.post(kTag, static_cast<unsigned char*>(mapped), payload.size());
  writer.write_zcopy(kTag, payload);
  await(reader);
  EXPECT_NE(reader.at(), mapped);
  reader.take(kTag, payload);
  writing->until([&] { return reading->turn(), writer.returned(); }, "the message's memory");
  ::munmap(mapped, 2 * verbs::kMaxPreposted);
}

INSTANTIATE_TEST_SUITE_P(Over, VerbsPosted,
                         testing::Values(Device{1, true, false}, Device{4, true, false}, Device{4, true, true},
                                         Device{1, false, false}, Device{3, false, true}));

}  // namespace
}  // namespace tutti::test
