// Ranks whose environments differ. What decides the algorithms and the messages must be the same on all ranks: then
// every rank gets an error that names the variable and two ranks, and none waits. The rest may differ.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <tuple>

#include "fault/job.hpp"
#include "tutti/tutti.h"

namespace tutti::fault {
namespace {

namespace fs = std::filesystem;

struct Difference {
  const char* name;
  const char* usual;  ///< of all ranks
  const char* odd;    ///< of the first one
  const char* named;  ///< in the error; "": there is none
};

/// For the tests' names.
std::ostream& operator<<(std::ostream& out, const Difference& difference) { return out << difference.name; }

constexpr Difference kDifferences[] = {
    {"Algorithm", "", "TUTTI_ALGO=all_reduce:ring", "TUTTI_ALGO"},
    {"OtherAlgorithm", "TUTTI_ALGO=all_reduce:one_shot", "TUTTI_ALGO=all_reduce:ring", "TUTTI_ALGO"},
    {"Cma", "TUTTI_CMA=auto", "TUTTI_CMA=off", "TUTTI_CMA"},
    {"Groups", "", "TUTTI_GROUPS=2", "TUTTI_GROUPS"},
    {"Message", "", "TUTTI_MESSAGE=32K", "TUTTI_MESSAGE"},
    {"Reproducible", "", "TUTTI_REPRODUCIBLE=1", "TUTTI_REPRODUCIBLE"},
    {"Threads", "", "TUTTI_THREADS=2", "TUTTI_THREADS"},
    {"Profile", "TUTTI_PROFILE=off", "TUTTI_PROFILE=@", "TUTTI_PROFILE"},
    {"Calibration", "TUTTI_CALIBRATION=1", "TUTTI_CALIBRATION=0", ""},
    {"Arena", "", "TUTTI_ARENA=1M", ""},
    {"Explain", "", "TUTTI_EXPLAIN=0", ""},
};

/// A profile that prefers what no model would, in a folder of its own.
class ProfileFile {
 public:
  ProfileFile() : folder_(fs::path(testing::TempDir()) / fmt::format("environment.{}", ::getpid())) {
    fs::create_directories(folder_);
    std::ofstream(path())
        << R"({"format":"tutti-profile","version":1,"links":{},"measured":[{"situation":"2 ranks, shm",)"
           R"("collective":"all_reduce","algorithm":"ring","times":[[8,1e-9],[1048576,1e-9]]}]})";
  }
  ~ProfileFile() { fs::remove_all(folder_); }
  ProfileFile(const ProfileFile&) = delete;
  ProfileFile& operator=(const ProfileFile&) = delete;
  /// For caches.
  std::string folder() const { return folder_; }
  /// `text` with this file's path in place of "@".
  std::string in(std::string text) const {
    const size_t at = text.find('@');
    return at == std::string::npos ? text : text.replace(at, 1, path());
  }

 private:
  std::string path() const { return folder_ / "profile.json"; }
  fs::path folder_;
};

using Parameters = std::tuple<std::string, int, Difference>;

class Environment : public testing::TestWithParam<Parameters> {};

TEST_P(Environment, OfOneRankIsAnErrorOnAllOrMakesNoDifference) {
  const auto& [transport, ranks, difference] = GetParam();
  const ProfileFile profile;
  const std::string all = fmt::format("TUTTI_TIMEOUT=20 XDG_CACHE_HOME={} {}", profile.folder(), difference.usual);
  Job job({transport, ranks, all, profile.in(difference.odd)}, [](int) {
    return "all_reduce 1024 f32 sum\nall_gather 30000 f32\nall_to_all 100000 u8\nreduce 300 f64 max 1\ndestroy";
  });
  const std::string named = difference.named;
  const auto stories = job.finish();
  EXPECT_EQ(job.problem(), "");
  for (int rank = 0; rank < ranks; ++rank) {
    SCOPED_TRACE(fmt::format("rank {}", rank));
    const Story& story = stories[static_cast<size_t>(rank)];
    ASSERT_FALSE(story.empty());
    const LineResult& joined = story.front();
    if (named.empty()) {
      for (const LineResult& line : story) EXPECT_EQ(line.code, tuttiSuccess) << line.text;
      continue;
    }
    EXPECT_EQ(joined.code, tuttiMismatch) << joined.text;
    EXPECT_LT(joined.seconds, 15) << "found, not timed out";
    EXPECT_NE(joined.text.find(named), std::string::npos) << joined.text;
    EXPECT_NE(joined.text.find("rank 0"), std::string::npos) << joined.text;
    EXPECT_NE(joined.text.find("must be the same"), std::string::npos) << joined.text;
  }
}

INSTANTIATE_TEST_SUITE_P(Fault, Environment,
                         testing::Combine(testing::Values("shm", "tcp"), testing::Values(2, 3),
                                          testing::ValuesIn(kDifferences)),
                         [](const auto& test) {
                           return fmt::format("{}_{}_{}", std::get<0>(test.param), std::get<1>(test.param),
                                              std::get<2>(test.param).name);
                         });

}  // namespace
}  // namespace tutti::fault
