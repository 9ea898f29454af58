#include "topo/cgroup.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

namespace tutti {
namespace {

/// A temporary /proc and /sys.
struct AvailableMemory : testing::Test {
  AvailableMemory() { std::filesystem::create_directories(root); }
  ~AvailableMemory() override { std::filesystem::remove_all(root); }

  void put(const std::string& file, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root + file).parent_path());
    std::ofstream(root + file) << text;
  }
  uint64_t available() { return available_memory(root); }

  const std::string root =
      testing::TempDir() + "/available-" + testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(AvailableMemory, IsWhatTheMachineHasWhereNothingElseLimits) {
  put("/proc/meminfo", "MemTotal:  1000 kB\nMemAvailable:    600 kB\n");
  EXPECT_EQ(available(), 600u * 1024);
  put("/proc/self/cgroup", "0::/a/b\n");
  put("/sys/fs/cgroup/a/b/memory.max", "max\n");
  put("/sys/fs/cgroup/a/b/memory.current", "5000\n");
  EXPECT_EQ(available(), 600u * 1024);
}

TEST_F(AvailableMemory, IsWhatTheTightestGroupAboveLeaves) {
  put("/proc/meminfo", "MemAvailable:    600 kB\n");
  put("/proc/self/cgroup", "0::/a/b\n");
  put("/sys/fs/cgroup/a/memory.max", "100000\n");
  put("/sys/fs/cgroup/a/memory.current", "90000\n");
  put("/sys/fs/cgroup/a/b/memory.max", "50000\n");
  put("/sys/fs/cgroup/a/b/memory.current", "10000\n");
  EXPECT_EQ(available(), 10000u);
  put("/sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 20000\nactive_file 5000\n");  // cache can be reclaimed
  EXPECT_EQ(available(), 35000u);
  put("/sys/fs/cgroup/a/b/memory.current", "60000\n");
  EXPECT_EQ(available(), 0u);
}

TEST_F(AvailableMemory, KnowsTheLimitOfAContainerThatSeesItselfAsRoot) {
  put("/proc/self/cgroup", "0::/\n");
  put("/sys/fs/cgroup/memory.max", "4096\n");
  put("/sys/fs/cgroup/memory.current", "96\n");
  EXPECT_EQ(available(), 4000u);
}

TEST_F(AvailableMemory, HasALimitThatDoesNotDependOnItsUse) {
  EXPECT_EQ(memory_limit(root), std::numeric_limits<uint64_t>::max());
  put("/proc/self/cgroup", "0::/a/b\n");
  put("/sys/fs/cgroup/a/memory.max", "100000\n");
  put("/sys/fs/cgroup/a/b/memory.max", "max\n");
  put("/sys/fs/cgroup/a/b/memory.current", "10000\n");
  EXPECT_EQ(memory_limit(root), 100000u);
  put("/sys/fs/cgroup/a/b/memory.max", "5000\n");
  EXPECT_EQ(memory_limit(root), 5000u);
  put("/proc/self/cgroup", "3:memory:/old\n");  // version 1
  put("/sys/fs/cgroup/memory/old/memory.limit_in_bytes", "4096\n");
  EXPECT_EQ(memory_limit(root), 4096u);
  put("/sys/fs/cgroup/memory/old/memory.limit_in_bytes", "9223372036854771712\n");  // its way to say "none"
  EXPECT_EQ(memory_limit(root), std::numeric_limits<uint64_t>::max());
}

TEST_F(AvailableMemory, HasTasksBesideItThatGroupsMayLimitToo) {
  EXPECT_EQ(tasks_left(root), std::numeric_limits<uint64_t>::max());
  put("/proc/self/cgroup", "8:pids:/x/y\n0::/\n");
  put("/sys/fs/cgroup/pids/x/pids.max", "100\n");
  put("/sys/fs/cgroup/pids/x/pids.current", "30\n");
  put("/sys/fs/cgroup/pids/x/y/pids.max", "max\n");
  EXPECT_EQ(tasks_left(root), 70u);
  put("/sys/fs/cgroup/pids/x/y/pids.max", "20\n");
  put("/sys/fs/cgroup/pids/x/y/pids.current", "25\n");
  EXPECT_EQ(tasks_left(root), 0u);
}

TEST_F(AvailableMemory, ReadsTheFirstVersionOfGroupsToo) {
  put("/proc/self/cgroup", "9:name=systemd:/x\n4:memory:/job\n0::/\n");
  put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "7000\n");
  put("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1000\n");
  EXPECT_EQ(available(), 6000u);
}

TEST_F(AvailableMemory, IsUnlimitedWhereNothingCanBeRead) { EXPECT_EQ(available(), ~uint64_t{0}); }

TEST(AvailableMemoryHere, IsSomethingButNotMoreThanAnyMachineHas) {
  EXPECT_GT(available_memory(), uint64_t{1} << 20);
  EXPECT_LT(available_memory(), uint64_t{1} << 50);
}

struct CoreQuota : AvailableMemory {};

TEST_F(CoreQuota, IsTheTightestOfTheGroupsAbove) {
  EXPECT_EQ(core_quota(root), std::numeric_limits<double>::infinity());
  put("/proc/self/cgroup", "0::/a/b\n");
  put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(core_quota(root), std::numeric_limits<double>::infinity());
  put("/sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  EXPECT_EQ(core_quota(root), 1.5);
  put("/sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
  EXPECT_EQ(core_quota(root), 0.5);
}

TEST_F(CoreQuota, ReadsTheFirstVersionOfGroupsToo) {
  put("/proc/self/cgroup", "5:cpuset:/x\n4:cpu,cpuacct:/job\n");
  put("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "200000\n");
  put("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(core_quota(root), 2);
}

}  // namespace
}  // namespace tutti
