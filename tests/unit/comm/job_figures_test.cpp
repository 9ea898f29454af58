#include "comm/job_figures.hpp"

#include <gtest/gtest.h>

#include "topo/link_rates.hpp"

namespace tutti::comm {
namespace {

using Between = topo::Figure::Between;

/// Of a rank whose messages take this long, and whose calibration says `most` GB/s; 0: it has none.
RankReport report(double seconds_per_byte, double most) {
  RankReport report;
  report.fabric.links = {{kBetweenProcesses, {1e-6, seconds_per_byte, true}}, {kBetweenHosts, {9e-6, 1e-9, false}}};
  report.fabric.routes = {{kBetweenProcesses, "shm"}, {kBetweenHosts, "tcp"}};
  report.fabric.most = most;
  return report;
}

/// Else a bound could be above what some host reaches.
TEST(JobFigures, AreOfTheSlowestRankAndTheirMostOfTheFastest) {
  for (const bool fast_first : {true, false}) {
    std::vector<RankReport> reports = {report(1e-10, 20), report(2e-10, 55)};
    if (fast_first) std::swap(reports[0], reports[1]);
    const std::vector<topo::Figure> figures = figures_of(reports);
    ASSERT_EQ(figures.size(), 2u);
    EXPECT_EQ(figures[0].between, Between::Processes);
    EXPECT_DOUBLE_EQ(figures[0].gbps, 5);
    EXPECT_DOUBLE_EQ(figures[0].most, 55);
    EXPECT_EQ(figures[1].between, Between::Hosts);
    EXPECT_EQ(figures[1].most, 0) << "no more than gbps";
  }
}

TEST(JobFigures, TellOfTheHostThatIsTheFastest) {
  constexpr const char* kOther = "the quick calibration of another host";
  std::vector<RankReport> reports = {report(1e-10, 20), report(1e-10, 55)};
  EXPECT_NE(figures_of(reports)[0].origin, kOther);
  reports[1].host = "another";
  EXPECT_EQ(figures_of(reports)[0].origin, kOther);
  EXPECT_NE(figures_of(reports)[1].origin, kOther) << "between hosts none is measured by it";
  reports[1].fabric.most = 0;
  EXPECT_NE(figures_of(reports)[0].origin, kOther) << "it has none";
}

TEST(JobFigures, OfAHostWithoutACalibrationItIsWhatCopiesCanReach) {
  EXPECT_DOUBLE_EQ(figures_of({report(1e-10, 20), report(2e-10, 0)})[0].most, 20) << "4 x 5 GB/s is no more";
  EXPECT_DOUBLE_EQ(figures_of({report(2e-10, 11), report(1e-10, 0)})[0].most, 40);
  EXPECT_DOUBLE_EQ(figures_of({report(2e-10, 0), report(1e-10, 0)})[0].most, topo::most_of_copies(10, true));
}

TEST(JobFigures, BetweenHostsTheFastestRankCountsToo) {
  std::vector<RankReport> reports = {report(1e-10, 0), report(1e-10, 0)};
  reports[1].fabric.links[kBetweenHosts].beta = 5e-10;
  const topo::Figure hosts = figures_of(reports)[1];
  EXPECT_DOUBLE_EQ(hosts.gbps, 1);
  EXPECT_DOUBLE_EQ(hosts.most, 2);
}

TEST(JobFigures, ItIsNoLessThanLongMessagesReach) { EXPECT_DOUBLE_EQ(figures_of({report(1e-10, 3)})[0].most, 10); }

}  // namespace
}  // namespace tutti::comm
