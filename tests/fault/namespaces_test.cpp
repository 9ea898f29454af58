// Ranks in process-id namespaces of their own: each is process 1 in its namespace.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fault/job.hpp"
#include "tutti/tutti.h"

namespace tutti::fault {
namespace {

/// As user `root` of a user namespace, if this process may not create one otherwise.
bool new_namespaces() {
  constexpr int kNew = CLONE_NEWPID | CLONE_NEWNS;
  return unshare(kNew) == 0 || unshare(CLONE_NEWUSER | kNew) == 0;
}

/// Runs `body` in a process that is number 1 of its namespace; returns its exit status.
int as_first_process(int (*body)(const std::string&, test::Line&), const std::string& argument, test::Line& test,
                     bool hide_proc) {
  if (!new_namespaces()) return 97;
  const pid_t first = fork();
  if (first == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) _exit(96);
    if (hide_proc && mount("none", "/proc", "tmpfs", 0, nullptr) != 0) _exit(96);
    _exit(body(argument, test));
  }
  int status = 0;
  waitpid(first, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 95;
}

int live_without_proc(const std::string& argument, test::Line& test) {
  return as_first_process(live, argument, test, true);
}
int live_with_proc_of_outside(const std::string& argument, test::Line& test) {
  return as_first_process(live, argument, test, false);
}
const test::Role without_proc("ranks without /proc", live_without_proc);
const test::Role with_proc_of_outside("ranks with /proc of outside", live_with_proc_of_outside);

bool permitted() {
  const pid_t child = fork();
  if (child == 0) _exit(new_namespaces() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

class Namespaces : public testing::TestWithParam<const char*> {};

TEST_P(Namespaces, RanksThatAreAllProcess1JoinAndCompute) {
  if (!permitted()) GTEST_SKIP() << "new namespaces are not permitted here";
  Stage stage{"", 3, "TUTTI_TIMEOUT=20 TUTTI_INIT_TIMEOUT=20"};
  stage.role = GetParam();
  Job job(stage, [](int) { return "all_reduce 1000 f32 sum\nall_reduce 1000000 f32 sum\ndestroy"; });
  const auto results = job.finish(60);
  EXPECT_EQ(job.problem(), "");
  for (const Story& story : results) {
    ASSERT_EQ(story.size(), 4u);
    for (const LineResult& report : story) EXPECT_EQ(report.code, tuttiSuccess) << report.text;
  }
}
INSTANTIATE_TEST_SUITE_P(Process1, Namespaces, testing::Values("ranks without /proc", "ranks with /proc of outside"),
                         [](const auto& test) { return test.index == 0 ? "WithoutProc" : "WithProcOfOutside"; });

}  // namespace
}  // namespace tutti::fault
