// Registered memory: the transport of a module, found by the library as users' are.
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "modules/registrations.hpp"
#include "transports/ends.hpp"
#include "transports/fixtures.hpp"

namespace tutti::test {
namespace {

/// Before the environment is read.
[[maybe_unused]] const int in_environment =
    ::setenv("TUTTI_MODULES", "push", 1) + ::setenv("TUTTI_MODULE_PATH", TUTTI_TEST_MODULES, 1);

using transports::MemoryUse;
using transports::Registration;

struct PushThreads {
  static constexpr bool kProcesses = false;
  static constexpr uint64_t kMessages = 100000;
  static auto make(const transports::Context& context) { return make_by_name("push", context); }
};

/// A rank's transport, and memory to register.
template <class Fixture>
struct Registering {
  Registration acquire(size_t first, size_t bytes, MemoryUse use = MemoryUse::ReadWrite) {
    return self.transport->register_memory(memory.data() + first, bytes, use);
  }
  RankGroup group{2, false};
  TestRank self{group, 0, [](const transports::Context& context) { return Fixture::make(context); }};
  std::vector<unsigned char> memory = std::vector<unsigned char>(1000);
};

TEST(RegisterMemory, IsNotNeededWhereTheHostMovesTheBytes) {
  EXPECT_EQ(Registering<LocalThreads>().acquire(0, 100), nullptr);
  EXPECT_EQ(Registering<ShmThreads>().acquire(0, 100), nullptr);
  EXPECT_EQ(Registering<TcpThreads>().acquire(0, 100), nullptr);
}

TEST(RegisterMemory, FindsWhatIsRegistered) {
  Registering<PushThreads> device;
  const Registration first = device.acquire(0, 500);
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(device.acquire(0, 500), first);
  EXPECT_EQ(device.acquire(100, 400), first);
  EXPECT_NE(device.acquire(100, 401), first) << "reaches beyond it";
  const Registration read = device.acquire(600, 100, MemoryUse::Read);
  EXPECT_EQ(device.acquire(600, 100, MemoryUse::Read), read);
  EXPECT_NE(device.acquire(600, 100, MemoryUse::ReadWrite), read);
}

TEST(RegisterMemory, KeepsWhatIsInUseAndNoMoreThanTheDeviceHolds) {
  constexpr size_t kEntries = transports::push::Registrations::kEntries;
  Registering<PushThreads> device;
  std::vector<Registration> held;
  for (size_t i = 0; i < 3 * kEntries; ++i) device.acquire(i, 1);  // released at once: there is always room
  for (size_t i = 0; i < kEntries; ++i) held.push_back(device.acquire(500 + i, 1));
  try {
    device.acquire(0, 7);
    FAIL() << "a registration too many";
  } catch (const Error& error) {  // thrown in the module
    EXPECT_EQ(error.code(), Code::OutOfMemory);
    EXPECT_NE(std::string(error.what()).find("push cannot register 7 bytes: all 16 registrations"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(device.acquire(500, 1), held[0]);
  held.pop_back();
  EXPECT_NE(device.acquire(0, 7), nullptr);
}

TEST(RegisterMemory, IsPassedOnByTheFaultTransport) {
  Registering<Faulty<PushThreads>> device;
  const Registration held = device.acquire(0, 500);
  EXPECT_NE(held, nullptr);
  EXPECT_EQ(device.acquire(1, 2), held);
}

}  // namespace
}  // namespace tutti::test
