// The transport verbs over a real device and kernel. Run in a virtual machine by tests/cluster/verbs/run.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "transports/conformance.hpp"
#include "transports/fixtures.hpp"

namespace tutti::test {
namespace {

struct VerbsThreads {
  static constexpr bool kProcesses = false;
  static constexpr uint64_t kMessages = 5000;
  static auto make(const transports::Context& context) { return make_by_name("verbs", context); }
};
struct VerbsProcesses : VerbsThreads {
  static constexpr bool kProcesses = true;
};
INSTANTIATE_TYPED_TEST_SUITE_P(Threads, Conformance, testing::Types<VerbsThreads>);
INSTANTIATE_TYPED_TEST_SUITE_P(Processes, Conformance, testing::Types<VerbsProcesses>);

constexpr uint64_t kMiB = 1 << 20;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Two processes, with a link in each direction.
template <class First, class Second>
void two_processes(const First& first, const Second& second, Rank victim = kNoRank) {
  RankGroup group(2, true);
  group.run(
      [&](Rank rank) {
        TestRank self(group, rank, VerbsProcesses::make);
        group.barrier();
        if (rank == 0) {
          first(self);
        } else {
          second(self);
        }
        if (victim == kNoRank) group.barrier();
      },
      victim);
}

TEST(VerbsDevice, CarriesManySmallMessages) {
  constexpr uint64_t kMessages = 100000;
  two_processes(
      [](TestRank& self) {
        Writer writer(self, 1, 0, 0);
        for (uint64_t m = 0; m < kMessages; ++m) writer.write(m, payload_of(m, m % 41));
        self.until([&] { return self.transport->flushed(); }, "the last bytes to leave");
      },
      [](TestRank& self) {
        Reader reader(self, 0, 0);
        for (uint64_t m = 0; m < kMessages && !testing::Test::HasFailure(); ++m) reader.read(m, payload_of(m, m % 41));
      });
}

/// A device sends the pages that it has registered, whatever is mapped at their address now.
TEST(VerbsDevice, SendsNewBytesFromMemoryThatWasFreedAndAllocatedAgainAtTheSameAddress) {
  constexpr int kRounds = 20;
  two_processes(
      [](TestRank& self) {
        Writer writer(self, 1, 0, 0);
        void* at = nullptr;
        for (int round = 0; round < kRounds; ++round) {
          const int fixed = at == nullptr ? 0 : MAP_FIXED_NOREPLACE;
          void* const memory = ::mmap(at, kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
          ASSERT_NE(memory, MAP_FAILED);
          ASSERT_TRUE(at == nullptr || memory == at);
          at = memory;
          std::memset(at, round + 1, kMiB);
          self.until([&] { return HostWire::can_publish(writer.link()); }, "room in a link");
          HostWire::publish_zcopy(writer.link(), 7, static_cast<unsigned char*>(at), kMiB);
          self.until([&] { return writer.returned(); }, "the message to be sent");
          ::munmap(at, kMiB);
        }
        self.until([&] { return self.transport->flushed(); }, "the last bytes to leave");
      },
      [](TestRank& self) {
        Reader reader(self, 0, 0);
        for (int round = 0; round < kRounds && !testing::Test::HasFailure(); ++round) {
          reader.read(7, Payload(kMiB, static_cast<unsigned char>(round + 1)));
        }
      });
}

/// The device writes a message to where its reader wants it, also to memory that is new at an old address.
TEST(VerbsDevice, WritesToWhereAMessageIsWanted) {
  constexpr int kRounds = 20;
  two_processes(
      [](TestRank& self) {
        Writer writer(self, 1, 0, 0);
        for (int round = 0; round < kRounds; ++round) {
          self.group.barrier([&] { self.turn(); });  // the reader has posted
          const Payload payload(kMiB, static_cast<unsigned char>(round + 1));
          writer.write_zcopy(7, payload);
          self.until([&] { return writer.returned(); }, "the message to be sent");
        }
        self.until([&] { return self.transport->flushed(); }, "the last bytes to leave");
      },
      [](TestRank& self) {
        Reader reader(self, 0, 0);
        void* at = nullptr;
        for (int round = 0; round < kRounds && !testing::Test::HasFailure(); ++round) {
          const int fixed = at == nullptr ? 0 : MAP_FIXED_NOREPLACE;
          void* const memory = ::mmap(at, kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
          ASSERT_NE(memory, MAP_FAILED);
          ASSERT_TRUE(at == nullptr || memory == at);
          at = memory;
          reader.post(7, static_cast<unsigned char*>(at), kMiB);
          self.group.barrier([&] { self.turn(); });
          self.until([&] { return reader.ready(); }, "a message");
          EXPECT_EQ(reader.at(), at) << "round " << round;
          reader.take(7, Payload(kMiB, static_cast<unsigned char>(round + 1)));
          ::munmap(at, kMiB);
        }
      });
}

/// Writes long messages until that fails. Returns the error.
Status write_until_failure(TestRank& self, Writer& writer, double limit) {
  const Payload payload = payload_of(0, kMiB);
  const Deadline deadline = Deadline::in(limit);
  while (!deadline.passed()) {
    if (HostWire::can_publish(writer.link())) HostWire::publish_zcopy(writer.link(), 0, payload.data(), kMiB);
    bool moved = false;
    if (Status status = self.transport->progress(moved); !status.ok()) return status;
  }
  return {};
}

TEST(VerbsDevice, NamesThePeerWhoseProcessWasKilled) {
  constexpr Rank kVictim = 1;
  two_processes(
      [](TestRank& self) {
        Writer writer(self, kVictim, 0, 0);
        const double begin = now();
        const Status status = write_until_failure(self, writer, kWaitLimit);
        EXPECT_EQ(status.code, Code::PeerFailed) << status.text;
        EXPECT_NE(status.text.find("rank 1"), std::string::npos) << status.text;
        std::printf("after %.1f s: %s\n", now() - begin, status.text.c_str());
      },
      [](TestRank& self) {
        Reader reader(self, 0, 0);
        for (int m = 0; m < 3; ++m) reader.read(0, payload_of(0, kMiB));
        std::raise(SIGKILL);
      },
      kVictim);
}

/// Of rdma0, its own: its addresses and routes go too. Of rdma1, the other end of the cable: it is pulled.
void set_link(const char* interface, const char* state) {
  const std::string command = fmt::format("ip link set {} {}", interface, state);
  ASSERT_EQ(std::system(command.c_str()), 0);
}
std::string port_state() {
  std::ifstream file("/sys/class/infiniband/rxe0/ports/1/state");
  std::string state;
  std::getline(file, state);
  return state;
}

TEST(VerbsDevice, LosesNothingWhenTheLinkComesBack) {
  constexpr uint64_t kMessages = 60, kBytes = 100000;
  two_processes(
      [](TestRank& self) {
        Writer writer(self, 1, 0, kBytes);
        for (uint64_t m = 0; m < kMessages; ++m) {
          writer.write(m, payload_of(m, kBytes));
          self.turn();
          if (m == 20) self.until([&] { return HostWire::refresh(writer.link()), writer.link().acked > 5; }, "a start");
          if (m == 20) set_link("rdma1", "down");
          if (m == 30) set_link("rdma1", "up");
        }
        self.until([&] { return self.transport->flushed(); }, "the last bytes to leave");
      },
      [](TestRank& self) {
        Reader reader(self, 0, 0);
        for (uint64_t m = 0; m < kMessages && !testing::Test::HasFailure(); ++m) reader.read(m, payload_of(m, kBytes));
      });
}

TEST(VerbsDevice, NamesThePeerWhenTheLinkStaysDown) {
  two_processes(
      [](TestRank& self) {
        Writer writer(self, 1, 0, 0);
        const Payload payload = payload_of(0, kMiB);
        writer.write_zcopy(0, payload);
        self.until([&] { return writer.returned(); }, "the first message to be sent");
        set_link("rdma0", "down");
        const double begin = now();
        const Status status = write_until_failure(self, writer, kWaitLimit);
        std::printf("after %.1f s (port: %s): %s\n", now() - begin, port_state().c_str(), status.text.c_str());
        set_link("rdma0", "up");
        EXPECT_EQ(status.code, Code::PeerFailed) << status.text;
        EXPECT_NE(status.text.find("rank 1"), std::string::npos) << status.text;
        EXPECT_NE(status.text.find("last event of rxe0:1: the port is"), std::string::npos) << status.text;
        self.transport.reset();  // as a communicator that has failed
      },
      [](TestRank& self) {
        Reader reader(self, 0, 0);
        try {
          while (!testing::Test::HasFailure()) {
            self.until([&] { return reader.ready(); }, "a message");
            reader.take(0, payload_of(0, kMiB));
          }
        } catch (const Error& error) {  // the peer has left
          std::printf("%s\n", error.what());
          EXPECT_NE(std::string(error.what()).find("rank 0"), std::string::npos) << error.what();
        }
      });
}

/// Half a round trip of 8 bytes, as ib_write_lat has it.
TEST(VerbsMeasure, Latency) {
  constexpr int kWarmUp = 200, kRounds = 2000;
  const auto play = [](TestRank& self, bool first) {
    Writer writer(self, 1 - self.rank, 0, 0);
    link::InLink in = self.transport->connect_in(1 - self.rank, 0, Deadline::in(kWaitLimit));
    std::vector<double> seconds;
    const unsigned char payload[8] = {};
    bool moved = false;
    for (int round = 0; round < kWarmUp + kRounds; ++round) {
      const double begin = now();
      const auto send = [&] {
        HostWire::publish_inline(writer.link(), 1, payload, sizeof payload);
        self.transport->progress(moved).throw_if_bad();
      };
      if (first) send();
      link::Header header{};
      link::Arrival arrival;
      while (HostWire::poll(in, header, arrival) == link::Poll::Empty) self.transport->progress(moved).throw_if_bad();
      HostWire::consume(in, arrival);
      if (!first) send();
      HostWire::refresh(writer.link());
      if (round >= kWarmUp) seconds.push_back(now() - begin);
    }
    self.until([&] { return self.transport->flushed(); }, "the last bytes to leave");
    std::nth_element(seconds.begin(), seconds.begin() + kRounds / 2, seconds.end());
    if (first) std::printf("median %.2f us\n", seconds[kRounds / 2] / 2 * 1e6);
  };
  two_processes([&](TestRank& self) { play(self, true); }, [&](TestRank& self) { play(self, false); });
}

/// Long messages, one after the other, into the reader's memory. An idle end sleeps, as perftest's receiver does.
TEST(VerbsMeasure, Bandwidth) {
  constexpr uint64_t kMessages = 100, kWarmUp = 8;
  two_processes(
      [](TestRank& self) {
        Writer writer(self, 1, 0, 0);
        const Payload payload = payload_of(0, kMiB);
        for (uint64_t m = 0; m < kWarmUp; ++m) writer.write_zcopy(0, payload);
        self.until([&] { return writer.returned(); }, "the first messages");
        const double begin = now();
        for (uint64_t m = 0; m < kMessages; ++m) writer.write_zcopy(0, payload);
        self.until([&] { return writer.returned(); }, "all messages");
        std::printf("streamed %.2f MiB/s\n", static_cast<double>(kMessages) / (now() - begin));
      },
      [](TestRank& self) {
        Reader reader(self, 0, 0);
        Payload to(kMiB);
        for (uint64_t m = 0; m < kWarmUp + kMessages; ++m) {
          reader.post(0, to.data(), to.size());
          self.until([&] { return reader.ready(); }, "a message");
          reader.drop();
        }
      });
}

}  // namespace
}  // namespace tutti::test
