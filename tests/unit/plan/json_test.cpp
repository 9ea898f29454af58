// Plans as JSON: written plans can be read again, and foreign text is checked completely.
#include "plan/json.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/format.hpp"
#include "support/plans.hpp"
#include "support/shapes.hpp"

namespace tutti::plan {
namespace {

namespace fs = std::filesystem;

/// The content of a plan, independent of the order of its tables.
std::string essence(const RankPlan& plan) {
  std::string text = fmt::format("{} {} {} {} {}", name_of(plan.shape.collective), plan.shape.ranks, plan.rank,
                                 plan.scratch_blocks, plan.grain);
  for (uint32_t p = 0; p < plan.partitions.size(); ++p) {
    for (uint32_t i = 0; i <= plan.partitions[p].parts; ++i) {
      text += fmt::format(" {}/{}", boundary(plan, p, i).num, boundary(plan, p, i).den);
    }
  }
  const auto pieces = [&](Range range) {
    for (uint32_t i = range.begin; i < range.end; ++i) {
      const Piece& p = plan.pieces[i];
      text += fmt::format(" {}.{}.{}.{}.{}", static_cast<int>(p.buffer), p.block, p.partition, p.first, p.last);
    }
  };
  for (const Lane& lane : plan.lanes) {
    text += fmt::format("\nlane {}", lane.steps.size());
    for (uint32_t s = lane.steps.begin; s < lane.steps.end; ++s) {
      const Step& step = plan.steps[s];
      text += fmt::format("\n{} {} {} {} {}:", static_cast<int>(step.kind), static_cast<int>(step.shape),
                          step.completes, static_cast<int>(step.lend), step.after);
      pieces(step.pieces);
      for (uint32_t i = step.peers.begin; i < step.peers.end; ++i) text += fmt::format(" >{}", plan.peers[i]);
      for (uint32_t i = step.operands.begin; i < step.operands.end; ++i) {
        text += fmt::format(" ={}", plan.operands[i].peer);
        pieces(plan.operands[i].pieces);
      }
    }
  }
  return text;
}

std::string error_of(const std::string& text, Proof proof = Proof::Demand) {
  try {
    from_json(text, proof);
  } catch (const Error& error) {
    const bool large = std::string(error.what()).find("too large to prove") != std::string::npos;
    EXPECT_EQ(error.code(), large ? Code::Unsupported : Code::InvalidArgument);
    return error.what();
  }
  return "accepted";
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const size_t at = text.find(what);
  if (at == std::string::npos) throw_error(Code::InternalError, "{} is not in the text", what);
  return text.replace(at, what.size(), with);
}

std::string ring(Rank ranks) {
  return to_json(generate_all(*find_algorithm(Collective::AllReduce, "ring"), ranks), "ring");
}

class RoundTrip : public testing::TestWithParam<const Algorithm*> {};

TEST_P(RoundTrip, GivesTheSamePlans) {
  for (const Rank n : {1, 2, 3, 4, 5, 7, 8, 12}) {
    const std::vector<Shape> shapes = test::shapes_of(*GetParam(), n);
    if (shapes.empty()) continue;
    const std::vector<RankPlan> written = generate_all(*GetParam(), shapes.back());
    const std::string text = to_json(written, GetParam()->name);
    const PlanSet set = from_json(text);
    ASSERT_EQ(set.plans.size(), written.size());
    EXPECT_EQ(set.name, GetParam()->name);
    for (size_t r = 0; r < written.size(); ++r) {
      ASSERT_EQ(essence(set.plans[r]), essence(written[r])) << "n = " << n << ", rank " << r;
    }
    EXPECT_EQ(to_json(set.plans, set.name), text);
    EXPECT_EQ(hash_of(from_json(text, Proof::Omit).plans), hash_of(set.plans));
  }
}
INSTANTIATE_TEST_SUITE_P(Catalogue, RoundTrip, testing::ValuesIn(test::catalogue()),
                         [](const auto& tested) { return test::name_of(*tested.param); });

TEST(PlanJson, HasUnevenPartitionsFoldTreesAndWaitsOfLanes) {
  const auto plans = test::written(Collective::AllReduce, 2, [](Rank me, PlanBuilder& plan) {
    const Fraction bounds[] = {{0, 1}, {1, 3}, {1, 1}};
    const uint32_t uneven = plan.partition(bounds);
    auto first = plan.lane(), second = plan.lane();
    const StepRef sent = first.send(plan.input(uneven).chunks(0, 0, 2), 1 - me);
    const StepRef copied = second.after(sent).copy(plan.scratch(1).all(), plan.input().all());
    first.after(copied).complete(plan.output(uneven).chunks(0, 0, 2),
                                 {plan.input(uneven).chunks(0, 0, 2), first.from(1 - me)}, FoldShape::Tree);
  });
  const std::string text = to_json(plans, "");
  EXPECT_NE(text.find("[1, [[0, 1], [1, 3], [1, 1]]]"), std::string::npos) << text;
  EXPECT_NE(text.find("\"after\": [0, 0]"), std::string::npos) << text;
  const PlanSet set = from_json(text);
  EXPECT_EQ(essence(set.plans[1]), essence(plans[1]));
  EXPECT_EQ(set.name, "");
}

TEST(PlanJson, NamesThePositionOfAWrongValue) {
  const std::string good = ring(3);
  ASSERT_EQ(error_of(good), "accepted");
  const struct {
    const char *what, *with, *says;
  } cases[] = {
      {"tutti-plan", "tutti-plot", "/format: the format is \"tutti-plan\""},
      {"\"version\": 1", "\"version\": 2", "/version: 2 stands where a whole number from 1 to 1 belongs"},
      {"all_reduce", "all_produce", "/collective: \"all_produce\" stands where one of these belongs: all_reduce, "},
      {"\"ranks\": 3", "\"ranks\": 4", "there are plans of 3 ranks, where \"ranks\" is 4"},
      {"\"ranks\": 3", "\"ranks\": 4000000000", "/ranks: 4000000000 stands where a whole number from 1 to 16384"},
      {"\"ranks\": 3", "\"ranks\": 3.0", "/ranks: 3.0 stands where a whole number"},
      {"\"ranks\": 3", "\"ranks\": -3", "/ranks: -3 stands where a whole number"},
      {"\"ranks\": 3", "\"ranks\": 99999999999999999999999", "e+22 stands where a whole number"},
      {"\"ranks\": 3, ", "", "the whole text: the key \"ranks\" is missing"},
      {"\"grain\": 3", "\"grain\": 0", "/grain: 0 stands where"},
      {"\"ranks\": 3", "\"ranks\": 3, \"ranks\": 3", "/ranks: the key \"ranks\" stands there twice"},
      {"\"ranks\": 3", "\"ranks\": 3, \"colour\": 1", "there is a key \"colour\", which is not known here; known are"},
      {"\"name\": \"ring\"", "\"name\": \"\\n\"", "/name: a name has at most 64 characters"},
      {"{\"rank\": 1", "{\"rank\": 2", "/plans/1/rank: 2 stands where a whole number from 1 to 1 belongs"},
      {"\"partitions\": [1", "\"partitions\": [[[0, 1], [1, 0]]", "/plans/0/partitions/0/1/1: 0 stands where"},
      {"\"partitions\": [1", "\"partitions\": [[]", "/plans/0/partitions/0: 0 bounds; a partition has 2 to"},
      {"\"partitions\": [1", "\"partitions\": [1048577", "/plans/0/partitions/0: 1048577 stands where"},
      {"\"do\": \"send\"", "\"do\": 7", "/plans/0/lanes/0/0/do: 7 stands where one of these belongs: copy, send, "},
      {"\"do\": \"send\", ", "", "/plans/0/lanes/0/0: the key \"do\" is missing"},
      {"\"do\"", "\"too\"", "/plans/0/lanes/0/0: there is a key \"too\", which is not known here"},
      {"[[\"in\", 0", "[[\"inn\", 0", "/plans/0/lanes/0/0/pieces/0/0: \"inn\" stands where one of these belongs"},
      {"[[\"in\", 0", "[[\"in\", null", "/plans/0/lanes/0/0/pieces/0/1: null stands where a whole number"},
      {"[[\"in\", 0", "[[\"in\"", "/pieces/0: a list of 4 stands where five entries (buffer, "},
      {"\"peers\": [1]", "\"peers\": 1", "/plans/0/lanes/0/0/peers: 1 stands where a list belongs"},
      {"\"peers\": [1]", "\"peers\": [16384]", "/plans/0/lanes/0/0/peers/0: 16384 stands where"},
      {"\"completes\": true", "\"completes\": 1", "/completes: 1 stands where true or false belongs"},
      {"\"lanes\": [\n   [", "\"lanes\": [\n   [17, ", "/plans/0/lanes/0/0: 17 stands where an object belongs"},
      {"\"lanes\": [", "\"lanes\": [{\"a\": {}}, ", "/plans/0/lanes/0: an object stands where a list belongs"},
      {"\"plans\": [", "\"plans\": [[], ", "/plans/0: a list stands where an object belongs"},
  };
  for (const auto& c : cases) {
    EXPECT_NE(error_of(replaced(good, c.what, c.with)).find(c.says), std::string::npos)
        << c.with << ": " << error_of(replaced(good, c.what, c.with));
  }
  EXPECT_NE(error_of(replaced(good, "\"peers\": [1]", "\"peers\": [1], \"after\": [0, 999]"))
                .find("/plans/0: lane 0, step 0: it comes after lane 0, step 999, which is not there"),
            std::string::npos);
  EXPECT_NE(
      error_of(replaced(good, "\"lanes\": [", "\"lanes\": {\"a\": [{}]}, \"x\": [")).find("/plans/0: there is a key"),
      std::string::npos);
}

TEST(PlanJson, ReturnsNoUnverifiedPlans) {
  const std::string cyclic = replaced(ring(3), "\"do\": \"send\", \"pieces\": [[\"in\", 0, 1, 0, 1]], \"peers\": [1]",
                                      "\"do\": \"recv\", \"pieces\": [[\"out\", 0, 1, 0, 1]], \"peers\": [2]");
  EXPECT_EQ(error_of(cyclic).find("the plans are wrong: rank "), 0u) << error_of(cyclic);
  EXPECT_EQ(error_of(cyclic, Proof::Omit), "accepted");
  const std::string outside = replaced(ring(3), "[[\"in\", 0, 1, 0, 1]]", "[[\"in\", 4294967295, 9, 7, 3]]");
  EXPECT_NE(error_of(outside).find("rank 0, lane 0, step 0: names block 4294967295"), std::string::npos);
  const std::string heavy = replaced(ring(3), "\"scratch\": ", "\"scratch\": 400000000");
  EXPECT_EQ(error_of(heavy).find("the plans are too large to prove"), 0u) << error_of(heavy);
  EXPECT_EQ(error_of(R"({"format": "tutti-plan", "version": 1, "collective": "send_recv", "ranks": 1, "grain": 1,
                         "plans": [{"rank": 0, "partitions": [1], "lanes": []}]})")
                .find("the plans are wrong: plans of send_recv cannot be proven"),
            0u);
}

/// `plans` as the only content of a document.
std::string document(const std::string& plans) {
  return R"({"format": "tutti-plan", "version": 1, "collective": "all_reduce", "ranks": 2, "grain": 1, "plans": )" +
         plans;
}

TEST(PlanJson, RefusesHostileTextsInBoundedTimeAndMemory) {
  constexpr size_t kMax = kMaxPlanText - 4096;
  const std::string lanes = R"([{"rank": 0, "partitions": [1], "lanes": [)";
  const struct {
    std::string before, unit, after;  // `unit` repeated to the maximum size
    const char* says;
  } cases[] = {
      {"", "", "", "this is no JSON"},
      {"{", "", "", "this is no JSON"},
      {"\xff\xfe", "", "", "this is no JSON"},
      {document("[{]"), "", "", "this is no JSON"},
      {"7", "", "", "the whole text: 7 stands where an object belongs"},
      {"", " ", std::string(8192, ' '), "plans take over 64 MiB of text"},
      {"", "\n", "", "line ends and tabs"},
      {"", "[", "", "nested more than 10 deep"},
      {"", "{\"a\":", "", "nested more than 10 deep"},
      {document(""), "[", "", "/plans/0/0/0/0/0/0/0/0/0: lists and objects are nested more than 10 deep"},
      {"[", "7,", "", "over 1048576 values"},
      {"[", "[],", "", "over 1048576 values"},
      {"{\"junk\": \"", "a", "\"}", "/junk: a text of"},
      {"{\"", "a", "\": 1}", "a key of"},
      {"\"", "a", "", "this is no JSON"},
      {"", "7", "", "this is no JSON: number overflow"},
      {document(lanes), "[],", "", "/plans/0/lanes/64: over 64 lanes of a rank"},
      {document("["), R"({"rank": 0, "partitions": [1], "lanes": []},)", "", "/plans/1/rank: 0 stands"},
      {document(lanes + "["), R"({"do":"send"},)", "", "this is no JSON"},
      {document(lanes + R"([{"do": "send", "peers": [)"), "1,", "", "/plans/0/lanes/0/0/peers/"},
      {document(R"([{"rank": 0, "partitions": [[)"), "[1,2],", "", "/plans/0/partitions/0/"},
  };
  for (const auto& c : cases) {
    std::string text = c.before;
    text.reserve(kMax + 8192);
    while (text.size() < kMax && !c.unit.empty()) text += c.unit;
    text += c.after;
    const std::string says = error_of(text);
    EXPECT_NE(says.find(c.says), std::string::npos) << text.substr(0, 200) << ": " << says;
    EXPECT_LE(says.size(), 500u);
  }
}

TEST(PlanJson, OfFilesNamesTheFile) {
  const auto error = [](const std::string& path) {
    try {
      load_plans(path);
    } catch (const Error& caught) {
      return std::string(caught.what());
    }
    return std::string("accepted");
  };
  const std::string file = testing::TempDir() + "/plan.json";
  std::ofstream(file) << ring(4);
  EXPECT_EQ(error(file), "accepted");
  EXPECT_EQ(load_plans(file).plans.size(), 4u);
  std::ofstream(file) << "{}";
  EXPECT_EQ(error(file), file + ": the whole text: the key \"format\" is missing");
  fs::resize_file(file, kMaxPlanText + (100 << 20));  // sparse
  EXPECT_NE(error(file).find(file + ": plans take over 64 MiB"), std::string::npos) << error(file);
  fs::remove(file);
  EXPECT_EQ(error(file), file + ": No such file or directory");
  EXPECT_EQ(error("/dev/zero"), "/dev/zero: this is not a regular file");
  EXPECT_NE(error(testing::TempDir()).find("not a regular file"), std::string::npos);
}

}  // namespace
}  // namespace tutti::plan
