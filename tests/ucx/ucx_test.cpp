// The conformance suite of links over UCX, what is left of a rank that dies, and strangers' messages.
#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "transports/conformance.hpp"
#include "transports/fixtures.hpp"

namespace tutti::test {
namespace {

struct UcxThreads {
  static constexpr bool kProcesses = false;
  static constexpr uint64_t kMessages = 20000;
  static auto make(const transports::Context& context) { return make_by_name("ucx", context); }
};
struct UcxProcesses : UcxThreads {
  static constexpr bool kProcesses = true;
};

#if !defined(__SANITIZE_THREAD__)
INSTANTIATE_TYPED_TEST_SUITE_P(Processes, Conformance, testing::Types<UcxProcesses>);
#endif
INSTANTIATE_TYPED_TEST_SUITE_P(Threads, Conformance, testing::Types<UcxThreads>);

TEST(Ucx, NamesTheWriterThatDies) {
  constexpr Rank kVictim = 0;
  constexpr uint64_t kLast = 5 << 19;
  RankGroup group(2, true);
  group.run(
      [&](Rank rank) {
        TestRank self(group, rank, UcxProcesses::make);
        group.barrier();
        if (rank == kVictim) {
          Writer writer(self, 1, 0, kLast);
          group.barrier();
          for (uint64_t m = 0; m < 5; ++m) writer.write(m, payload_of(m, m * 10));
          self.until([&] { return self.transport->flushed(); }, "the messages to leave");
          writer.write(5, payload_of(5, kLast));
          self.turn();
          std::raise(SIGKILL);
        }
        Reader reader(self, kVictim, 0);
        group.barrier();
        for (uint64_t m = 0; m < 5; ++m) reader.read(m, payload_of(m, m * 10));
        try {
          reader.read(5, payload_of(5, kLast));
          reader.read(6, {});
          ADD_FAILURE() << "nothing was noticed";
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), Code::PeerFailed) << error.what();
          EXPECT_NE(std::string(error.what()).find("rank 0"), std::string::npos) << error.what();
        }
      },
      kVictim);
}

TEST(Ucx, NamesTheReaderThatDies) {
  constexpr Rank kVictim = 1;
  RankGroup group(2, true);
  group.run(
      [&](Rank rank) {
        TestRank self(group, rank, UcxProcesses::make);
        group.barrier();
        if (rank == kVictim) {
          Reader reader(self, 0, 0);
          reader.read(0, payload_of(0, 70000));
          std::raise(SIGKILL);
        }
        Writer writer(self, kVictim, 0, 70000);
        try {
          for (uint64_t m = 0; m < 1000; ++m) writer.write(m, payload_of(m, 70000));
          ADD_FAILURE() << "nothing was noticed";
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), Code::PeerFailed) << error.what();
          EXPECT_NE(std::string(error.what()).find("rank 1"), std::string::npos) << error.what();
        }
      },
      kVictim);
}

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
