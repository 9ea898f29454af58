#include "select/profile.hpp"

#include <gtest/gtest.h>

#include "select/decision_table.hpp"
#include "select/machine.hpp"
#include "select/select.hpp"
#include "topo/detect.hpp"
#include "tutti/error.hpp"

namespace tutti::select {
namespace {

Profile measured(const std::string& situation) {
  Profile profile{.links = {{"processes", {3e-7, 1e-10}}}, .gamma = 2e-11, .measured = {}};
  auto& all = profile.measured[situation][Collective::AllReduce];
  all["ring"] = {{8, 1e-6}, {32, 4e-6}};
  all["one_shot"] = {{8, 2e-6}, {32, 3e-6}, {128, 1e-5}};
  return profile;
}

TEST(Profile, IsReadAsItWasWritten) {
  const Profile made = measured("2 ranks, shm");
  const Profile read = parse_profile(made.text(), "p");
  EXPECT_EQ(read.text(), made.text());
  EXPECT_EQ(read.hash(), made.hash());
  Profile other = made;
  other.measured["2 ranks, shm"][Collective::AllReduce]["ring"][8] = 2e-6;
  EXPECT_NE(other.hash(), made.hash());
}

TEST(Profile, TimesBetweenMeasuredSizesAreInterpolated) {
  const Profile profile = measured("s");
  const auto at = [&](const char* name, uint64_t bytes) {
    return profile.seconds("s", Collective::AllReduce, name, bytes).value_or(-1);
  };
  EXPECT_DOUBLE_EQ(at("ring", 8), 1e-6);
  EXPECT_NEAR(at("ring", 16), 2e-6, 1e-12);
  EXPECT_DOUBLE_EQ(at("ring", 4), 1e-6) << "below the smallest, its time";
  EXPECT_EQ(at("ring", 64), -1) << "a neighbour was not measured";
  EXPECT_NEAR(at("one_shot", 256), 2e-5, 1e-12) << "above the largest, in proportion";
  EXPECT_EQ(at("swing", 8), -1);
  EXPECT_FALSE(profile.seconds("another", Collective::AllReduce, "ring", 8));
}

TEST(Profile, MeasuredTimesDecide) {
  CostInputs inputs = inputs_here(2, 1).inputs;
  inputs.situation = "s";
  inputs.profile = std::make_shared<const Profile>(measured("s"));
  EXPECT_STREQ(DecisionTable(inputs).row(Collective::AllReduce, 8, {}).algorithm->name, "ring");
  EXPECT_STREQ(DecisionTable(inputs).row(Collective::AllReduce, 32, {}).algorithm->name, "one_shot");
  inputs.situation = "another";
  EXPECT_STREQ(DecisionTable(inputs).row(Collective::AllReduce, 8, {}).algorithm->name, "one_shot");
}

TEST(Profile, OfThoseThatAreMeasuredAsFastTheModelsFavouriteIsChosen) {
  CostInputs inputs = inputs_here(2, 1).inputs;
  inputs.situation = "s";
  const auto chosen = [&](double favourite, double other) {
    Profile profile;
    auto& times = profile.measured["s"][Collective::AllReduce];
    times["one_shot"] = {{8, favourite}};
    times["ring"] = {{8, other}};
    inputs.profile = std::make_shared<const Profile>(profile);
    return std::string(DecisionTable(inputs).row(Collective::AllReduce, 8, {}).algorithm->name);
  };
  EXPECT_EQ(chosen(1.04e-6, 1e-6), "one_shot") << "4 % are noise";
  EXPECT_EQ(chosen(1.1e-6, 1e-6), "ring");
  EXPECT_EQ(chosen(1e-6, 1.04e-6), "one_shot");
}

TEST(Profile, TheKeyIsThatOfTheMachineNotOfTheProcess) {
  topo::Graph graph = topo::local_topology();
  const uint64_t key = machine_key(graph);
  for (topo::Node& node : graph.nodes) node.usable = {0}, node.quota = 0.5;
  EXPECT_EQ(machine_key(graph), key);
  graph.nodes.front().model = "another";
  EXPECT_NE(machine_key(graph), key);
}

TEST(Profile, SituationsAreTold) {
  EXPECT_EQ(situation_of(plan::Grouping(std::vector<Rank>{0, 0}), "shm", false), "2 ranks, shm");
  EXPECT_EQ(situation_of(plan::Grouping(std::vector<Rank>{0, 0, 1, 1}), "shm+tcp", true),
            "4 ranks in groups of 2, shm+tcp, sharing cores");
}

}  // namespace
}  // namespace tutti::select
