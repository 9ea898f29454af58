// A job's demand against the system's limits.
#include "tools/run/limits.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "tools/run/hosts.hpp"
#include "tools/run/restarts.hpp"
#include "tutti/error.hpp"

namespace tutti::tools {
namespace {

std::string refusal(const Demand& demand, const Allowance& allowed) {
  try {
    check_fits(demand, allowed);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Limits, AreNamedWithTheRanksThatTheyAllow) {
  const Demand demand{.ranks = 100, .tasks = 2, .open_files = 3, .bytes = 1 << 20, .bytes_for = "staging memory"};
  Allowance allowed{.tasks = 201, .tasks_by = "that limit", .open_files = 364, .bytes = 100 << 20};
  EXPECT_EQ(refusal(demand, allowed), "");
  EXPECT_EQ(refusal(demand, {}), "");
  allowed.tasks = 200;
  EXPECT_EQ(refusal(demand, allowed),
            "100 ranks are at least 200 processes and threads; that limit, leaves 200: 99 ranks at most, or raise it");
  allowed.tasks = 201;
  allowed.open_files = 363;
  EXPECT_EQ(refusal(demand, allowed),
            "for 100 ranks the launcher needs 364 open files; RLIMIT_NOFILE (ulimit -Hn) allows 363: 99 ranks at most, "
            "or raise it");
  allowed.open_files = 364;
  allowed.bytes = (100 << 20) - 1;
  EXPECT_EQ(refusal(demand, allowed),
            "100 ranks take at least 0.1 GiB of memory, 1.0 MiB each for staging memory; 0.1 GiB are free here: 99 "
            "ranks at most, or let each take less");
}

TEST(Limits, RanksOnOtherHostsNeedOnlyAnSsh) {
  Job job;
  job.ranks = place(parse_hosts("a:2,b:2"), 0, "me");
  job.tasks = 7;
  job.bytes = 1000;
  const Demand demand = demand_of(job);
  EXPECT_EQ(demand.ranks, 4U);  // an ssh each
  EXPECT_EQ(demand.tasks, 1U);
  EXPECT_EQ(demand.connections, 2U);
  EXPECT_EQ(demand.bytes, 0U);
}

TEST(Limits, RanksThatMayBeReplacedKeepAConnectionToTheLauncher) {
  Job job;
  job.name = "limits";
  job.ranks = place_here(3);
  const uint64_t before = demand_of(job).open_files;
  job.restarts = std::make_shared<Restarts>(job, 1, 0);
  EXPECT_EQ(demand_of(job).open_files, before + 1);
}

TEST(Limits, OfControlGroupsAndOfTheSystemAreAsked) {
  const std::string root = testing::TempDir() + "/limits";
  const auto put = [&](const std::string& file, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root + file).parent_path());
    std::ofstream(root + file) << text;
  };
  put("/proc/self/status", "Name:\tx\nCapEff:\t0000000001000000\n");  // may raise its own limits
  put("/proc/loadavg", "0.1 0.2 0.3 1/200 4711\n");
  put("/proc/sys/kernel/pid_max", "1000\n");
  EXPECT_EQ(allowance(root).tasks, 800U);
  EXPECT_EQ(allowance(root).tasks_by, "the system's kernel.pid_max, 1000");
  put("/proc/self/cgroup", "0::/job\n");
  put("/sys/fs/cgroup/job/pids.max", "50\n");
  put("/sys/fs/cgroup/job/pids.current", "10\n");
  EXPECT_EQ(allowance(root).tasks, 40U);
  EXPECT_EQ(allowance(root).tasks_by, "a control group's pids.max");
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace tutti::tools
