// Strangers at UCX's own port, garbage from a peer, and what UCX would abort the process for.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "base/secret.hpp"
#include "base/socket.hpp"
#include "transports/ends.hpp"
#include "transports/fixtures.hpp"
#include "transports/ucx/wire.hpp"

namespace tutti::test {
namespace {

namespace fs = std::filesystem;
namespace ucx = transports::ucx;

auto make(const transports::Context& context) { return make_by_name("ucx", context); }

/// Descriptors of this process whose file has a name like this, by number, with the rest of the name.
std::map<int, std::string> descriptors(const std::string& begin) {
  std::map<int, std::string> found;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code none;
    const std::string name = fs::read_symlink(entry.path(), none).string();
    if (name.rfind(begin, 0) == 0) found[std::stoi(entry.path().filename())] = name.substr(begin.size());
  }
  return found;
}

/// The TCP ports at which this process listens.
std::set<uint16_t> listening_ports() {
  std::set<std::string> sockets;
  for (const auto& [fd, name] : descriptors("socket:[")) sockets.insert(name.substr(0, name.find(']')));
  std::set<uint16_t> ports;
  std::ifstream table("/proc/self/net/tcp");
  std::string line, number, local, remote, state, skipped, inode;
  for (std::getline(table, line); std::getline(table, line);) {
    std::istringstream words(line);
    words >> number >> local >> remote >> state >> skipped >> skipped >> skipped >> skipped >> skipped >> inode;
    if (state == "0A" && sockets.contains(inode))
      ports.insert(static_cast<uint16_t>(std::stoul(local.substr(local.find(':') + 1), nullptr, 16)));
  }
  return ports;
}

/// What strangers send first. `speak`: after what UCX's tcp begins a connection with.
std::vector<std::string> attacks(bool speak) {
  const std::string noise = random_hex(4096);
  if (!speak) return {"", "x", noise, "GET / HTTP/1.0\r\n\r\n", std::string(1 << 20, '\0')};
  const uint64_t magic = 0xCAFEBABE12345678;
  const std::string known(reinterpret_cast<const char*>(&magic), sizeof magic);
  const std::string long_header("\x01\xff\xff\xff\x7f", 5), unknown_id("\x7f\x08\x00\x00\x00", 5);
  return {known, known + "x", known + noise, known + long_header + noise, known + unknown_id + noise};
}

/// Keeps connections to all ports, each with an attack, and sends one byte more on each now and then.
class Strangers {
 public:
  Strangers(std::set<uint16_t> ports, bool speak)
      : ports_(std::move(ports)), speak_(speak), thread_([this] { attack(); }) {}
  ~Strangers() {
    over_ = true;
    thread_.join();
  }

 private:
  void attack() {
    std::vector<Fd> kept;
    for (int round = 0; round < 3 || !over_; ++round) {
      for (const uint16_t port : ports_) {
        for (const std::string& bytes : attacks(speak_)) {
          Fd fd = start_connect(Address::loopback(), port);
          if (!fd) continue;
          pollfd connected{fd.get(), POLLOUT, 0};
          if (::poll(&connected, 1, 1000) == 1) (void)send_now(fd.get(), bytes);
          if (round % 2 == 0) kept.push_back(std::move(fd));
        }
      }
      for (const Fd& fd : kept) (void)send_now(fd.get(), "y");
      if (kept.size() > 200) kept.clear();
    }
  }

  const std::set<uint16_t> ports_;
  const bool speak_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

/// Two ranks exchange messages while strangers attack.
void exchange_under_attack(TestRank& self, const std::set<uint16_t>& ports, bool speak) {
  constexpr uint64_t kMessages = 400;
  const auto length = [](uint64_t m) { return m % 10 == 0 ? uint64_t{300000} : m * 37 % 9000; };
  EXPECT_FALSE(ports.empty()) << "UCX listens nowhere";
  const Strangers strangers(ports, speak);
  self.group.barrier();
  Writer writer(self, 1 - self.rank, 0, 300000, 0.5);
  Reader reader(self, 1 - self.rank, 0);
  uint64_t written = 0, read = 0;
  self.until(
      [&] {
        while (written < kMessages && writer.try_write(written, payload_of(written, length(written)))) ++written;
        for (; read < kMessages && reader.ready(); ++read) reader.take(read, payload_of(read, length(read)));
        return (written == kMessages && read == kMessages && self.transport->flushed()) || testing::Test::HasFailure();
      },
      "all messages");
}

/// UCX does not authenticate who connects to it. Strangers who do not speak its protocol are turned away; others may
/// end the links, but not the process.
struct UcxStrangers : testing::TestWithParam<bool> {};

TEST_P(UcxStrangers, AtItsPortDisturbNothingOrAreAClearError) {
  const bool speak = GetParam();
  ::setenv("UCX_TLS", "tcp,self", 1);
  ::setenv("UCX_LOG_LEVEL", "fatal", 1);
  RankGroup group(2, true);
  group.run([&](Rank rank) {
    const std::set<uint16_t> before = listening_ports();
    TestRank self(group, rank, make);
    std::set<uint16_t> ports = listening_ports();
    for (const uint16_t port : before) ports.erase(port);
    try {
      exchange_under_attack(self, ports, speak);
      if (!speak) group.barrier([&] { self.turn(); });
    } catch (const Error& error) {
      EXPECT_TRUE(speak) << error.what();
      const bool gave_up = std::string(error.what()).find("UCX cannot go on, as it reports:") != std::string::npos;
      EXPECT_TRUE(gave_up || error.code() == Code::PeerFailed) << error.what();
      self.transport->stop();
    }
  });
  ::unsetenv("UCX_LOG_LEVEL");
  ::unsetenv("UCX_TLS");
}
INSTANTIATE_TEST_SUITE_P(Of, UcxStrangers, testing::Bool());

/// Replaces UCX's sets of descriptors: it asserts that it can add to them when it connects, and would abort.
TEST(UcxHostile, WhatUcxWouldAbortForIsAnError) {
  ::setenv("UCX_TLS", "tcp,self", 1);
  ::setenv("UCX_LOG_LEVEL", "fatal", 1);
  RankGroup group(2, true);
  group.run([&](Rank rank) {
    const auto before = descriptors("anon_inode:[eventpoll]");
    TestRank self(group, rank, make);
    group.barrier();
    if (rank == 1) {
      Reader reader(self, 0, 0);
      EXPECT_THROW(reader.read(0, payload_of(0, 8)), Error);
      return;
    }
    const Fd other(::open("/dev/null", O_RDWR | O_CLOEXEC));
    for (const auto& [fd, name] : descriptors("anon_inode:[eventpoll]")) {
      if (before.contains(fd)) continue;
      ASSERT_EQ(::dup3(other.get(), fd, O_CLOEXEC), fd);
    }
    Writer writer(self, 1, 0, 8192);
    try {
      writer.write(0, payload_of(0, 8));
      self.until([&] { return self.transport->flushed(); }, "an error");
      ADD_FAILURE() << "UCX went on";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::SystemError) << error.what();
      EXPECT_NE(std::string(error.what()).find("UCX cannot go on, as it reports: "), std::string::npos) << error.what();
    }
    self.transport->stop();
    EXPECT_TRUE(self.transport->flushed());
  });
  ::unsetenv("UCX_LOG_LEVEL");
  ::unsetenv("UCX_TLS");
}

TEST(UcxHostile, TheProgramsSignalHandlersAreItsOwn) {
  constexpr std::array kSignals = {SIGSEGV, SIGILL, SIGBUS, SIGFPE, SIGABRT};
  const auto handlers = [&] {
    std::array<sighandler_t, kSignals.size()> all{};
    for (size_t i = 0; i < all.size(); ++i) {
      struct sigaction now {};
      EXPECT_EQ(::sigaction(kSignals[i], nullptr, &now), 0);
      all[i] = now.sa_handler;
    }
    return all;
  };
  const auto before = handlers();
  (void)transports::transports();  // loads the module
  EXPECT_EQ(handlers(), before);
}

TEST(UcxHostile, GarbageOnTheStreamIsAnErrorThatNamesThePeer) {
  const auto hello = [](uint64_t magic, uint32_t address_bytes) {
    const ucx::Hello bytes{.magic = magic, .token = 1, .end = 0, .address_bytes = address_bytes};
    return std::string(reinterpret_cast<const char*>(&bytes), sizeof bytes);
  };
  const std::string all[] = {
      std::string(sizeof(ucx::Hello), 'x'),
      hello(1, 100),
      hello(ucx::Hello::kMagic, 0),
      hello(ucx::Hello::kMagic, ucx::kMaxAddress + 1),
      hello(ucx::Hello::kMagic, ~0u),
      "short",
      hello(ucx::Hello::kMagic, 100).append("too few"),
  };
  for (const std::string& bytes : all) {
    RankGroup group(2, false);
    TestRank mine(group, 0, make), victim(group, 1, make);
    Reader reader(victim, 0, 0);
    Fd stream = mine.wireup.open_stream(1, "ucx:0", Deadline::in(kWaitLimit));
    for (const char byte : bytes) ASSERT_EQ(::send(stream.get(), &byte, 1, MSG_NOSIGNAL), 1);
    if (bytes.size() != sizeof(ucx::Hello)) stream.reset();
    try {
      victim.until([&] { return reader.ready(); }, "an error");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), bytes.size() == sizeof(ucx::Hello) ? Code::ProtocolError : Code::PeerFailed);
      EXPECT_NE(std::string(error.what()).find("from rank 0"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace tutti::test
