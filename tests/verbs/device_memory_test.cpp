// Memory of a GPU, which reaches a device as a dmabuf. Here it is a memfd, mapped without access where the "GPU" has
// it: an access by the processor there is a SIGSEGV.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <memory>
#include <string>

#include "transports/ends.hpp"
#include "transports/verbs/engine.hpp"
#include "verbs/fake_nic.hpp"

namespace tutti::test {
namespace {

namespace verbs = transports::verbs;
using transports::MemoryUse;
using transports::verbs::Memory;

constexpr uint64_t kBytes = 1 << 20, kTag = 7;

/// The memory of the "GPU".
struct Gpu {
  Gpu() {
    EXPECT_EQ(::ftruncate(fd.get(), kBytes), 0);
    at = map(PROT_NONE);
    seen = map(PROT_READ | PROT_WRITE);
  }
  ~Gpu() {
    ::munmap(at, kBytes);
    ::munmap(seen, kBytes);
  }
  unsigned char* map(int protection) const {
    return static_cast<unsigned char*>(::mmap(nullptr, kBytes, protection, MAP_SHARED, fd.get(), 0));
  }
  const Fd fd{memfd_create("gpu", MFD_CLOEXEC)};
  unsigned char *at = nullptr, *seen = nullptr;  // `seen`: the same bytes, for the test
};
const Gpu& gpu() {
  static const Gpu kGpu;
  return kGpu;
}

verbs::ExportedMemory exported(const void* data, uint64_t bytes) {
  const auto offset = static_cast<uint64_t>(static_cast<const unsigned char*>(data) - gpu().at);
  if (offset >= kBytes) return {};
  Fd owner(::fcntl(gpu().fd.get(), F_DUPFD_CLOEXEC, 0));
  const verbs::DmaBuf buffer{owner.get(), offset, bytes, reinterpret_cast<uint64_t>(data)};
  return {.is_device = true, .buffer = buffer, .owner = std::move(owner)};
}
verbs::ExportedMemory not_exported(const void*, uint64_t) { return {.is_device = true, .buffer = {}, .owner = {}}; }

TEST(DeviceMemory, IsRegisteredAsADmaBufOrRefusedWithAReason) {
  fake_nic_rules() = {.dmabuf = true};
  const auto with = make_fake_nic();
  fake_nic_rules() = {};
  const auto without = make_fake_nic();
  unsigned char host[64];
  Memory good(*with, nullptr, 0, exported);
  auto held = good.acquire(gpu().at, 4096, MemoryUse::ReadWrite);
  const auto held_too = good.acquire(host, sizeof host, MemoryUse::Read);
  const auto found = good.find(gpu().at, 4096, verbs::RegionUse::Data);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->address, reinterpret_cast<uint64_t>(gpu().at));
  EXPECT_EQ(good.find_device(gpu().at + 1, 100), found);
  EXPECT_EQ(good.find_device(host, sizeof host), nullptr);
  const auto reason = [](Memory& memory) -> std::string {
    try {
      (void)memory.acquire(gpu().at, 4096, MemoryUse::Read);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::Unsupported);
      return error.what();
    }
    return "";
  };
  Memory old(*without, nullptr, 0, exported), silent(*with, nullptr, 0, not_exported);
  EXPECT_NE(reason(old).find("fake:1 cannot reach memory of a GPU: its driver registers no dmabuf"), std::string::npos);
  EXPECT_NE(reason(silent).find("the GPU's driver exports it as no dmabuf"), std::string::npos);
}

struct Links : testing::TestWithParam<uint32_t> {
  Links() {
    fake_nic_rules() = {.dmabuf = true};
    const auto make = [](const transports::Context& context) {
      return std::make_unique<verbs::Engine>(context, make_fake_nic(), GetParam(), "verbs", exported);
    };
    writing = std::make_unique<TestRank>(group, 0, make);
    reading = std::make_unique<TestRank>(group, 1, make);
  }
  ~Links() override { fake_nic_rules() = {}; }
  RankGroup group{2, false};
  std::unique_ptr<TestRank> writing, reading;
};

TEST_P(Links, SendFromItWithoutTouchingIt) {
  const auto held = writing->transport->register_memory(gpu().at, kBytes, MemoryUse::Read);
  Writer writer(*writing, 1, 0, 0);
  Reader reader(*reading, 0, 0);
  const uint64_t lengths[] = {0,
                              1,
                              8,
                              link::kInlineBytes,
                              link::kInlineBytes + 1,
                              100,
                              150,
                              220,
                              221,
                              4096,
                              verbs::kEager,
                              verbs::kEager + 1,
                              40000,
                              verbs::kMaxPreposted,
                              verbs::kMaxPreposted + 1,
                              300000};
  for (uint64_t m = 0; m < 3 * std::size(lengths); ++m) {
    const Payload payload = payload_of(m, lengths[m % std::size(lengths)]);
    const uint64_t offset = m * 4099;
    std::copy(payload.begin(), payload.end(), gpu().seen + offset);
    writing->until([&] { return HostWire::can_publish(writer.link()); }, "room in a link");
    HostWire::publish_zcopy(writer.link(), kTag, gpu().at + offset, payload.size());
    writing->until([&] { return reading->turn(), reader.ready(); }, "a message");
    reader.take(kTag, payload);
    writing->until([&] { return reading->turn(), writer.returned(); }, "the message's memory");
  }
}

TEST_P(Links, DeliverIntoItWithoutTouchingIt) {
  const auto held = reading->transport->register_memory(gpu().at, kBytes, MemoryUse::ReadWrite);
  Writer writer(*writing, 1, 0, 0);
  Reader reader(*reading, 0, 0);
  for (const uint64_t length : {verbs::kEager + 1, verbs::kMaxPreposted, uint64_t{500000}}) {
    const Payload payload = payload_of(length, length);
    reader.post(kTag, gpu().at + 11, length);
    for (int i = 0; i < 200; ++i) {
      writing->turn();
      reading->turn();
    }
    writer.write_zcopy(kTag, payload);
    writing->until([&] { return reading->turn(), reader.ready(); }, "a message");
    EXPECT_EQ(reader.at(), gpu().at + 11);
    EXPECT_TRUE(std::equal(payload.begin(), payload.end(), gpu().seen + 11));
    reader.drop();
    writing->until([&] { return reading->turn(), writer.returned(); }, "the message's memory");
  }
}

INSTANTIATE_TEST_SUITE_P(DeviceMemory, Links, testing::Values(1U, 4U));

}  // namespace
}  // namespace tutti::test
