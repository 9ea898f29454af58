// Limits of the system: on descriptors, files and processes, and closed standard streams. Each is an error that names
// the limit and the process; none is a time-out, a signal or an internal error.
#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "fault/clock.hpp"
#include "fault/job.hpp"
#include "support/child.hpp"
#include "tutti/tutti.h"

namespace tutti::fault {
namespace {

using test::Child;
using test::Line;

constexpr size_t kMega = 1 << 20;

void limit(__rlimit_resource resource, rlim_t most) {
  rlimit now{};
  getrlimit(resource, &now);
  now.rlim_cur = std::min(most, now.rlim_max);
  setrlimit(resource, &now);
}

/// Opens descriptors until none is left; then closes `spare` of them.
void use_up_descriptors(size_t spare = 0) {
  limit(RLIMIT_NOFILE, 64);
  std::vector<int> all;
  for (int fd = 0; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) all.push_back(fd);
  for (; spare > 0; --spare, all.pop_back()) close(all.back());
}

void tell(Line& test, tuttiResult_t result) {
  test.tell(fmt::format("{} {}", static_cast<int>(result), result == tuttiSuccess ? "" : tuttiGetLastError()));
}

std::string hex_of(const tuttiUniqueId& id) {
  std::string text;
  for (const unsigned char byte : id.bytes) text += fmt::format("{:02x}", byte);
  return text;
}

tuttiUniqueId id_from(const std::string& hex) {
  tuttiUniqueId id;
  for (size_t i = 0; i < sizeof id.bytes; ++i) {
    id.bytes[i] = static_cast<unsigned char>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  }
  return id;
}

tuttiResult_t sum_of_ones(tuttiComm_t comm) {
  std::vector<int> data(100000, 1);
  const tuttiResult_t result =
      tuttiAllReduce(data.data(), data.data(), data.size(), tuttiInt32, tuttiSum, comm, nullptr);
  return result != tuttiSuccess || data.back() == 2 ? result : tuttiInternalError;
}

// ---- the children's work once they have the id. They send a result and its text, line by line.

void with_standard_streams_closed(int rank, const tuttiUniqueId& id, Line& test) {
  tuttiComm_t comm = nullptr;
  tell(test, tuttiCommInitRank(&comm, 2, id, rank));
  tell(test, sum_of_ones(comm));
  std::string taken;
  for (int fd = 0; fd <= 2; ++fd) {
    char target[256] = {};
    const ssize_t length = readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), target, sizeof target - 1);
    const bool passing = std::string(target).starts_with("/proc/");  // the file being read now
    if (length >= 0 && !passing) taken += fmt::format("{}: {} ", fd, target);
  }
  test.tell(taken.empty() ? "none" : taken);
  tell(test, sum_of_ones(comm));
  tell(test, tuttiCommDestroy(comm));
}

void with_small_files(int rank, const tuttiUniqueId& id, Line& test) {
  limit(RLIMIT_FSIZE, 65536);
  void* memory = nullptr;
  tell(test, tuttiMemAlloc(&memory, kMega));
  static_cast<char*>(memory)[kMega - 1] = 1;
  tell(test, tuttiMemFree(memory));
  tuttiComm_t comm = nullptr;
  tell(test, tuttiCommInitRank(&comm, 2, id, rank));
  struct sigaction action {};
  sigset_t blocked, pending;
  sigaction(SIGXFSZ, nullptr, &action);
  sigprocmask(SIG_BLOCK, nullptr, &blocked);
  sigpending(&pending);
  const bool as_before =
      action.sa_handler == SIG_DFL && !sigismember(&blocked, SIGXFSZ) && !sigismember(&pending, SIGXFSZ);
  test.tell(as_before ? "as before" : "changed");
}

void without_descriptors(int rank, const tuttiUniqueId& id, Line& test) {
  use_up_descriptors();
  tuttiComm_t comm = nullptr;
  const double start = now();
  tell(test, tuttiCommInitRank(&comm, 2, id, rank));
  test.tell(now() - start < 30 ? "soon" : "late");
}

/// Enough to reach its own rendezvous server, too few to accept others.
void without_descriptors_to_accept(int rank, const tuttiUniqueId& id, Line& test) {
  if (rank == 0) use_up_descriptors(2);
  test.tell("ready");
  test.receive();
  tuttiComm_t comm = nullptr;
  tell(test, tuttiCommInitRank(&comm, 2, id, rank));
}

void without_threads(int, const tuttiUniqueId&, Line& test) {
  rlimit before{};
  getrlimit(RLIMIT_NPROC, &before);
  limit(RLIMIT_NPROC, 1);
  // Limits do not apply to the superuser.
  if (geteuid() == 0 && (setgroups(0, nullptr) != 0 || setresuid(65534, 65534, 65534) != 0)) return;
  tuttiStream_t stream = nullptr;
  tuttiUniqueId id;
  tuttiComm_t comms[3];
  tell(test, tuttiStreamCreate(&stream));
  tell(test, tuttiGetUniqueId(&id));
  setrlimit(RLIMIT_NPROC, &before);
  tell(test, tuttiGetUniqueId(&id));
  limit(RLIMIT_NPROC, 1);
  tell(test, tuttiCommInitAll(comms, 3));
  setrlimit(RLIMIT_NPROC, &before);
  tell(test, tuttiStreamCreate(&stream));
  tell(test, tuttiCommInitAll(comms, 3));
}

/// Allocates many blocks of memory; reports how many descriptors are left.
void with_much_memory(int, const tuttiUniqueId&, Line& test) {
  limit(RLIMIT_NOFILE, 64);
  for (int i = 0; i < 100; ++i) {
    void* memory = nullptr;
    if (tuttiMemAlloc(&memory, 16384) != tuttiSuccess) return tell(test, tuttiSystemError);
    static_cast<char*>(memory)[16383] = 1;
  }
  int opened = 0;
  std::vector<int> all;
  for (; opened < 8; ++opened) all.push_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  test.tell(all.back() >= 0 ? "left" : "none left");
  for (const int fd : all) close(fd);
  tuttiComm_t comm = nullptr;
  tell(test, tuttiCommInitAll(&comm, 1));
}

const std::map<std::string, void (*)(int, const tuttiUniqueId&, Line&)>& scenes() {
  static const std::map<std::string, void (*)(int, const tuttiUniqueId&, Line&)> all{
      {"streams-closed", with_standard_streams_closed},
      {"small-files", with_small_files},
      {"no-descriptors", without_descriptors},
      {"no-descriptors-to-accept", without_descriptors_to_accept},
      {"no-threads", without_threads},
      {"much-memory", with_much_memory},
  };
  return all;
}

/// Argument: scene, rank, "exchange_unique_id" if there is an id.
int live(const std::string& argument, Line& test) {
  std::string scene, exchange_unique_id;
  int rank = 0;
  std::istringstream(argument) >> scene >> rank >> exchange_unique_id;
  if (scene == "streams-closed") {
    for (int fd = 0; fd <= 2; ++fd) close(fd);
  }
  tuttiUniqueId id{};
  if (!exchange_unique_id.empty() && rank == 0) {
    if (tuttiGetUniqueId(&id) != tuttiSuccess) return 2;
    test.tell(hex_of(id));
  } else if (!exchange_unique_id.empty()) {
    id = id_from(test.receive());
  }
  scenes().at(scene)(rank, id, test);
  return 0;
}
const test::Role role("limited", live);

/// Two ranks in one scene.
struct Two {
  explicit Two(const std::string& scene, const std::string& environment = "")
      : first("limited", scene + " 0 exchange_unique_id", environment),
        second("limited", scene + " 1 exchange_unique_id", environment) {
    second.tell(first.receive());
  }
  Child first, second;
};

void expect_words(const std::string& report, tuttiResult_t code, const std::vector<std::string>& words) {
  EXPECT_EQ(report.substr(0, report.find(' ')), std::to_string(static_cast<int>(code))) << report;
  for (const std::string& word : words) EXPECT_NE(report.find(word), std::string::npos) << word << " in: " << report;
}

std::string host() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

class StandardStreams : public testing::TestWithParam<const char*> {};

TEST_P(StandardStreams, ThatAreClosedAreNotTheLibrarysSockets) {
  Two two("streams-closed", fmt::format("TUTTI_TRANSPORT={}", GetParam()));
  for (Child* child : {&two.first, &two.second}) {
    expect_words(child->receive(), tuttiSuccess, {});
    expect_words(child->receive(), tuttiSuccess, {});
    EXPECT_EQ(child->receive(), "none") << "what the program prints goes there";
    expect_words(child->receive(), tuttiSuccess, {});
    expect_words(child->receive(), tuttiSuccess, {});
    EXPECT_EQ(child->wait(), 0);
  }
}
INSTANTIATE_TEST_SUITE_P(Over, StandardStreams, testing::Values("shm", "tcp"),
                         [](const auto& one) { return std::string(one.param); });

TEST(Limit, OnFilesIsAnErrorAndNoSignal) {
  Two two("small-files");
  for (int rank = 0; rank < 2; ++rank) {
    Child& child = rank == 0 ? two.first : two.second;
    expect_words(child.receive(), tuttiSuccess, {});  // ordinary memory, which does as well
    expect_words(child.receive(), tuttiSuccess, {});
    expect_words(child.receive(), tuttiSystemError, {"ulimit -f", "65536", "TUTTI_ARENA", host()});
    EXPECT_EQ(child.receive(), "as before");
    EXPECT_EQ(child.wait(), 0);
  }
}

TEST(Limit, OnDescriptorsIsReportedAtOnce) {
  Two two("no-descriptors", "TUTTI_INIT_TIMEOUT=60");
  for (int rank = 0; rank < 2; ++rank) {
    Child& child = rank == 0 ? two.first : two.second;
    expect_words(child.receive(), tuttiSystemError,
                 {fmt::format("rank {} of 2", rank), host(), "Too many open files", "ulimit -n", "64"});
    EXPECT_EQ(child.receive(), "soon");
    EXPECT_EQ(child.wait(), 0);
  }
}

/// Waits until a process has this many descriptors in use.
bool await_descriptors(pid_t process, ptrdiff_t count) {
  const std::filesystem::directory_iterator end;
  for (const double start = now(); now() - start < 10;) {
    std::error_code gone;
    if (std::distance(std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", process), gone), end) >= count) {
      return true;
    }
  }
  return false;
}

TEST(Limit, OnDescriptorsOfTheAcceptorIsReportedAtBothEnds) {
  Two two("no-descriptors-to-accept", "TUTTI_INIT_TIMEOUT=3");
  EXPECT_EQ(two.first.receive(), "ready");
  EXPECT_EQ(two.second.receive(), "ready");
  two.first.tell("go");
  EXPECT_TRUE(await_descriptors(two.first.process(), 64)) << "rank 0 is at its own rendezvous server";
  two.second.tell("go");
  const std::string second = two.second.receive();
  // Refused connections say the first. If rank 0's time is over before rank 1's, its server has room again, and says
  // why the job has ended.
  const bool refused = second.find("no file descriptor left") != std::string::npos;
  expect_words(second, tuttiSystemError,
               {"rank 1 of 2", refused ? "no file descriptor left" : "could not accept connections", "ulimit -n"});
  expect_words(two.first.receive(), tuttiSystemError,
               {"rank 0 of 2", "missing: rank 1", "could not accept connections", "Too many open files"});
  EXPECT_EQ(two.first.wait(), 0);
  EXPECT_EQ(two.second.wait(), 0);
}

TEST(Limit, OnDescriptorsLeavesAReserveThatMemoryDoesNotTake) {
  Child child("limited", "much-memory 0", "TUTTI_LOG=off");
  EXPECT_EQ(child.receive(), "left");
  expect_words(child.receive(), tuttiSuccess, {});
  EXPECT_EQ(child.wait(), 0);
}

TEST(Limit, OnProcessesIsASystemErrorThatNamesIt) {
  Child child("limited", "no-threads 0", "TUTTI_INIT_TIMEOUT=60");
  const std::string first = child.receive();
  if (first == "(nothing)") GTEST_SKIP() << "the superuser of this place cannot become another user";
  expect_words(first, tuttiSystemError, {"cannot start a thread", "ulimit -u", "pids.max", host()});
  expect_words(child.receive(), tuttiSystemError, {"cannot start a thread", "ulimit -u", host()});
  expect_words(child.receive(), tuttiSuccess, {});
  expect_words(child.receive(10), tuttiSystemError, {"cannot start a thread"});
  expect_words(child.receive(), tuttiSuccess, {});
  expect_words(child.receive(), tuttiSuccess, {});
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace tutti::fault
