#include "select/profile.hpp"
#include "select/measured_on.hpp"

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

Profile of_gpus() {
  Profile profile{.machines = {{"Some CPU", 2, 64, 4, 0x12}},
                  .gpus = MeasuredGpus{.models = {"NVIDIA H200"}, .driver = "580.65, CUDA 13.0"},
                  .gpu_links = {{"NVLink", {2e-6, 1e-11}}, {"PCIe host bridge", {5e-6, 5e-11}}},
                  .measured = {}};
  auto& all = profile.measured["4 ranks on 4 GPUs, NVLink"][Collective::AllReduce];
  all["one_shot by ll"] = {{8, 3e-6}};
  all["one_shot by slots"] = {{8, 2e-6}};
  return profile;
}

TEST(Profile, OfGpusIsReadAsItWasWritten) {
  const Profile made = of_gpus(), read = parse_profile(made.text(), "p");
  EXPECT_EQ(read.text(), made.text());
  EXPECT_EQ(read.machines, made.machines);
  EXPECT_EQ(read.gpus, made.gpus);
  EXPECT_EQ(read.gpu_links.at("NVLink").alpha, 2e-6);
  EXPECT_NE(made.text().find(R"("method":"ll")"), std::string::npos) << "beside the algorithm";
}

/// An edit of a valid text.
std::string with(const std::string& from, const std::string& to) {
  std::string text = of_gpus().text();
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Profile, HostileDescriptionsAreRefused) {
  for (const std::string& text :
       {with(R"("key":"0000000000000012")", R"("key":"12")"), with(R"("key":"0000000000000012")", R"("key":7)"),
        with(R"("packages":2)", R"("packages":-2)"), with(R"("cores":64)", R"("cores":1e300)"),
        with("Some CPU", std::string(201, 'x')), with(R"("machines":[)", R"("machines":[3,)"),
        with(R"("models":["NVIDIA H200"])", R"("models":"NVIDIA H200")"),
        with(R"("models":["NVIDIA H200"])", R"("models":[7])"), with(R"("alpha":2e-06)", R"("alpha":-1)"),
        with(R"("method":"ll")", R"("method":"lll")"), with(R"("driver":)", R"("driven":)")}) {
    EXPECT_THROW(parse_profile(text, "p"), Error) << text;
  }
  EXPECT_EQ(parse_profile(with("Some CPU", "Some\\u001b[2JCPU"), "p").machines.front().model, "Some?[2JCPU");
}

TEST(Profile, OfAnotherMachineIsNamedWithTheDifference) {
  Profile profile = of_gpus();
  const MeasuredMachine mine{"AMD EPYC", 1, 2, 1, 0x34};
  EXPECT_EQ(
      why_of_another(profile, mine),
      "was measured on a machine with 2 packages of 32 cores each in 4 NUMA nodes (Some CPU); this one has 1 package "
      "of 2 cores (AMD EPYC)");
  profile.machines.push_back({"Some CPU", 2, 64, 4, 0x13});
  EXPECT_NE(why_of_another(profile, mine).find("(Some CPU) and 1 more; this one"), std::string::npos);
  profile.machines.push_back(mine);
  EXPECT_EQ(why_of_another(profile, mine), "") << "one of the hosts that were measured together";
  profile.machines.clear();
  EXPECT_EQ(why_of_another(profile, mine), "") << "an older version wrote it";
}

TEST(Profile, TheSameMachineIsKnownWhateverAProcessMayUseOfIt) {
  topo::Graph graph = topo::local_topology();
  const MeasuredMachine whole = measured_machine(graph);
  for (topo::Node& node : graph.nodes) node.usable = {0}, node.quota = 0.5;
  EXPECT_EQ(measured_machine(graph), whole);
  MeasuredMachine other = whole;
  other.key ^= 1;
  EXPECT_TRUE(is_same(other, whole)) << "another port is up";
  other.model = "";
  other.numa = 0;
  EXPECT_TRUE(is_same(other, whole)) << "what a container hides";
  other.packages = whole.packages + 1;
  EXPECT_FALSE(is_same(other, whole));
}

TEST(Profile, OfOtherGpusIsNamedWithTheDifference) {
  const Profile profile = of_gpus();
  EXPECT_EQ(why_of_other_gpus(profile, {{"NVIDIA H200"}, "570.1, CUDA 12.8"}), "") << "an older driver";
  EXPECT_EQ(
      why_of_other_gpus(profile, {{"NVIDIA A100", "NVIDIA H200"}, "570.1"}),
      "was measured on GPUs NVIDIA H200 (driver 580.65, CUDA 13.0); here are NVIDIA A100, NVIDIA H200 (driver 570.1)");
  EXPECT_EQ(why_of_other_gpus(measured("2 ranks, shm"), {{"NVIDIA A100"}, "570.1"}), "") << "it has none of GPUs";
}

TEST(Profile, TimesOfGpusAreThoseOfAnAlgorithmAndAMethod) {
  CostInputs inputs = inputs_here(4, 1).inputs;
  inputs.methods = {{.method = &exec::methods::slots}, {.method = &exec::methods::ll, .message = 8 << 10, .rounds = 1}};
  inputs.situation = "4 ranks on 4 GPUs, NVLink";
  inputs.profile = std::make_shared<const Profile>(of_gpus());
  const auto all = candidates(Collective::AllReduce, 8, inputs);
  ASSERT_GT(all.size(), 2u);
  EXPECT_STREQ(all[0].row.method->name, "slots");
  EXPECT_EQ(all[0].measured, 2e-6);
  EXPECT_STREQ(all[1].row.method->name, "ll");
  EXPECT_EQ(all[1].measured, 3e-6);
  EXPECT_FALSE(all[2].measured);
}

TEST(Profile, SituationsAreTold) {
  const plan::Grouping one(std::vector<Rank>{0, 0}), two(std::vector<Rank>{0, 0, 1, 1});
  EXPECT_EQ(situation_on(one, 1, "GPU", "same GPU", false), "2 ranks on 1 GPU");
  EXPECT_EQ(situation_on(one, 2, "GPU", "NVLink", true), "2 ranks on 2 GPUs, NVLink, through memory of the host");
  EXPECT_EQ(situation_on(two, 4, "GPU", "NVLink+network", false), "4 ranks in groups of 2 on 4 GPUs, NVLink+network");
  EXPECT_TRUE(is_on_processors(situation_on(one, 2, "GPU", "", false)));
  EXPECT_FALSE(is_on_processors(situation_of(one, "shm", false)));
  EXPECT_EQ(situation_of(plan::Grouping(std::vector<Rank>{0, 0}), "shm", false), "2 ranks, shm");
  EXPECT_EQ(situation_of(plan::Grouping(std::vector<Rank>{0, 0, 1, 1}), "shm+tcp", true),
            "4 ranks in groups of 2, shm+tcp, sharing cores");
}

TEST(Profile, MachinesDifferByModelAndByEachCountThatIsKnown) {
  const MeasuredMachine one{.model = "A", .packages = 2, .cores = 64, .numa = 4, .key = 1};
  const auto with = [&](const auto& change) {
    MeasuredMachine other = one;
    change(other);
    return is_same(one, other) && is_same(other, one);
  };
  EXPECT_TRUE(with([](auto& m) { m.key = 2; })) << "a device more";
  EXPECT_TRUE(with([](auto& m) { m.model = "", m.packages = 0; })) << "hidden by a container";
  EXPECT_FALSE(with([](auto& m) { m.model = "B"; }));
  EXPECT_FALSE(with([](auto& m) { m.packages = 1; }));
  EXPECT_FALSE(with([](auto& m) { m.cores = 32; }));
  EXPECT_FALSE(with([](auto& m) { m.numa = 2; }));
}

}  // namespace
}  // namespace tutti::select
