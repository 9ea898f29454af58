// Plans made for a machine: what is kept of them is read with suspicion, and they are candidates like any other.
#include "select/synthesised.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "base/private_file.hpp"
#include "plan/json.hpp"
#include "select/decision_table.hpp"
#include "select/explain.hpp"
#include "select/machine.hpp"
#include "select/synthesis.hpp"
#include "support/plans.hpp"
#include "support/scoped_env.hpp"
#include "support/topologies.hpp"
#include "topo/cluster.hpp"

namespace tutti::select {
namespace {

constexpr uint64_t kKey = 0x1f;

/// A broadcast of three ranks, from each to the next; `wrong`: the last one keeps what it had.
std::string chain(const char* name, bool wrong = false) {
  const auto plans = test::written(Collective::Broadcast, 3, [&](Rank me, plan::PlanBuilder& plan) {
    auto lane = plan.lane();
    const auto out = plan.output().all();
    if (me == 0) lane.send(plan.input().all(), 1);
    if (me == 0) lane.copy(out, plan.input().all());
    if (me > 0) lane.recv(wrong && me == 2 ? plan.scratch(1).all() : out, me - 1);
    if (me == 1) lane.send(out, 2);
  });
  return plan::to_json(plans, name);
}

SynthesisedText page() {
  return {.key = kKey,
          .ranks = 3,
          .bounds = {{Collective::Broadcast, {1e-9, 2e-6, true, "{rank 0 | ranks 1-2}"}}},
          .plans = {chain("synth")}};
}

std::string why_refused(const std::string& text, uint64_t key = kKey, Rank ranks = 3) {
  try {
    read_synthesised(text, key, ranks);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::InvalidArgument);
    return error.what();
  }
}

/// A cache folder of its own.
class Kept : public testing::Test {
 protected:
  void keep(const std::string& text) const { write_private(synthesised_path(key()), text); }
  uint64_t key() const { return synthesis_key(graph, nodes_of_plans(graph, ranks, {})); }
  std::shared_ptr<const Synthesised> found() const { return kept_synthesised(graph, ranks, {}); }
  void TearDown() override { std::filesystem::remove_all(folder); }

  const std::string folder = fmt::format("{}synth-{}", testing::TempDir(), getpid());
  const test::ScopedEnv cache{"XDG_CACHE_HOME", folder};
  const topo::Graph graph = test::sample("nccl-pcie-2-sockets.xml");
  const std::vector<topo::NodeId> ranks = place_ranks(graph, 0).nodes;
};

TEST(Synthesised, IsReadAsItWasWritten) {
  const auto read = read_synthesised(to_text(page()), kKey, 3);
  ASSERT_EQ(read->algorithms.size(), 1u);
  EXPECT_TRUE(std::string(read->algorithms.front()->name).starts_with("synth@"));
  EXPECT_EQ(read->bounds, page().bounds);
  EXPECT_EQ(read->text, to_text(page()));
  EXPECT_EQ(read->find(Collective::Broadcast, "synth"), read->algorithms.front());
  EXPECT_EQ(read->find(Collective::Broadcast, read->algorithms.front()->name), read->algorithms.front());
  EXPECT_EQ(read->find(Collective::AllGather, "synth"), nullptr);
  EXPECT_EQ(read_synthesised(to_text(page()), {}, 3)->algorithms, read->algorithms) << "the same plan is adopted once";
}

TEST(Synthesised, ATimeIsThatOfTheBytesOrOfTheWay) {
  const KnownBound bound{.seconds_per_byte = 1e-9, .seconds = 2e-6};
  EXPECT_DOUBLE_EQ(bound.of(8), 2e-6);
  EXPECT_DOUBLE_EQ(bound.of(1 << 20), 1e-9 * (1 << 20));
}

TEST(Synthesised, AWrongPlanIsRefused) {
  SynthesisedText wrong = page();
  wrong.plans = {chain("synth", true)};
  EXPECT_NE(why_refused(to_text(wrong)).find("are wrong: "), std::string::npos) << why_refused(to_text(wrong));
}

TEST(Synthesised, AnyPartOfATextIsRefused) {
  const std::string text = to_text(page());
  for (size_t bytes = 0; bytes + 1 < text.size(); bytes += 7) {
    EXPECT_NE(why_refused(text.substr(0, bytes)).find("it is damaged"), std::string::npos) << bytes;
  }
  for (const char* other : {"null", "[]", "7", "{\"format\": 3}", "{\"format\": \"tutti-profile\", \"version\": 1}"}) {
    EXPECT_NE(why_refused(other), "") << other;
  }
}

TEST(Synthesised, WhatIsOfOthersIsRefused) {
  const std::string text = to_text(page());
  EXPECT_EQ(why_refused(text, kKey + 1), "it is of the machine and ranks 000000000000001f");
  EXPECT_EQ(why_refused(text, kKey, 4), "it is for 3 ranks, where there are 4");
  SynthesisedText other = page();
  other.ranks = 4;
  EXPECT_EQ(why_refused(to_text(other), kKey, 4), "synth is for 3 ranks, where there are 4");
  other = page();
  other.plans = {chain("ring")};
  EXPECT_EQ(why_refused(to_text(other)), "a plan has the name of no synthesised one");
  other.plans = {chain("synth"), chain("synth")};
  EXPECT_EQ(why_refused(to_text(other)), "it has two plans synth for broadcast");
  other = page();
  other.bounds[Collective::Broadcast].seconds = -1;
  EXPECT_EQ(why_refused(to_text(other)), "a bound is not a time");
  other.bounds[Collective::Broadcast] = {.words = "\033[2J"};
  EXPECT_EQ(read_synthesised(to_text(other), kKey, 3)->bounds.at(Collective::Broadcast).words.find('\033'),
            std::string::npos)
      << "it is printed";
}

TEST(Synthesised, WhatTookTooLongIsRefusedOnceAndForAll) {
  SynthesisedText slow = page();
  slow.bounds[Collective::Broadcast].seconds = 17e-6;  // a text of this test's own
  const std::string text = to_text(slow);
  const auto why = [&](double seconds) {
    try {
      read_synthesised(text, kKey, 3, Deadline::in(seconds));
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_NE(why(0).find("proving them takes too long"), std::string::npos) << why(0);
  EXPECT_NE(why(1000), "") << "rank 0 does not try again at every communicator";
  EXPECT_EQ(why_refused(text), "") << "plans that another rank 0 has sent are proven, however long it takes";
  EXPECT_EQ(why(0), "") << "then they are proven";
}

TEST(Synthesised, WhatTakesTooMuchToProveIsRefusedBeforeItIsProven) {
  const auto in_parts = [](Rank parts) {
    const auto plans = test::written(Collective::Broadcast, 3, [&](Rank me, plan::PlanBuilder& plan) {
      const uint32_t cut = plan.partition(parts);
      const auto in = plan.input(cut), out = plan.output(cut);
      auto lane = plan.lane();
      for (Rank part = 0; part < parts; ++part) {
        if (me == 0) lane.send(in[part], 1);
        if (me == 0) lane.copy(out[part], in[part]);
        if (me > 0) lane.recv(out[part], me - 1);
        if (me == 1) lane.send(out[part], 2);
      }
    });
    return to_text({.key = kKey, .ranks = 3, .bounds = {}, .plans = {plan::to_json(plans, "synth")}});
  };
  EXPECT_EQ(why_refused(in_parts(2)), "");
  const std::string many = in_parts(12000);
  ASSERT_LT(many.size(), kMaxSynthesised);
  const std::string why = why_refused(many);
  EXPECT_NE(why.find("times the work that communicators spend"), std::string::npos) << why;
}

TEST(Synthesised, OnlyTheLastRefusedTextsAreRemembered) {
  std::vector<std::string> texts;
  for (int i = 0; i < 100; ++i) {
    SynthesisedText slow = page();
    slow.bounds[Collective::Broadcast].seconds = 1e-3 * (i + 1);
    texts.push_back(to_text(slow));
    EXPECT_THROW(read_synthesised(texts.back(), kKey, 3, Deadline::in(0)), Error);
  }
  EXPECT_NO_THROW(read_synthesised(texts.front(), kKey, 3, Deadline::in(1000))) << "forgotten, and so tried again";
  EXPECT_THROW(read_synthesised(texts.back(), kKey, 3, Deadline::in(1000)), Error);
}

TEST(Synthesised, WhereRanksStandIsFoundSoonOnManyCores) {
  constexpr size_t kCores = 1 << 16;
  topo::Graph host;
  const topo::NodeId root = host.add({.kind = topo::NodeKind::Host});
  for (size_t core = 0; core < kCores; ++core) host.add({.kind = topo::NodeKind::Core, .parent = root});
  const auto began = std::chrono::steady_clock::now();
  std::vector<topo::NodeId> nodes = nodes_of_plans(host, std::vector<topo::NodeId>(kCores, root), {});
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  EXPECT_LT(took.count(), 5) << "each rank's core was looked for among all of them";
  EXPECT_EQ(nodes, host.all(topo::NodeKind::Core));
}

TEST(Synthesised, RanksThatMayUseSeveralCoresStandOnDifferentOnes) {
  const topo::Graph host = test::sample("two-sockets.json");
  const topo::NodeId whole = host.all(topo::NodeKind::Host).front();
  const std::vector<topo::NodeId> cores = host.all(topo::NodeKind::Core);
  ASSERT_GE(cores.size(), 2u);
  EXPECT_EQ(nodes_of_plans(host, {cores[1], whole, whole}, {}),
            (std::vector{cores[1], cores[0], cores.size() > 2 ? cores[2] : cores[0]}));
  const topo::NodeId first = host.all(topo::NodeKind::Numa).empty() ? host.all(topo::NodeKind::Package).front()
                                                                    : host.all(topo::NodeKind::Numa).front();
  EXPECT_EQ(nodes_of_plans(host, {first, whole, whole}, {}), (std::vector{cores[0], cores[1], cores[2]}))
      << "who came first has taken its core from the others too";
  EXPECT_EQ(nodes_of_plans(host, {cores[1], cores[0]}, plan::RankOrder({1, 0})), (std::vector{cores[1], cores[0]}))
      << "0, 1 and 1, 0 are the same circle";
  EXPECT_EQ(nodes_of_plans(host, {cores[1], cores[0], cores[0]}, plan::RankOrder({0, 2, 1})),
            (std::vector{cores[1], cores[0], cores[0]}));
}

TEST(Synthesised, TheKeyIsOfWhatTimesDependOn) {
  topo::Graph graph = test::sample("nccl-pcie-2-sockets.xml");
  const std::vector<topo::NodeId> gpus = graph.all(topo::NodeKind::Gpu);
  const uint64_t key = synthesis_key(graph, gpus);
  graph.nodes.front().name = "another name";
  graph.nodes.front().usable = {0};
  EXPECT_EQ(synthesis_key(graph, gpus), key);
  EXPECT_NE(synthesis_key(graph, {gpus.rbegin(), gpus.rend()}), key);
  EXPECT_NE(synthesis_key(graph, {gpus[0], gpus[1]}), key);
  graph.links.front().gbps *= 2;
  EXPECT_NE(synthesis_key(graph, gpus), key);
}

/// Cables between hosts, of which only a job's figures tell; what any two hosts have may be calibrated anew.
TEST(Synthesised, TheKeyIsOfWhatIsKnownOfTwoHosts) {
  using topo::Figure;
  topo::Graph graph = topo::cluster(test::sample("nccl-pcie-2-sockets.xml"), 2);
  const std::vector<topo::NodeId> gpus = graph.all(topo::NodeKind::Gpu), hosts = graph.all(topo::NodeKind::Host);
  const uint64_t without = synthesis_key(graph, gpus);
  graph.figures = {{.between = Figure::Between::Hosts, .us = 9, .gbps = 3}};
  EXPECT_EQ(synthesis_key(graph, gpus), without);
  graph.figures.push_back({.between = Figure::Between::Hosts, .a = hosts[0], .b = hosts[1], .us = 9, .gbps = 3});
  const uint64_t with = synthesis_key(graph, gpus);
  EXPECT_NE(with, without);
  graph.figures.back().gbps = 1;
  EXPECT_NE(synthesis_key(graph, gpus), with);
}

TEST_F(Kept, PlansForTheseRanksAreFound) {
  EXPECT_EQ(found(), nullptr);
  const SynthesisedText made = synthesise_for(graph, ranks, inputs_of(graph, 0).inputs, [](const std::string&) {});
  EXPECT_EQ(made.key, key());
  keep(to_text(made));
  const auto all = found();
  ASSERT_NE(all, nullptr);
  for (const Collective collective : {Collective::AllGather, Collective::ReduceScatter, Collective::AllReduce,
                                      Collective::Broadcast, Collective::Reduce}) {
    EXPECT_NE(all->find(collective, "synth"), nullptr) << name_of(collective);
  }
  EXPECT_NE(all->find(Collective::Broadcast, "synth_tree"), nullptr) << "for small calls";
  EXPECT_EQ(all->bounds.size(), 6u);
  EXPECT_EQ(inputs_of(graph, 0).inputs.synthesised, all) << "it is read once";
  EXPECT_EQ(inputs_of(graph, 2).inputs.synthesised, nullptr) << "of other ranks";
  const test::ScopedEnv off("TUTTI_SYNTH", "off");
  EXPECT_EQ(found(), nullptr);
}

TEST_F(Kept, WhatTuneMeasuresIsTakenForAnyMachine) {
  const SynthesisedText made = synthesise_for(graph, ranks, inputs_of(graph, 0).inputs, [](const std::string&) {});
  const std::string path = folder + "/measured.json";
  write_private(path, to_text(made));
  topo::Graph other = graph;
  other.links.front().gbps *= 2;
  use_synthesised(path);
  const auto found = kept_synthesised(other, ranks, {});
  use_synthesised("");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->text, to_text(made));
  EXPECT_EQ(kept_synthesised(other, ranks, {}), nullptr);
}

TEST_F(Kept, WhatCannotBeTrustedIsNotUsed) {
  const SynthesisedText made = synthesise_for(graph, ranks, inputs_of(graph, 0).inputs, [](const std::string&) {});
  const std::string text = to_text(made);
  keep(text.substr(0, text.size() / 2));
  EXPECT_EQ(found(), nullptr);
  SynthesisedText other = made;
  ++other.key;
  keep(to_text(other));
  EXPECT_EQ(found(), nullptr);
  keep(text);
  chmod(synthesised_path(key()).c_str(), 0666);
  EXPECT_EQ(found(), nullptr) << "others may write to it";
  chmod(synthesised_path(key()).c_str(), 0600);
  EXPECT_NE(found(), nullptr);
}

/// Inputs of a machine, with plans made for it.
CostInputs with_plans(const topo::Graph& graph) {
  CostInputs inputs = inputs_of(graph, 0).inputs;
  const auto nodes = place_ranks(graph, 0).nodes;
  const SynthesisedText made = synthesise_for(graph, nodes, inputs, [](const std::string&) {});
  inputs.synthesised = read_synthesised(to_text(made), made.key, inputs.ranks);
  return inputs;
}

TEST(Synthesised, ABoundIsThatOfItsRoot) {
  topo::Graph chain;  // three GPUs, each behind the next
  const topo::NodeId host = chain.add({.kind = topo::NodeKind::Host});
  std::vector<topo::NodeId> numas, gpus;
  for (int i = 0; i < 3; ++i) {
    numas.push_back(chain.add({.kind = topo::NodeKind::Numa, .parent = host, .number = i}));
    gpus.push_back(chain.add({.kind = topo::NodeKind::Gpu, .parent = numas.back(), .number = i}));
    chain.connect({.a = gpus.back(), .b = numas.back(), .kind = topo::LinkKind::Pci, .gbps = 24, .us = 1});
    if (i > 0) chain.connect({numas[numas.size() - 2], numas.back(), topo::LinkKind::Socket, 1, 10, 50});
  }
  const CostInputs inputs = inputs_of(chain, 0).inputs;
  const auto seconds = [&](Rank root) {
    return known_bound(chain, gpus, Collective::Broadcast, root, inputs)->seconds;
  };
  EXPECT_DOUBLE_EQ(seconds(0), seconds(2));
  EXPECT_LT(seconds(1), seconds(0)) << "the one in the middle reaches all sooner";
}

TEST(Synthesised, IsChosenWhereItsCostWins) {
  constexpr uint64_t kLarge = 1 << 28;
  CostInputs inputs = with_plans(topo::cluster(test::sample("nccl-pcie-2-sockets.xml"), 2));
  const auto chosen = [&](Collective collective, uint64_t bytes) {
    return std::string(DecisionTable(inputs).row(collective, bytes, {}).algorithm->name);
  };
  EXPECT_TRUE(chosen(Collective::AllReduce, kLarge).starts_with("synth@")) << chosen(Collective::AllReduce, kLarge);
  EXPECT_FALSE(chosen(Collective::AllReduce, 8).starts_with("synth@"));
  const auto all = priced_candidates(Collective::AllReduce, kLarge, inputs);
  for (const Candidate& candidate : all) {
    if (candidate.rejected.empty()) {
      EXPECT_GE(candidate.seconds, all.front().seconds);
    }
  }
  // The table travels by name.
  const DecisionTable table(inputs);
  EXPECT_EQ(DecisionTable::parse(table.text(), inputs).text(), table.text());
  inputs.synthesised = nullptr;
  EXPECT_FALSE(is_synthesised(chosen(Collective::AllReduce, kLarge)));
}

TEST(Synthesised, IsForcedByName) {
  CostInputs inputs = with_plans(test::sample("nccl-pcie-2-sockets.xml"));
  inputs.forced = parse_forced("all_gather:synth");
  const std::string name = DecisionTable(inputs).row(Collective::AllGather, 8, {}).algorithm->name;
  EXPECT_TRUE(is_synthesised(name)) << name;
  inputs.forced = parse_forced("all_gather:" + name);
  EXPECT_EQ(DecisionTable(inputs).row(Collective::AllGather, 8, {}).algorithm->name, name);
  inputs.synthesised = nullptr;
  EXPECT_FALSE(is_synthesised(DecisionTable(inputs).row(Collective::AllGather, 8, {}).algorithm->name))
      << "calls on memory of GPUs are not concerned";
  inputs.methods = {UsableMethod{}};  // of memory of the host
  try {
    DecisionTable table(inputs);
    ADD_FAILURE() << "there is no plan";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::Unsupported);
    EXPECT_NE(std::string(error.what()).find("no plan is kept for these"), std::string::npos) << error.what();
  }
  EXPECT_THROW(parse_forced("all_gather:syhnt"), Error);
}

TEST(Synthesised, IsExplainedWithItsPartOfTheBound) {
  const CostInputs inputs = with_plans(test::sample("nccl-pcie-2-sockets.xml"));
  const auto all = priced_candidates(Collective::AllGather, 1 << 28, inputs);
  const std::string text = explanation(all, 1 << 28, inputs);
  EXPECT_NE(text.find("  of bound  verdict"), std::string::npos) << text;
  EXPECT_NE(text.find("bound: {ranks 0-2 | rank 3}: 10 GB/s cross, 3 blocks must -> >= 80.53 ms/GiB (rates: "
                      "published); trees reach it"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(": a plan synthesised for these ranks on this machine, 100.0 % of the bound"), std::string::npos)
      << text;
  const auto least = least_time(Collective::AllGather, 1 << 28, inputs);
  ASSERT_TRUE(least);
  EXPECT_NEAR(least->seconds, 4 * 80.53e-3 / 4, 1e-4);
  EXPECT_EQ(share_of_bound(least, 2 * least->seconds), "50.0 %");
  EXPECT_EQ(share_of_bound({}, 1), "-");
  EXPECT_EQ(least_time(Collective::Barrier, 8, inputs), std::nullopt);
}

}  // namespace
}  // namespace tutti::select
