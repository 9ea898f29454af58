// TUTTI_SYNTH=auto: plans that a background thread makes while a job runs.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "base/cancel.hpp"
#include "base/private_file.hpp"
#include "select/plan_maker.hpp"
#include "select/synthesised.hpp"
#include "support/child.hpp"
#include "support/scoped_env.hpp"
#include "support/thread_ranks.hpp"
#include "synth/cache_folder.hpp"

namespace {
bool is_forked = false;
}

#if defined(__SANITIZE_ADDRESS__)
/// LeakSanitizer asks this at exit. What the parent's threads own is lost in a forked child, and no leak of ours.
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off() { return is_forked ? 1 : 0; }
#endif

namespace tutti::select {
namespace {

void make_communicator(int ranks) {
  with_ranks(ranks, [](int, tuttiComm_t) {});
}

template <class Body>
std::string logged(const Body& body) {
  testing::internal::CaptureStderr();
  body();
  return testing::internal::GetCapturedStderr();
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++found;
  return found;
}

class Auto : public CacheFolder {
 protected:
  /// What a maker of its own says of this.
  static std::string made(const WantedPlans& plans) {
    return logged([&] {
      PlanMaker maker;
      maker.want(plans);
      maker.wait();
      maker.end();
    });
  }
  const test::ScopedEnv level{"TUTTI_LOG", "info"};
};

TEST_F(Auto, MakesPlansForTheNextCommunicator) {
  const test::ScopedEnv makes("TUTTI_SYNTH", "auto");
  const std::string said = logged([] {
    make_communicator(3);
    PlanMaker::of_this_process().wait();
  });
  ASSERT_EQ(kept().size(), 1u) << said;
  EXPECT_EQ(count(said, "no plans are kept for the 3 ranks of this network; they are made now"), 1u);
  EXPECT_NE(said.find("are kept in " + kept().front()), std::string::npos) << said;
  const test::ScopedEnv forced("TUTTI_ALGO", "all_gather:synth");  // an error unless it is a candidate
  with_ranks(3, [](int rank, tuttiComm_t comm) {
    std::vector<int> all(3, -1);
    EXPECT_EQ(tuttiAllGather(&rank, all.data(), 1, tuttiInt32, comm, nullptr), tuttiSuccess);
    EXPECT_EQ(all, (std::vector{0, 1, 2}));
    tuttiCallInfo info{.size = sizeof info};
    EXPECT_EQ(tuttiCommGetLastCall(comm, &info), tuttiSuccess);
    EXPECT_TRUE(std::string(info.algorithm).starts_with("synth@")) << info.algorithm;
  });
  PlanMaker::of_this_process().wait();
  EXPECT_EQ(kept().size(), 1u);
}

TEST_F(Auto, NothingIsMadeByOtherValues) {
  for (const char* value : {"off", "kept"}) {
    const test::ScopedEnv not_made("TUTTI_SYNTH", value);
    const std::string said = logged([] { make_communicator(2); });
    PlanMaker::of_this_process().wait();
    EXPECT_EQ(count(said, "TUTTI_SYNTH"), 0u) << said;
    EXPECT_TRUE(kept().empty()) << value;
  }
  try {
    const test::ScopedEnv wrong("TUTTI_SYNTH", "maybe");
    ADD_FAILURE() << "there is no such value";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("off, kept, auto"), std::string::npos) << error.what();
  }
}

TEST_F(Auto, AFolderThatCannotBeWrittenIsSaidOnce) {
  std::ofstream(folder + "/file") << "no folder";
  const test::ScopedEnv no_folder("XDG_CACHE_HOME", folder + "/file");
  const test::ScopedEnv makes("TUTTI_SYNTH", "auto");
  const std::string said = logged([] {
    for (int i = 0; i < 2; ++i) {
      make_communicator(2);
      PlanMaker::of_this_process().wait();
    }
  });
  EXPECT_EQ(count(said, "warning: TUTTI_SYNTH=auto: no plans are kept for the 2 ranks of this network, since"), 1u)
      << said;
  EXPECT_NE(said.find("Not a directory"), std::string::npos) << said;
}

TEST_F(Auto, WhatIsTooLargeOrTakesTooLongIsSaid) {
  WantedPlans plans = wanted();
  plans.folder = "";
  EXPECT_NE(made(plans).find("set HOME or XDG_CACHE_HOME"), std::string::npos);
  plans = wanted();
  plans.seconds = 0;
  EXPECT_NE(made(plans).find("it takes more than 0 s of processor time"), std::string::npos);
  plans = wanted();
  plans.proofs = 0;
  EXPECT_NE(made(plans).find("raise TUTTI_INIT_TIMEOUT"), std::string::npos);
  plans = wanted(17);
  ASSERT_EQ(plans.number(), 68u);
  EXPECT_NE(made(plans).find("up to 64 ranks: `tutti tune --synth` makes them for more"), std::string::npos);
  EXPECT_TRUE(kept().empty());
}

TEST_F(Auto, StartsNoThreadForWhatItCannotMake) {
  PlanMaker maker;
  WantedPlans large = wanted(17), nowhere = wanted();
  nowhere.folder = "";
  const std::string said = logged([&] {
    for (int i = 0; i < 3; ++i) maker.want(large), maker.want(nowhere);
  });
  EXPECT_EQ(maker.threads(), 0);
  EXPECT_EQ(count(said, "warning: TUTTI_SYNTH=auto: no plans are kept for"), 2u) << "once each: " << said;
  EXPECT_TRUE(maker.was_wanted(large.key));
}

TEST_F(Auto, StartsNoThreadAgainAfterAFailure) {
  PlanMaker maker;
  WantedPlans hurried = wanted();
  hurried.seconds = 0;
  const std::string said = logged([&] {
    for (int i = 0; i < 3; ++i) maker.want(hurried), maker.wait();
    maker.end();
  });
  EXPECT_EQ(maker.threads(), 1);
  EXPECT_EQ(count(said, "it takes more than 0 s of processor time"), 1u) << said;
}

TEST_F(Auto, ADemandWaitsForItsPlans) {
  const test::ScopedEnv makes("TUTTI_SYNTH", "auto"), forced("TUTTI_ALGO", "all_gather:synth");
  for (int time = 0; time < 2; ++time) {
    with_ranks(4, [](int rank, tuttiComm_t comm) {
      std::vector<int> all(4, -1);
      EXPECT_EQ(tuttiAllGather(&rank, all.data(), 1, tuttiInt32, comm, nullptr), tuttiSuccess);
      EXPECT_EQ(all, (std::vector{0, 1, 2, 3}));
      tuttiCallInfo info{.size = sizeof info};
      EXPECT_EQ(tuttiCommGetLastCall(comm, &info), tuttiSuccess);
      EXPECT_TRUE(std::string(info.algorithm).starts_with("synth@")) << info.algorithm;
    });
  }
  EXPECT_EQ(kept().size(), 1u);
}

TEST_F(Auto, ADemandDoesNotWaitForEver) {
  const test::ScopedEnv makes("TUTTI_SYNTH", "auto");
  WantedPlans plans = wanted(3);
  plans.inputs.forced = {{"all_gather", "ring"}, {"reduce", "synth"}};
  try {
    make_demanded_plans(plans.graph, plans.inputs, Deadline::in(0));
    ADD_FAILURE() << "nothing is kept";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::Timeout);
    const std::string said = error.what();
    EXPECT_NE(
        said.find("TUTTI_ALGO forces reduce:synth, and TUTTI_SYNTH=auto has not made plans for these 12 ranks in time"),
        std::string::npos)
        << said;
    EXPECT_NE(said.find("`tutti tune --synth`"), std::string::npos) << said;
  }
  EXPECT_EQ(plans.inputs.synthesised, nullptr);
  make_demanded_plans(plans.graph, plans.inputs, Deadline::in(1000));
  PlanMaker::of_this_process().wait();  // in the background they are wanted too
  ASSERT_NE(plans.inputs.synthesised, nullptr) << "this time there was enough";
  EXPECT_NE(plans.inputs.synthesised->find(Collective::Reduce, "synth"), nullptr);
}

TEST_F(Auto, GivesUpWhenItIsEnded) {
  PlanMaker maker;
  const std::string said = logged([&] {
    maker.want(wanted(kSlow));
    maker.end();
  });
  EXPECT_TRUE(kept().empty()) << said;
  maker.want(wanted());
  maker.wait();
  EXPECT_TRUE(kept().empty()) << "it has ended for good";
}

TEST_F(Auto, NothingIsMadeTwice) {
  const WantedPlans plans = wanted();
  EXPECT_NE(made(plans).find("are kept in"), std::string::npos);
  EXPECT_EQ(made(plans), "") << "they are there";
  EXPECT_EQ(kept().size(), 1u);
}

/// A communicator of three ranks is made and destroyed; `argument`: what is done then.
int job_main(const std::string& argument, test::Line& line) {
  make_communicator(3);
  if (argument == "waits and makes more") {
    for (int i = 0; i < 2; ++i) {
      PlanMaker::of_this_process().wait();
      make_communicator(3);
    }
    line.tell(fmt::format("{}", PlanMaker::of_this_process().threads()));
  }
  if (argument == "forks") {
    const pid_t child = fork();
    is_forked = child == 0;
    if (is_forked) std::exit(7);
    int status = 0;
    waitpid(child, &status, 0);
    line.tell(fmt::format("{}", WEXITSTATUS(status)));
  }
  if (argument == "waits") {
    PlanMaker::of_this_process().wait();
    line.tell("made");
  }
  return 0;
}
const test::Role kJob("job", job_main);

TEST_F(Auto, EndsWithItsProcess) {
  for (int i = 0; i < 3; ++i) {
    test::Child job("job", "", "TUTTI_SYNTH=auto TUTTI_LOG=warn XDG_CACHE_HOME=" + folder);
    EXPECT_EQ(job.wait(), 0);
    for (const std::string& name : kept()) EXPECT_TRUE(name.ends_with(".json")) << "a part was left: " << name;
  }
}

/// One file for all jobs: it is damaged before each but the first.
TEST_F(Auto, WhatCannotBeUsedIsMadeAgainOnceAProcess) {
  const auto run = [&] {
    return logged([&] {
      test::Child job("job", "waits and makes more", "TUTTI_SYNTH=auto TUTTI_LOG=warn XDG_CACHE_HOME=" + folder);
      EXPECT_EQ(job.receive(120), "1") << "threads";
      EXPECT_EQ(job.wait(), 0);
    });
  };
  EXPECT_EQ(count(run(), "are not used"), 0u);
  ASSERT_EQ(kept().size(), 1u);
  const std::string path = kept().front(), text = read_file(path, kMaxSynthesised, true).value_or("");
  const auto expect_made_again = [&](const std::string& why) {
    const std::string said = run();
    EXPECT_EQ(count(said, fmt::format("the synthesised plans in {} are not used: ", path)), 1u) << said;
    EXPECT_NE(said.find(why), std::string::npos) << said;
    EXPECT_EQ(count(said, fmt::format("the plans in {} cannot be used, and are made again", path)), 1u) << said;
    EXPECT_EQ(read_file(path, kMaxSynthesised, true), text);
    EXPECT_EQ(kept().size(), 1u);
  };
  write_private(path, text.substr(0, text.size() / 2));
  expect_made_again("it is damaged");
  write_private(path, "{\"format\": \"tutti-synthesised\", \"version\": 1000}");
  expect_made_again("it is not of the format");
  std::filesystem::permissions(path, std::filesystem::perms::others_write, std::filesystem::perm_options::add);
  expect_made_again("others");
  std::filesystem::resize_file(path, 2 * kMaxSynthesised);
  expect_made_again("bytes");
}

TEST_F(Auto, AForkedChildHasNone) {
  test::Child job("job", "forks", "TUTTI_SYNTH=auto TUTTI_LOG=warn XDG_CACHE_HOME=" + folder);
  EXPECT_EQ(job.receive(), "7");
  EXPECT_EQ(job.wait(), 0);
}

TEST_F(Auto, TwoProcessesMayMakeTheSame) {
  std::vector<test::Child> jobs;
  for (int i = 0; i < 2; ++i) jobs.emplace_back("job", "waits", "TUTTI_SYNTH=auto XDG_CACHE_HOME=" + folder);
  for (test::Child& job : jobs) EXPECT_EQ(job.receive(120), "made");
  for (test::Child& job : jobs) EXPECT_EQ(job.wait(), 0);
  ASSERT_EQ(kept().size(), 1u);
  EXPECT_NO_THROW(read_synthesised(read_file(kept().front(), kMaxSynthesised, true).value_or(""), {}, 3));
}

TEST(Cancel, OnlyWhereItIsAskedFor) {
  check_cancelled();
  std::atomic<bool> cancelled{false};
  {
    const Cancellable cancellable(cancelled, 1000);
    check_cancelled();
    cancelled = true;
    EXPECT_THROW(check_cancelled(), Error);
  }
  check_cancelled();
}

}  // namespace
}  // namespace tutti::select
