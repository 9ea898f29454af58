// Communicators that are suspended and resumed, where ranks are threads or processes: what is freed, what works before
// and after, what is refused, and that a rank that ends meanwhile is named.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "fault/job.hpp"
#include "fault/resources.hpp"
#include "tutti/tutti.h"

namespace tutti::fault {
namespace {

std::vector<Story> run(const std::string& transport, int ranks, const std::function<std::string(int)>& script,
                       const std::string& environment = "") {
  Job job({transport, ranks, "TUTTI_TIMEOUT=30 " + environment}, script);
  auto stories = job.finish(100);
  EXPECT_EQ(job.problem(), "");
  return stories;
}

/// Expects these codes of the lines from 0 on.
void expect_codes(const Story& story, const std::vector<int>& codes) {
  ASSERT_EQ(story.size(), codes.size() + 1);  // the first one is of joining
  for (size_t i = 0; i < codes.size(); ++i) {
    EXPECT_EQ(story[i + 1].code, codes[i]) << "line " << i << ": " << story[i + 1].text;
  }
}

void expect_text(const LineResult& result, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(result.text.find(part), std::string::npos) << result.text;
}

std::vector<Resources> resources_in(const Story& story) {
  std::vector<Resources> all;
  for (const LineResult& result : story) {
    Resources one;
    if (result.code == tuttiSuccess && std::istringstream(result.text) >> one.resident >> one.descriptors >> one.arenas)
      all.push_back(one);
  }
  return all;
}

// KiB. AddressSanitizer keeps what is freed, up to 256 MiB of it; ThreadSanitizer grows by what it notes of threads.
#if defined(__SANITIZE_ADDRESS__)
constexpr int64_t kQuarantine = 256 << 10;
#else
constexpr int64_t kQuarantine = 0;
#endif
#if defined(__SANITIZE_THREAD__)
constexpr int64_t kGrowth = 4000;
#else
constexpr int64_t kGrowth = 1000 + kQuarantine;
#endif

std::string text_of(const Resources& of) {
  return fmt::format("resident {} KiB, {} descriptors, {} KiB of arenas", of.resident, of.descriptors, of.arenas);
}

class Suspend : public testing::TestWithParam<std::string> {};
class SuspendOfProcesses : public testing::TestWithParam<std::string> {};

TEST_P(SuspendOfProcesses, FreesMemoryAndDescriptorsInEveryCycle) {
  constexpr int kCycles = 12;
  constexpr size_t kWarm = 6;  // of what resources_in() returns
  const auto stories = run(
      GetParam(), 3,
      [&](int rank) {
        std::string script = "sum 1000000\n";
        for (int i = 0; i < kCycles; ++i) {
          script += "sum 1\nsum 3000\nsum 1000000\nall_to_all 100000 f32\n";
          script += fmt::format("start\nsend 100000 f32 {}\nrecv 100000 f32 {}\nend\nbarrier\nresources\n",
                                (rank + 1) % 3, (rank + 2) % 3);
          script += "suspend\nresources\nresume\n";
        }
        return script + "sum 1000000\ndestroy";
      },
      "TUTTI_ARENA=64M TUTTI_CMA=off");
  for (const Story& story : stories) {
    for (const LineResult& result : story) EXPECT_EQ(result.code, tuttiSuccess) << result.line << ": " << result.text;
    const auto seen = resources_in(story);
    ASSERT_EQ(seen.size(), size_t{2} * kCycles);
    for (size_t i = 0; i < seen.size(); i += 2) {
      const Resources &live = seen[i], &suspended = seen[i + 1];
      SCOPED_TRACE(fmt::format("cycle {}: {}; suspended: {}", i / 2, text_of(live), text_of(suspended)));
      EXPECT_LT(suspended.descriptors, live.descriptors);
      // Over tcp the kernel has the buffers.
      EXPECT_LT(suspended.resident, live.resident + kQuarantine - (GetParam() == "shm" ? 5000 : 0));
      EXPECT_EQ(suspended.arenas, 0);
      if (i <= kWarm) continue;  // the first cycles fill the allocator's caches
      EXPECT_LT(live.resident, seen[kWarm].resident + kGrowth);
      EXPECT_LT(suspended.resident, seen[kWarm + 1].resident + kGrowth);
    }
    // Another thread may hold one more descriptor for a moment: of two neighbouring cycles the smaller count is taken.
    const auto fewest = [&](size_t i) { return std::min(seen[i].descriptors, seen[i + 2].descriptors); };
    EXPECT_EQ(fewest(seen.size() - 4), fewest(kWarm));
    EXPECT_EQ(fewest(seen.size() - 3), fewest(kWarm + 1));
    testing::Test::RecordProperty("live", text_of(seen[seen.size() - 2]));
    testing::Test::RecordProperty("suspended", text_of(seen.back()));
    testing::Test::RecordProperty("seconds", fmt::format("{} {}", story[story.size() - 5].seconds,  // suspend
                                                         story[story.size() - 3].seconds));         // resume
  }
}

TEST_P(Suspend, IsRefusedTwiceAndResumeWithoutIt) {
  const auto stories = run(GetParam(), 3, [](int) {
    return "resume\nsuspend\nsum 100\nsplit 0 0\nwindow 8\nsend 1 f32 0\nsuspend\nstart\nsum 100\nend\nresume\nresume\n"
           "sum 100\nstart\nsuspend\nresume\nend\nsum 100\ndestroy";
  });
  const int refused = tuttiInvalidUsage;
  for (size_t rank = 0; rank < 3; ++rank) {
    const Story& story = stories[rank];
    expect_codes(story, {refused, 0, refused, refused, refused, refused, refused, 0, refused, 0, 0, refused, 0, 0,
                         refused, refused, 0, 0, 0});
    expect_text(story[1], {fmt::format("rank {}: resume(): the communicator is not suspended", rank)});
    expect_text(story[3], {fmt::format("rank {}: all_reduce(count=100, i32, sum): the communicator is suspended; "
                                       "tuttiCommResume comes first",
                                       rank)});
    expect_text(story[4], {": split(): the communicator is suspended"});
    expect_text(story[5], {": window_register(): the communicator is suspended"});
    expect_text(story[6], {": send(count=1, f32, to rank 0): the communicator is suspended"});
    expect_text(story[7], {": suspend(): the communicator is suspended"});
    expect_text(story[12], {": resume(): the communicator is not suspended"});
    expect_text(story[15], {"tuttiCommSuspend cannot be called within a group"});
    expect_text(story[16], {"tuttiCommResume cannot be called within a group"});
  }
}

TEST_P(Suspend, IsRefusedOnAllRanksWhileThereAreWindows) {
  const auto stories = run(GetParam(), 2, [](int rank) {
    return fmt::format(
        "barrier\nwindow 8\nsuspend\nsum 100\nput_signal 8 {0}\nwait_signal {0}\nderegister\nsuspend\n"
        "resume\nwindow 8\nput_signal 8 {0}\nwait_signal {0}\nderegister\nsuspend\nresume\nsum 100\n"
        "destroy",
        1 - rank);
  });
  for (size_t rank = 0; rank < 2; ++rank) {
    std::vector<int> codes(17, tuttiSuccess);
    codes[2] = tuttiInvalidUsage;
    expect_codes(stories[rank], codes);
    expect_text(stories[rank][3],
                {fmt::format("rank {}: suspend(): rank 0 cannot: it has 1 window, made by call 2", rank),
                 "tuttiWindowDeregister"});
  }
}

TEST_P(Suspend, IsRefusedWhileAMessageIsToBeReceived) {
  const auto stories = run(GetParam(), 3, [](int rank) {
    if (rank == 0) return "send 4 f32 2\nsuspend\nsuspend\nresume\nsend 4 f32 2\nsum 100\ndestroy";
    if (rank == 1) return "suspend\nsuspend\nresume\nsum 100\ndestroy";
    return "suspend\nrecv 4 f32 0\nsuspend\nresume\nrecv 4 f32 0\nsum 100\ndestroy";
  });
  expect_codes(stories[0], {0, tuttiInvalidUsage, 0, 0, 0, 0, 0});
  expect_codes(stories[2], {tuttiInvalidUsage, 0, 0, 0, 0, 0, 0});
  for (const Story& story : stories) {
    const auto refused = std::find_if(story.begin(), story.end(), [](const auto& one) { return one.code != 0; });
    ASSERT_NE(refused, story.end());
    expect_text(*refused, {"suspend(): rank 0 has sent 1 message to rank 2, which has received 0"});
  }
}

TEST_P(Suspend, AnotherCallInItsPlaceIsAMismatch) {
  const auto stories = run(GetParam(), 2, [](int rank) { return rank == 0 ? "suspend" : "barrier"; });
  for (const Story& story : stories) {
    ASSERT_EQ(story.back().code, tuttiMismatch) << story.back().text;
    expect_text(story.back(), {"suspend()", "barrier()", "rank 0", "rank 1"});
  }
}

TEST_P(Suspend, ARankThatLeavesInPlaceOfResumingIsAMismatch) {
  const auto stories = run(GetParam(), 2, [](int rank) { return rank == 0 ? "suspend\nresume" : "suspend\ndestroy"; });
  EXPECT_EQ(stories[0].back().code, tuttiMismatch) << stories[0].back().text;
  expect_text(stories[0].back(), {"resume()", "rank 0", "rank 1"});
}

TEST_P(Suspend, LeavesSplitsAsTheyAreAndEndsInOrder) {
  const auto stories = run(GetParam(), 4, [](int rank) {
    return fmt::format(
        "sum 1000000\nsplit {} 0\nuse 1\nsum 1000000\nuse 0\nsuspend\nuse 1\nsum 1000000\nsuspend\nuse 0\n"
        "resume\nsum 1000000\nuse 1\nresume\nsum 1000000\nsuspend\nuse 0\nsplit 0 0\nuse 2\nsum 1000\nsuspend\n"
        "finalize\ndestroy\nuse 1\ndestroy\nuse 0\nsuspend\ndestroy",
        rank % 2);
  });
  for (const Story& story : stories) expect_codes(story, std::vector<int>(28, tuttiSuccess));
}

TEST_P(SuspendOfProcesses, NamesARankThatDiesMeanwhile) {
  constexpr int kRanks = 4;
  for (const int victim : {0, 2}) {  // rank 0 holds the rendezvous server
    const auto stories = run(GetParam(), kRanks, [&](int rank) {
      return rank == victim ? "sum 1000\nsuspend\nkill"
                            : fmt::format(
                                  "sum 1000\nsuspend\nresume\nshrink {}\nuse 1\nsum 1000\nsuspend\nresume\n"
                                  "sum 1000\ndestroy\nuse 0\ndestroy",
                                  victim);
    });
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == victim) continue;
      const Story& story = stories[static_cast<size_t>(rank)];
      expect_codes(story, {0, 0, tuttiPeerFailed, 0, 0, 0, 0, 0, 0, 0, 0, tuttiPeerFailed});
      ASSERT_GT(story.size(), 3U);
      expect_text(story[3], {fmt::format("rank {} (process ", victim)});
      EXPECT_LT(story[3].seconds, 5);
    }
  }
}

TEST_P(SuspendOfProcesses, TwoOfThemCanBeShrunkWhileSuspended) {
  const auto stories = run(GetParam(), 3, [](int rank) {
    return rank == 1 ? "sum 1000\nsuspend\nkill"
                     : "sum 1000\nsuspend\nshrink 1\nuse 1\nsum 1000\ndestroy\nuse 0\ndestroy";
  });
  for (const size_t rank : {0, 2}) expect_codes(stories[rank], {0, 0, 0, 0, 0, 0, 0, tuttiPeerFailed});
}

TEST_P(Suspend, EndsWithAnAbort) {
  const auto stories = run(GetParam(), 3, [](int rank) {
    return rank == 1 ? "sum 1000\nsuspend\nabort\nresume\nsum 1000\ndestroy"
                     : "sum 1000\nsuspend\nresume\nsum 1000\ndestroy";
  });
  for (size_t rank = 0; rank < 3; ++rank) {
    const Story& story = stories[rank];
    for (const LineResult& result : story) {
      const bool after = result.line > (rank == 1 ? 2 : 1);
      EXPECT_EQ(result.code, after ? tuttiAborted : tuttiSuccess) << result.line << ": " << result.text;
    }
    expect_text(story.back(), {"rank 1"});
  }
}

INSTANTIATE_TEST_SUITE_P(Over, Suspend, testing::Values("local", "shm", "tcp"));
INSTANTIATE_TEST_SUITE_P(Over, SuspendOfProcesses, testing::Values("shm", "tcp"));

}  // namespace
}  // namespace tutti::fault
