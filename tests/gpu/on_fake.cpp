#include "on_fake.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <vector>

namespace tutti::test {
namespace {

constexpr const char* kInside = "ON_FAKE_TEST";
constexpr const char* kRole = "ON_FAKE_ROLE";
constexpr int kSocket = 3;

std::map<std::string, std::function<void(int)>>& roles() {
  static std::map<std::string, std::function<void(int)>> all;
  return all;
}

/// A process in a role never gets to the tests.
class PlayRole : public testing::Environment {
 public:
  void SetUp() override {
    const char* const role = std::getenv(kRole);
    if (role == nullptr) return;
    roles().at(role)(kSocket);
    std::fflush(nullptr);
    std::_Exit(testing::Test::HasFailure() ? 1 : 0);
  }
};
[[maybe_unused]] const auto* const registered = testing::AddGlobalTestEnvironment(new PlayRole);

// This program, in place of the process.
[[noreturn]] void start_again(const std::string& filter) {
  const std::string argument = "--gtest_filter=" + filter;
  setenv("FAKE_CUDA_TWINS", TUTTI_SAMPLE_TWINS, 0);
#if defined(__SANITIZE_THREAD__)
  const char* const options = std::getenv("TSAN_OPTIONS");
  setenv("TSAN_OPTIONS", (std::string(options == nullptr ? "" : options) + " atexit_sleep_ms=0").c_str(), 1);
#endif
  execl("/proc/self/exe", "gpu_test", argument.c_str(), static_cast<char*>(nullptr));
  std::_Exit(98);
}

}  // namespace

const char kImage[8] = {0x50, static_cast<char>(0xED), 0x55, static_cast<char>(0xBA), 0, 0, 0, 0};

bool inside() { return std::getenv(kInside) != nullptr; }

Ended run_again(const std::string& environment) {
  const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string name = std::string(test->test_suite_name()) + "." + test->name();
  int ends[2] = {-1, -1};
  if (pipe(ends) != 0) return {-1, "no pipe"};
  const pid_t process = fork();
  if (process == 0) {
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    close(ends[0]);
    close(ends[1]);
    std::istringstream variables(environment);
    for (std::string one; variables >> one;) {
      const size_t equals = one.find('=');
      setenv(one.substr(0, equals).c_str(), one.c_str() + equals + 1, 1);
    }
    setenv(kInside, "1", 1);
    start_again(name);
  }
  close(ends[1]);
  Ended ended;
  char text[4096];
  for (ssize_t got = 0; (got = read(ends[0], text, sizeof text)) > 0;) ended.output.append(text, got);
  close(ends[0]);
  waitpid(process, &ended.status, 0);
  return ended;
}

Role::Role(const char* name, std::function<void(int)> body) { roles()[name] = std::move(body); }

Other::Other(const std::string& role) {
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  process_ = fork();
  if (process_ == 0) {
    if (ends[1] == kSocket) {
      if (dup2(ends[1], kSocket + 20) < 0 || dup2(kSocket + 20, kSocket) < 0) std::_Exit(97);
    } else {
      dup2(ends[1], kSocket);
    }
    setenv(kRole, role.c_str(), 1);
    start_again("*");
  }
  close(ends[1]);
  socket_ = ends[0];
}

Other::~Other() {
  close(socket_);
  int status = 0;
  waitpid(process_, &status, 0);
  EXPECT_EQ(status, 0) << "the other process failed";
}

void send_bytes(int socket, const void* data, size_t bytes, int fd) {
  iovec part{const_cast<void*>(data), bytes};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  EXPECT_EQ(sendmsg(socket, &message, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
}

int receive_bytes(int socket, void* data, size_t bytes) {
  iovec part{data, bytes};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  EXPECT_EQ(recvmsg(socket, &message, MSG_WAITALL), static_cast<ssize_t>(bytes));
  int fd = -1;
  if (const cmsghdr* const header = CMSG_FIRSTHDR(&message); header != nullptr) {
    std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  }
  return fd;
}

void check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s failed: %d\n", call, static_cast<int>(result));
  std::_Exit(1);
}

Gpu::Gpu(int device) {
  CHECK_CUDA(cuInit(0));
  CHECK_CUDA(cuDevicePrimaryCtxRetain(&context, device));
  use();
  CHECK_CUDA(cuLibraryLoadData(&library, kImage, nullptr, nullptr, 0, nullptr, nullptr, 0));
}

CUfunction Gpu::kernel(const char* name) const {
  CUkernel kernel = nullptr;
  CHECK_CUDA(cuLibraryGetKernel(&kernel, library, name));
  return reinterpret_cast<CUfunction>(kernel);
}

CUstream new_stream(unsigned flags) {
  CUstream stream = nullptr;
  CHECK_CUDA(cuStreamCreate(&stream, flags));
  return stream;
}

}  // namespace tutti::test
