// TUTTI_SYNTH=auto where TUTTI_ALGO demands a synthesised plan: the communicator waits for it.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "base/format.hpp"
#include "select/machine.hpp"
#include "select/plan_maker.hpp"
#include "select/synthesised.hpp"
#include "support/child.hpp"
#include "support/id_text.hpp"
#include "support/scoped_env.hpp"
#include "support/topologies.hpp"
#include "topo/cluster.hpp"
#include "tutti/tutti.h"

namespace tutti::select {
namespace {

/// Those of a machine with as many GPUs as the sample has on these hosts, kept in this folder.
WantedPlans wanted_in(const std::string& folder, Rank hosts = 1) {
  topo::Graph graph = test::sample("nccl-pcie-2-sockets.xml");
  if (hosts > 1) graph = topo::cluster(graph, hosts);
  WantedPlans plans{.graph = graph, .inputs = inputs_of(graph, 0).inputs, .folder = folder + "/tutti"};
  plans.graph.ranks = graph.all(topo::NodeKind::Gpu);
  plans.key = synthesis_key(graph, nodes_of_plans(graph, plans.graph.ranks, plans.inputs.order));
  plans.proofs = plans.seconds = 1000;
  plans.demanded = true;
  return plans;
}
constexpr Rank kSlow = 16;  // hosts: 64 GPUs take seconds

/// A cache folder of its own.
class Demand : public testing::Test {
 protected:
  std::vector<std::string> kept() const {
    std::vector<std::string> names;
    std::error_code none;
    for (const auto& file : std::filesystem::directory_iterator(folder + "/tutti", none)) {
      if (file.path().filename().string().starts_with("synth-")) names.push_back(file.path());
    }
    return names;
  }
  static std::string error_of(const char* demand) {
    const test::ScopedEnv forced("TUTTI_ALGO", demand);
    tuttiComm_t comms[3];
    const tuttiResult_t result = tuttiCommInitAll(comms, 3);
    EXPECT_EQ(result, tuttiUnsupported);
    return result == tuttiSuccess ? "no error" : tuttiGetLastError();
  }
  void SetUp() override { std::filesystem::create_directories(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }

  const std::string folder = fmt::format("{}synth-demand-{}", testing::TempDir(), getpid());
  const test::ScopedEnv cache{"XDG_CACHE_HOME", folder};
  const test::ScopedEnv profile{"TUTTI_PROFILE", "off"};
  const test::ScopedEnv makes{"TUTTI_SYNTH", "auto"};
};

TEST_F(Demand, EndsWithItsCommunicator) {
  WantedPlans plans = wanted_in(folder, 8);
  plans.inputs.forced = {{"all_gather", "synth"}};
  try {
    make_demanded_plans(plans.graph, plans.inputs, Deadline::in(1000),
                        [] { throw_error(Code::PeerFailed, "rank 1 was lost"); });
    ADD_FAILURE() << "the communicator has failed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::PeerFailed) << error.what();
  }
  PlanMaker::of_this_process().wait();
}

TEST_F(Demand, ComesBeforeWhatNobodyWaitsFor) {
  PlanMaker maker;
  WantedPlans first = wanted_in(folder, kSlow), second = wanted_in(folder, kSlow - 1);
  first.demanded = second.demanded = false;
  const WantedPlans demanded = wanted_in(folder);
  maker.want(first);
  maker.want(second);
  maker.want(demanded);
  EXPECT_TRUE(maker.wait(demanded.key, Deadline::in(1000)));
  EXPECT_EQ(kept().size(), 1u);
  EXPECT_FALSE(maker.wait(first.key, Deadline::in(0))) << "it is made afterwards";
  EXPECT_FALSE(maker.wait(second.key, Deadline::in(0))) << "it is made afterwards";
  EXPECT_EQ(maker.threads(), 1);
  maker.end();
}

TEST_F(Demand, TriesAgainWhatWasGivenUpOrIsGone) {
  PlanMaker maker;
  WantedPlans plans = wanted_in(folder);
  plans.seconds = 0;
  plans.demanded = false;
  maker.want(plans);
  maker.wait();
  EXPECT_NE(maker.why_not(plans.key).find("it takes more than 0 s"), std::string::npos) << maker.why_not(plans.key);
  plans.seconds = 1000;
  plans.demanded = true;
  for (int time = 0; time < 2; ++time) {
    maker.want(plans);
    EXPECT_TRUE(maker.wait(plans.key, Deadline::in(1000)));
    EXPECT_EQ(maker.why_not(plans.key), "");
    EXPECT_EQ(kept().size(), 1u);
    for (const std::string& path : kept()) std::filesystem::remove(path);
  }
  maker.end();
}

TEST_F(Demand, ThatCannotBeMetSaysWhy) {
  std::string said = error_of("all_to_all:synth");
  EXPECT_NE(said.find("plans of all_to_all are not synthesised"), std::string::npos) << said;
  said = error_of("all_gather:synth_nosuch");
  EXPECT_NE(said.find("no such plan is kept for these 3 ranks on this topology: of all_gather there are synth"),
            std::string::npos)
      << said;
  EXPECT_EQ(said.find("TUTTI_SYNTH=auto"), std::string::npos) << said;
  std::ofstream(folder + "/file") << "no folder";
  const test::ScopedEnv no_folder("XDG_CACHE_HOME", folder + "/file");
  said = error_of("all_gather:synth");
  EXPECT_NE(said.find("TUTTI_SYNTH=auto could not make plans for these 3 ranks: "), std::string::npos) << said;
  EXPECT_NE(said.find("Not a directory"), std::string::npos) << said;
}

TEST_F(Demand, WhatTakesTooLongToProveWouldBeMadeTheSame) {
  WantedPlans plans = wanted_in(folder, 2);
  PlanMaker maker;
  maker.want(plans);
  maker.wait();
  maker.end();
  ASSERT_EQ(kept().size(), 1u);
  const test::ScopedEnv hurried("TUTTI_INIT_TIMEOUT", "0.001");
  testing::internal::CaptureStderr();
  EXPECT_EQ(kept_synthesised(plans.graph, plans.graph.ranks, plans.inputs.order), nullptr);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("proving them takes too long"), std::string::npos) << said;
  EXPECT_NE(said.find("a longer TUTTI_INIT_TIMEOUT leaves more time for it"), std::string::npos) << said;
  EXPECT_EQ(said.find("makes them again"), std::string::npos) << said;
}

/// Rank 0 of two waits for a demand, behind one that takes seconds. Its log is in a file of the folder.
int waiting_main(const std::string& folder, test::Line& line) {
  const std::string log = folder + "/log";
  if (std::freopen(log.c_str(), "a", stderr) == nullptr) return 2;
  const WantedPlans others = wanted_in(folder, kSlow);
  PlanMaker& maker = PlanMaker::of_this_process();
  maker.want(others);
  tuttiUniqueId id;
  if (tuttiGetUniqueId(&id) != tuttiSuccess) return 2;
  line.tell(test::hex_of(id));
  tuttiComm_t comm = nullptr;
  const tuttiResult_t result = tuttiCommInitRank(&comm, 2, id, 0);
  const bool waited = maker.wait(others.key, Deadline::in(0));
  line.tell(fmt::format("{}, {}", static_cast<int>(result), waited ? "after the others" : "at once"));
  return 0;
}
const test::Role kWaiting("waiting", waiting_main);

int joining_main(const std::string& id, test::Line&) {
  tuttiComm_t comm = nullptr;
  return tuttiCommInitRank(&comm, 2, test::id_from(id), 1);
}
const test::Role kJoining("joining", joining_main);

TEST_F(Demand, HearsOfADeath) {
  const test::ScopedEnv level("TUTTI_LOG", "info");
  const std::string environment =
      "TUTTI_SYNTH=auto TUTTI_ALGO=all_gather:synth TUTTI_INIT_TIMEOUT=600 "
      "XDG_CACHE_HOME=" +
      folder;
  test::Child waiting("waiting", folder, environment);
  test::Child joining("joining", waiting.receive(), environment);
  const auto is_waiting = [&] {
    std::ifstream log(folder + "/log");
    const std::string text{std::istreambuf_iterator<char>(log), {}};
    return text.find("making the communicator waits for plans") != std::string::npos;
  };
  const Deadline until = Deadline::in(60);
  while (!is_waiting() && !until.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_TRUE(is_waiting());
  joining.signal(SIGKILL);
  EXPECT_EQ(waiting.receive(120), fmt::format("{}, at once", static_cast<int>(tuttiPeerFailed)));
  EXPECT_EQ(waiting.wait(), 0);
}

}  // namespace
}  // namespace tutti::select
