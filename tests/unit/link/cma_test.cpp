// Reading and writing another process's memory by CMA.
#include "link/cma.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <vector>

#include "transports/shm/tracer.hpp"

namespace tutti::link {
namespace {

void permit_parent() {
  const int parent[] = {getppid()};
  transports::permit_cma(parent, [](int) { return true; });
}

/// A child process with changed copies of this process's memory; it waits to be killed.
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

TEST(CmaRead, ReadsTheOtherProcess) {
  std::vector<unsigned char> memory(3000001, 1), got(memory.size());
  const Child child([&] {
    permit_parent();
    std::fill(memory.begin(), memory.end(), 7);
  });
  const int error = cma_read(child.process(), memory.data(), got.data(), got.size());
  if (error == EPERM || error == ENOSYS) GTEST_SKIP() << "the kernel does not permit it here";
  ASSERT_EQ(error, 0);
  EXPECT_EQ(std::count(got.begin(), got.end(), 7), 3000001);
  EXPECT_EQ(memory[0], 1);
}

TEST(CmaRead, ReturnsTheReasonOfAFailure) {
  unsigned char mine[8], theirs[8] = {};
  Child child([] { permit_parent(); });
  const int error = cma_read(child.process(), theirs, mine, sizeof mine);
  if (error == EPERM || error == ENOSYS) GTEST_SKIP() << "the kernel does not permit it here";
  constexpr size_t kPage = 4096;  // the second of two pages is unmapped: a read across the border ends in the middle
  auto* const pages =
      static_cast<unsigned char*>(mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  munmap(pages + kPage, kPage);
  const Child with_hole([] { permit_parent(); });
  std::vector<unsigned char> room(2 * kPage);
  EXPECT_EQ(cma_read(with_hole.process(), pages, room.data(), kPage), 0);
  EXPECT_EQ(cma_read(with_hole.process(), pages, room.data(), 2 * kPage), EFAULT);
  EXPECT_EQ(cma_read(with_hole.process(), nullptr, room.data(), 8), EFAULT);
  munmap(pages, kPage);
  child.kill_and_leave_zombie();
  EXPECT_EQ(cma_read(child.process(), theirs, mine, sizeof mine), ESRCH);
}

/// The gate is in the other process, at the same address in both, because one is the other's child.
TEST(CmaWrite, PassesAGateUntilItIsShut) {
  constexpr size_t kBytes = 300000;
  auto* const shared =
      static_cast<unsigned char*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const std::vector<unsigned char> from(kBytes, 7);
  CmaGate open, shut;
  ASSERT_NE(open.address(), 0u);
  const Child child([&] {
    permit_parent();
    shut.shut();
  });
  const int error = cma_write(child.process(), from.data(), shared, kBytes / 2, open.address());
  if (error == EPERM || error == ENOSYS) GTEST_SKIP() << "the kernel does not permit it here";
  ASSERT_EQ(error, 0);
  EXPECT_EQ(std::count(shared, shared + kBytes, 7), static_cast<ptrdiff_t>(kBytes / 2));
  EXPECT_EQ(cma_write(child.process(), from.data(), shared + kBytes / 2, kBytes / 2, shut.address()), EFAULT);
  EXPECT_EQ(std::count(shared, shared + kBytes, 7), static_cast<ptrdiff_t>(kBytes / 2))
      << "no byte passed the shut gate";
  EXPECT_EQ(cma_write(child.process(), from.data(), nullptr, 8, open.address()), EFAULT)
      << "the destination is not mapped";
  munmap(shared, kBytes);
}

TEST(CmaGate, ThatWasShutIsNeverWritableAgain) {
  uint64_t address = 0;
  {
    CmaGate gate;
    address = gate.address();
    gate.shut();
    gate.shut();
  }
  void* const there = mmap(reinterpret_cast<void*>(address), 1, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  EXPECT_EQ(there, MAP_FAILED) << "a new mapping there would be writable";
}

TEST(OtherProcess, IsInNoSystemCallWhenItIsStoppedOrGone) {
  Child child([] {});
  EXPECT_TRUE(may_be_in_kernel(getpid()));
  EXPECT_FALSE(is_gone(getpid()));
  EXPECT_TRUE(may_be_in_kernel(child.process()));
  ::kill(child.process(), SIGSTOP);
  siginfo_t stop{};
  waitid(P_PID, static_cast<id_t>(child.process()), &stop, WSTOPPED | WNOWAIT);
  EXPECT_FALSE(may_be_in_kernel(child.process()));
  EXPECT_FALSE(is_gone(child.process()));
  child.kill_and_leave_zombie();
  EXPECT_FALSE(may_be_in_kernel(child.process()));
  EXPECT_TRUE(is_gone(child.process()));
  waitpid(child.process(), nullptr, 0);
  EXPECT_FALSE(may_be_in_kernel(child.process()));
  EXPECT_TRUE(is_gone(child.process()));
}

}  // namespace
}  // namespace tutti::link
