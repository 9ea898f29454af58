// TUTTI_PLAN: plans from a file run only after they have been verified.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "base/format.hpp"
#include "plan/json.hpp"
#include "support/plans.hpp"
#include "support/scoped_env.hpp"
#include "support/thread_ranks.hpp"

namespace tutti {
namespace {

/// A file that exists during a test.
class PlanFile {
 public:
  PlanFile(const char* name, const std::string& text)
      : path_(fmt::format("{}{}-{}.json", testing::TempDir(), name, getpid())) {
    std::ofstream(path_) << text;
  }
  ~PlanFile() { std::remove(path_.c_str()); }
  PlanFile(const PlanFile&) = delete;
  PlanFile& operator=(const PlanFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// An all-reduce of three ranks that no algorithm of the library has: every rank folds 1 + 2 first, then 0.
std::string last_comes_first() {
  return plan::to_json(test::written(Collective::AllReduce, 3,
                                     [](Rank me, plan::PlanBuilder& plan) {
                                       auto lane = plan.lane();
                                       const Rank others[] = {(me + 1) % 3, (me + 2) % 3};
                                       lane.send(plan.input().all(), others);
                                       std::vector<plan::Source> order;
                                       for (const Rank r : {1, 2, 0}) {
                                         order.push_back(r == me ? plan::Source(plan.input().all()) : lane.from(r));
                                       }
                                       lane.complete(plan.output().all(), order);
                                     }),
                       "last first");
}

/// The sum of 1e30, −1e30 and 1, which reveals the order of folding; `root` is for rooted collectives.
void expect_sum_of_three(float expected) {
  with_ranks(3, [&](int rank, tuttiComm_t comm) {
    for (const size_t count : {1, 1000, 300000}) {
      const float mine[] = {1e30F, -1e30F, 1};
      const std::vector<float> in(count, mine[rank]);
      std::vector<float> out(count, -1);
      ASSERT_EQ(tuttiAllReduce(in.data(), out.data(), count, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess)
          << tuttiGetLastError();
      EXPECT_EQ(out, std::vector<float>(count, expected)) << "rank " << rank;
    }
  });
}

std::string error_of_three() {
  tuttiComm_t comms[3];
  return tuttiCommInitAll(comms, 3) == tuttiSuccess ? "no error" : tuttiGetLastError();
}

TEST(GivenPlan, RunsInsteadOfTheLibrarysOwn) {
  {
    const test::ScopedEnv algorithm("TUTTI_ALGO", "all_reduce:binomial");
    expect_sum_of_three(1);  // (1e30 − 1e30) + 1
  }
  const PlanFile file("mine", last_comes_first());
  const test::ScopedEnv given("TUTTI_PLAN", file.path());
  expect_sum_of_three(0);  // (−1e30 + 1) + 1e30
}

TEST(GivenPlan, IsNotUsedForOtherNumbersOfRanks) {
  const PlanFile file("mine", last_comes_first());
  const test::ScopedEnv given("TUTTI_PLAN", file.path());
  with_ranks(2, [](int rank, tuttiComm_t comm) {
    const auto in = static_cast<float>(rank);
    float out = -1;
    EXPECT_EQ(tuttiAllReduce(&in, &out, 1, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess);
    EXPECT_EQ(out, 1);
  });
}

TEST(GivenPlan, ServesEveryRootAndCollectiveItIsFor) {
  const PlanFile tree("tree",
                      plan::to_json(generate_all(*plan::find_algorithm(Collective::Broadcast, "binomial"), 5), "")),
      ring("ring", plan::to_json(generate_all(*plan::find_algorithm(Collective::AllReduce, "ring"), 5), "r"));
  const test::ScopedEnv given("TUTTI_PLAN", tree.path() + ":" + ring.path());
  with_ranks(5, [](int rank, tuttiComm_t comm) {
    for (int root = 0; root < 5; ++root) {
      const int in = rank == root ? 40 + root : 0;
      int out = -1, sum = -1;
      EXPECT_EQ(tuttiBroadcast(&in, &out, 1, tuttiInt32, root, comm, nullptr), tuttiSuccess);
      EXPECT_EQ(out, 40 + root);
      EXPECT_EQ(tuttiAllReduce(&out, &sum, 1, tuttiInt32, tuttiSum, comm, nullptr), tuttiSuccess);
      EXPECT_EQ(sum, 5 * (40 + root));
    }
  });
}

TEST(GivenPlan, AWrongPlanIsRefusedOnEveryRank) {
  std::string text = last_comes_first();
  const std::string operand = "\"operands\": [1, 2, [";
  text.replace(text.find(operand), operand.size(), "\"operands\": [2, 2, [");
  const PlanFile wrong("wrong", text), none("none", "[]");
  {
    const test::ScopedEnv given("TUTTI_PLAN", wrong.path());
    const std::string error = error_of_three();
    EXPECT_NE(error.find("TUTTI_PLAN: " + wrong.path() + ": the plans last first@"), std::string::npos) << error;
    EXPECT_NE(error.find(" are wrong: rank 0, lane 0, step 1: names rank 2 twice"), std::string::npos) << error;
  }
  {
    const test::ScopedEnv given("TUTTI_PLAN", none.path());
    EXPECT_NE(error_of_three().find(none.path() + ": the whole text: a list stands where an object"),
              std::string::npos);
  }
  const test::ScopedEnv given("TUTTI_PLAN", "/nowhere.json");
  EXPECT_NE(error_of_three().find("TUTTI_PLAN: /nowhere.json: No such file"), std::string::npos) << error_of_three();
}

TEST(GivenPlan, ConflictsWithForcedAlgorithmsAreErrors) {
  const PlanFile file("mine", last_comes_first());
  const test::ScopedEnv given("TUTTI_PLAN", file.path());
  {
    const test::ScopedEnv forced("TUTTI_ALGO", "all_reduce:ring");
    EXPECT_NE(error_of_three().find("where TUTTI_ALGO forces ring; unset one of them"), std::string::npos)
        << error_of_three();
  }
  {
    const test::ScopedEnv reproducible("TUTTI_REPRODUCIBLE", "1");
    EXPECT_NE(error_of_three().find("TUTTI_REPRODUCIBLE: it folds in another order"), std::string::npos)
        << error_of_three();
  }
  const test::ScopedEnv twice("TUTTI_PLAN", file.path() + ":" + file.path());
  EXPECT_NE(error_of_three().find("both are plans for all_reduce on 3 ranks"), std::string::npos) << error_of_three();
}

}  // namespace
}  // namespace tutti
