// The conformance suite of links over UCX, what is left of a rank that dies, and messages from unknown peers.
#include <gtest/gtest.h>

#include "transports/conformance.hpp"
#include "transports/fixtures.hpp"
#include "transports/killed.hpp"

namespace tutti::test {
namespace {

struct UcxThreads {
  static constexpr bool kProcesses = false;
  static constexpr uint64_t kMessages = 20000;
  static constexpr const char* kGivesUp = "UCX cannot go on";  // UCX 1.13 may, when an endpoint closes under way
  static auto make(const transports::Context& context) { return make_by_name("ucx", context); }
};
struct UcxProcesses : UcxThreads {
  static constexpr bool kProcesses = true;
  static constexpr bool kWire = true;
  static constexpr bool kNamesTheDead = true;
};

#if !defined(__SANITIZE_THREAD__)
INSTANTIATE_TYPED_TEST_SUITE_P(Processes, Conformance, testing::Types<UcxProcesses>);
#endif
INSTANTIATE_TYPED_TEST_SUITE_P(Threads, Conformance, testing::Types<UcxThreads>);

INSTANTIATE_TYPED_TEST_SUITE_P(Ucx, Killed, testing::Types<UcxProcesses>);

/// A stopped engine reads no user memory, and its memory may go.
TEST(Ucx, StopsWithSendsUnderWay) {
  RankGroup group(2, true);
  group.run([&](Rank rank) {
    TestRank self(group, rank, UcxProcesses::make);
    group.barrier();
    if (rank == 0) {
      Writer writer(self, 1, 0, 0);
      Payload payload = payload_of(0, 8 << 20);
      writer.write(0, {});
      self.until([&] { return self.transport->flushed(); }, "the first message");
      writer.write_zcopy(1, payload);
      for (int turn = 0; turn < 20; ++turn) self.turn();
      self.transport->stop();
      EXPECT_TRUE(writer.returned());
      EXPECT_TRUE(self.transport->flushed());
      payload = {};
      group.barrier();
      self.transport.reset();
      group.barrier();
    } else {
      Reader reader(self, 0, 0);
      reader.read(0, {});
      group.barrier();
      group.barrier();
      EXPECT_THROW(reader.read(1, {}), Error);
    }
  });
}

}  // namespace
}  // namespace tutti::test
