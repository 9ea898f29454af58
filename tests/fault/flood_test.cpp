// A job starts, without delay, while thousands of unauthenticated connections per second arrive at its port.
//
// The flood lasts 5 s; FLOOD_SECONDS=60 in the environment makes it as long as the promise. It goes only to 127.0.0.1
// of this host, and to the port that this test has opened.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/secret.hpp"
#include "base/socket.hpp"
#include "control/bootstrap/unique_id.hpp"
#include "fault/clock.hpp"
#include "support/child.hpp"
#include "tutti/tutti.hpp"

namespace tutti::fault {
namespace {

using test::Child;
using test::Line;

constexpr int kRate = 3000;         // connections per second
constexpr size_t kMaxOpen = 15000;  // of the flood's own, if its limit allows: more than any acceptor keeps
constexpr double kMoreSeconds = 2;  // that a start may take longer
#ifdef __SANITIZE_ADDRESS__
constexpr long kMoreMemory = 262144 + 32768;  // AddressSanitizer keeps 256 MiB of freed memory
#else
constexpr long kMoreMemory = 32768;  // KiB that a rank may take
#endif

double flood_seconds() {
  const char* text = std::getenv("FLOOD_SECONDS");
  return text != nullptr ? std::atof(text) : 5;
}

/// One connection of the flood: silent, with random bytes, or with a byte now and then.
struct Stranger {
  enum Kind { Silent, Garbage, Slow } kind;
  Fd fd;
  int sent = 0;

  void talk() {
    static const std::string kNoise = random_hex(100);
    if (kind == Garbage && sent == 0) sent = static_cast<int>(send_now(fd.get(), kNoise));
    if (kind == Slow && sent < 100) sent += static_cast<int>(send_now(fd.get(), kNoise.substr(0, 1)));
  }
  /// Leaves no state in the kernel: a minute of connections would use up every port number.
  ~Stranger() {
    const linger at_once{1, 0};
    if (fd) setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
  Stranger(Kind what, Fd with) : kind(what), fd(std::move(with)) {}
  Stranger(Stranger&&) = default;
  Stranger& operator=(Stranger&&) = default;
};

/// Argument: port, seconds. Sends "flooding" once it runs, and at the end the number of connections.
int flood(const std::string& argument, Line& test) {
  uint16_t port = 0;
  double seconds = 0;
  std::istringstream(argument) >> port >> seconds;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  const size_t max_open = std::min<size_t>(kMaxOpen, limit.rlim_cur - 100);
  std::deque<Stranger> open;
  const double start = now();
  long tried = 0, made = 0;
  bool report = false;
  while (now() - start < seconds) {
    for (const long due = static_cast<long>((now() - start) * kRate); tried < due; ++tried) {
      Fd fd = start_connect(Address::loopback(), port);
      if (!fd) continue;
      ++made;
      open.emplace_back(static_cast<Stranger::Kind>(tried % 3), std::move(fd));
      if (open.size() > max_open) open.pop_front();
    }
    for (size_t i = random_u64() % 64; i < open.size(); i += 64) open[i].talk();
    if (!report && now() - start > 0.5) report = (test.tell("flooding"), true);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  open.clear();
  test.tell(fmt::format("{} {}", tried, made));
  return 0;
}
const test::Role flooder("flood", flood);

/// The peak memory of this process in KiB.
long max_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::atol(line.c_str() + 6);
  }
  return 0;
}

/// A rank of one communicator after another. Argument: its rank. Lines: "make" an id, "join ID", "launch", "end".
int start_again_and_again(const std::string& argument, Line& test) {
  const int rank = std::atoi(argument.c_str());
  for (;;) {
    std::istringstream line(test.receive(600));
    std::string word, hex;
    line >> word >> hex;
    if (word == "make") {
      const auto id = Communicator::unique_id();
      test.tell(to_hex(id.bytes, sizeof id.bytes));
    } else if (word == "join" || word == "launch") {
      tuttiComm_t comm = nullptr;
      tuttiUniqueId id{};
      const bool given = from_hex(hex, id.bytes, sizeof id.bytes);
      const double start = now();
      float one = 1, sum = 0;
      tuttiResult_t result = given ? tuttiCommInitRank(&comm, 4, id, rank) : tuttiCommInitEnv(&comm);
      if (result == tuttiSuccess) result = tuttiAllReduce(&one, &sum, 1, tuttiFloat32, tuttiSum, comm, nullptr);
      const double seconds = now() - start;
      const std::string text = result != tuttiSuccess || sum != 4 ? tuttiGetLastError() : "";
      test.tell(fmt::format("{} {} {} {}", static_cast<int>(result), seconds, max_memory(), text));
      if (comm != nullptr) tuttiCommDestroy(comm);
    } else {
      return 0;
    }
  }
}
const test::Role starter("rank that starts again and again", start_again_and_again);

class Ranks {
 public:
  explicit Ranks(bool launched, uint16_t port) : launched_(launched) {
    for (int rank = 0; rank < 4; ++rank) {
      children_.emplace_back("rank that starts again and again", std::to_string(rank),
                             fmt::format("TUTTI_RANK={} TUTTI_SIZE=4 TUTTI_JOB=flooded TUTTI_KEY={} "
                                         "TUTTI_ROOT_ADDR=127.0.0.1 TUTTI_PORT={} TUTTI_TIMEOUT=30",
                                         rank, key_, port));
    }
  }
  ~Ranks() {
    for (Child& child : children_) child.tell("end");
    for (Child& child : children_) child.wait();
  }

  /// The port at which rank 0 accepts connections with an id.
  uint16_t port() {
    children_[0].tell("make");
    return control::UniqueId::from_hex(children_[0].receive()).port;
  }

  /// Starts a job; returns the seconds until its last rank has completed a call.
  double start() {
    std::string order = "launch";
    if (!launched_) {
      children_[0].tell("make");
      order = "join " + children_[0].receive();
    }
    for (Child& child : children_) child.tell(order);
    double longest = 0;
    for (Child& child : children_) {
      std::istringstream line(child.receive(90));
      int code = -1;
      double seconds = 0;
      long memory = 0;
      line >> code >> seconds >> memory;
      EXPECT_EQ(code, 0) << line.str();
      longest = std::max(longest, seconds);
      memory_ = std::max(memory_, memory);
    }
    return longest;
  }
  long memory() const { return memory_; }

 private:
  const bool launched_;
  const std::string key_ = random_hex(16);
  std::vector<Child> children_;
  long memory_ = 0;
};

/// A free port, most likely still free when it is used.
uint16_t free_port() { return port_of(listen_tcp(0).get()); }

class Flood : public testing::TestWithParam<bool> {};

TEST_P(Flood, OfConnectionsDelaysTheStartOfAJobByLessThanTwoSeconds) {
  const bool launched = GetParam();
  const uint16_t meeting = free_port();
  Ranks ranks(launched, meeting);
  double undisturbed = 0;
  for (int i = 0; i < 5; ++i) undisturbed = std::max(undisturbed, ranks.start());
  const long memory = ranks.memory();

  Child strangers("flood", fmt::format("{} {}", launched ? meeting : ranks.port(), flood_seconds()));
  ASSERT_EQ(strangers.receive(), "flooding");
  const double end = now() + flood_seconds() - 1;
  int starts = 0;
  double slowest = 0;
  for (; starts == 0 || (now() < end && !HasFailure()); ++starts) slowest = std::max(slowest, ranks.start());
  const std::string made = strangers.receive(90);
  EXPECT_LT(slowest, undisturbed + kMoreSeconds);
  EXPECT_LT(ranks.memory(), memory + kMoreMemory);
  const std::string seen = fmt::format(
      "{} starts in {:.3f} s at most, {:.3f} s undisturbed; {} KiB, {} undisturbed; {} "
      "connections tried and begun",
      starts, slowest, undisturbed, ranks.memory(), memory, made);
  RecordProperty("seen", seen);
  std::fprintf(stderr, "%s\n", seen.c_str());
}
INSTANTIATE_TEST_SUITE_P(At, Flood, testing::Values(true, false),
                         [](const auto& test) { return test.param ? "TheMeeting" : "TheIdsPort"; });

}  // namespace
}  // namespace tutti::fault
