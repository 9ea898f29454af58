// TUTTI_SYNTH=auto where TUTTI_ALGO demands a synthesised plan: the communicator waits for it.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "select/plan_maker.hpp"
#include "support/scoped_env.hpp"
#include "synth/cache_folder.hpp"
#include "tutti/tutti.h"

namespace tutti::select {
namespace {

class Demand : public CacheFolder {
 protected:
  static std::string error_of(const char* demand) {
    const test::ScopedEnv forced("TUTTI_ALGO", demand);
    tuttiComm_t comms[3];
    const tuttiResult_t result = tuttiCommInitAll(comms, 3);
    EXPECT_EQ(result, tuttiUnsupported);
    return result == tuttiSuccess ? "no error" : tuttiGetLastError();
  }
  const test::ScopedEnv makes{"TUTTI_SYNTH", "auto"};
};

TEST_F(Demand, EndsWithItsCommunicator) {
  WantedPlans plans = wanted(kSlow);
  plans.inputs.forced = {{"all_gather", "synth"}};
  try {
    make_demanded_plans(plans.graph, plans.inputs, Deadline::in(1000),
                        [] { throw_error(Code::PeerFailed, "rank 1 was lost"); });
    ADD_FAILURE() << "the communicator has failed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::PeerFailed) << error.what();
  }
  EXPECT_TRUE(kept().empty()) << "nobody waits for them any more";
  PlanMaker& maker = PlanMaker::of_this_process();
  EXPECT_FALSE(maker.was_wanted(plans.key));
}

TEST_F(Demand, WaitsForNoOtherPlans) {
  PlanMaker maker;
  maker.want(wanted(kSlow));
  EXPECT_EQ(maker.make_now(wanted(), Deadline::in(1000)), "");
  EXPECT_EQ(kept().size(), 1u) << "the others are made afterwards";
  maker.end();
}

TEST_F(Demand, OfWhatWasAbandonedDelaysNoOther) {
  PlanMaker maker;
  EXPECT_EQ(maker.make_now(wanted(kSlow), Deadline::in(0)), std::nullopt);
  EXPECT_EQ(maker.make_now(wanted(), Deadline::in(1000)), "");
  EXPECT_EQ(kept().size(), 1u);
  maker.end();
}

TEST_F(Demand, TriesAgainWhatWasGivenUpOrIsGone) {
  PlanMaker maker;
  WantedPlans plans = wanted();
  plans.seconds = 0;
  maker.want(plans);
  maker.wait();
  const auto why_not = maker.make_now(plans, Deadline::in(1000));
  ASSERT_TRUE(why_not);
  EXPECT_NE(why_not->find("it takes more than 0 s"), std::string::npos) << *why_not;
  plans.seconds = 1000;
  for (int time = 0; time < 2; ++time) {
    EXPECT_EQ(maker.make_now(plans, Deadline::in(1000)), "");
    EXPECT_EQ(kept().size(), 1u);
    for (const std::string& path : kept()) std::filesystem::remove(path);
  }
  maker.end();
}

TEST_F(Demand, EndsWithTheProcess) {
  PlanMaker maker;
  std::optional<std::string> why_not;
  std::thread waiting([&] { why_not = maker.make_now(wanted(kSlow), Deadline::in(1000)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // mostly it waits by then; else it ends as well
  maker.end();
  waiting.join();
  ASSERT_TRUE(why_not);
  EXPECT_EQ(*why_not, "the process ends");
}

TEST_F(Demand, ThatCannotBeMetSaysWhy) {
  std::string said = error_of("all_to_all:synth");
  EXPECT_NE(said.find("plans of all_to_all are not synthesised"), std::string::npos) << said;
  said = error_of("all_gather:synth_nosuch");
  EXPECT_NE(said.find("no such plan is kept for these 3 ranks on this topology: the plans of all_gather are: synth"),
            std::string::npos)
      << said;
  EXPECT_EQ(said.find("TUTTI_SYNTH=auto"), std::string::npos) << said;
  std::ofstream(folder + "/file") << "no folder";
  const test::ScopedEnv no_folder("XDG_CACHE_HOME", folder + "/file");
  said = error_of("all_gather:synth");
  EXPECT_NE(said.find("TUTTI_SYNTH=auto could not make plans for these 3 ranks: "), std::string::npos) << said;
  EXPECT_NE(said.find("Not a directory"), std::string::npos) << said;
}

TEST_F(Demand, WhatTakesTooLongToProveIsNotMadeAgain) {
  WantedPlans plans = wanted(2);
  PlanMaker maker;
  EXPECT_EQ(maker.make_now(plans, Deadline::in(1000)), "");
  ASSERT_EQ(kept().size(), 1u);
  const test::ScopedEnv hurried("TUTTI_INIT_TIMEOUT", "0.001");
  testing::internal::CaptureStderr();
  EXPECT_EQ(kept_synthesised(plans.graph, plans.graph.ranks, plans.inputs.order), nullptr);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("proving them takes too long"), std::string::npos) << said;
  EXPECT_NE(said.find("a longer TUTTI_INIT_TIMEOUT leaves more time for it"), std::string::npos) << said;
  EXPECT_EQ(said.find("makes them again"), std::string::npos) << said;
  plans.inputs.forced = {{"all_gather", "synth"}};
  plans.inputs.synthesised = nullptr;
  try {
    make_demanded_plans(plans.graph, plans.inputs, Deadline::in(1000));
    ADD_FAILURE() << "they are not used";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::Timeout);
    EXPECT_NE(std::string(error.what()).find("are not used, since proving them takes too long"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace tutti::select
