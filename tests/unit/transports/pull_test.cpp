// Reading another process's memory.
#include "transports/pull.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <vector>

#include "transports/tracer.hpp"

namespace tutti::transports {
namespace {

void permit_parent() {
  const int parent[] = {getppid()};
  permit_pulling(parent);
}

/// A child process that has copies of this one's memory, changed, and waits to be killed.
class Child {
 public:
  explicit Child(const std::function<void()>& change) {
    int ready[2];
    if (pipe(ready) != 0) return;
    process_ = fork();
    if (process_ == 0) {
      change();
      if (write(ready[1], "x", 1) != 1) _exit(1);
      for (;;) pause();
    }
    char byte = 0;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
  }
  ~Child() {
    if (!killed_) kill_and_leave_zombie();
    waitpid(process_, nullptr, 0);
  }
  void kill_and_leave_zombie() {
    ::kill(process_, SIGKILL);
    siginfo_t end{};
    waitid(P_PID, static_cast<id_t>(process_), &end, WEXITED | WNOWAIT);
    killed_ = true;
  }
  int process() const { return process_; }

 private:
  pid_t process_ = -1;
  bool killed_ = false;
};

TEST(Pull, GetsWhatTheOtherProcessHas) {
  std::vector<unsigned char> memory(3000001, 1), got(memory.size());
  const Child child([&] {
    permit_parent();
    std::fill(memory.begin(), memory.end(), 7);
  });
  const int error = pull(child.process(), memory.data(), got.data(), got.size());
  if (error == EPERM || error == ENOSYS) GTEST_SKIP() << "the kernel does not permit it here";
  ASSERT_EQ(error, 0);
  EXPECT_EQ(std::count(got.begin(), got.end(), 7), 3000001);
  EXPECT_EQ(memory[0], 1);
}

TEST(Pull, SaysWhyNot) {
  unsigned char mine[8], theirs[8] = {};
  Child child([] { permit_parent(); });
  const int error = pull(child.process(), theirs, mine, sizeof mine);
  if (error == EPERM || error == ENOSYS) GTEST_SKIP() << "the kernel does not permit it here";
  constexpr size_t kPage = 4096;  // the second of two pages is not there: a pull across the border ends in the middle
  auto* const pages =
      static_cast<unsigned char*>(mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  munmap(pages + kPage, kPage);
  const Child with_hole([] { permit_parent(); });
  std::vector<unsigned char> room(2 * kPage);
  EXPECT_EQ(pull(with_hole.process(), pages, room.data(), kPage), 0);
  EXPECT_EQ(pull(with_hole.process(), pages, room.data(), 2 * kPage), EFAULT);
  EXPECT_EQ(pull(with_hole.process(), nullptr, room.data(), 8), EFAULT);
  munmap(pages, kPage);
  child.kill_and_leave_zombie();
  EXPECT_EQ(pull(child.process(), theirs, mine, sizeof mine), ESRCH);
}

}  // namespace
}  // namespace tutti::transports
