// Plans that were made for a job's topology run in its communicators.
#include "select/synthesised.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include "base/format.hpp"
#include "base/private_file.hpp"
#include "select/machine.hpp"
#include "select/synthesis.hpp"
#include "support/scoped_env.hpp"
#include "support/thread_ranks.hpp"
#include "topo/cores.hpp"
#include "topo/graph_json.hpp"

namespace tutti {
namespace {

constexpr const char* kForced = "all_gather:synth,reduce_scatter:synth,all_reduce:synth,broadcast:synth,reduce:synth";
using Forced = std::map<Collective, std::string>;

/// A cache folder of its own.
class SynthesisedPlans : public testing::Test {
 protected:
  /// As `tutti tune --synth` does it: from the topology that the job's communicator says it has. `words`: of bounds, in
  /// place of what they say.
  std::shared_ptr<const select::Synthesised> make_plans(int ranks, const std::string& words = "") const {
    const std::string dump = folder + "/job.json";
    {
      const test::ScopedEnv dumps("TUTTI_TOPO_DUMP_FILE", dump);
      with_ranks(ranks, [](int, tuttiComm_t) {});
    }
    const topo::Graph graph = topo::graph_of_json(read_file(dump, 1 << 20, true).value_or(""), "the job's");
    const select::CostInputs inputs = select::inputs_of(graph, 0).inputs;
    auto page = select::synthesise_for(graph, graph.ranks, inputs, [](const std::string&) {});
    for (const Collective collective : {Collective::AllGather, Collective::AllReduce}) {
      if (!words.empty()) page.bounds[collective].words = words;
    }
    write_private(select::synthesised_path(page.key), select::to_text(page));
    return select::read_synthesised(select::to_text(page), page.key, ranks);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  const std::string folder = fmt::format("{}synth-plans-{}", testing::TempDir(), getpid());
  const test::ScopedEnv cache{"XDG_CACHE_HOME", folder};
  const test::ScopedEnv profile{"TUTTI_PROFILE", "off"};
};

std::string algorithm_of(tuttiComm_t comm) {
  tuttiCallInfo info{.size = sizeof info};
  EXPECT_EQ(tuttiCommGetLastCall(comm, &info), tuttiSuccess);
  return info.algorithm;
}

/// Element i of rank r's input: its sums over ranks differ for every set of ranks, and fit.
int element(int rank, size_t i) { return static_cast<int>((i * 2654435761U) % 10007U) * (1 << (2 * rank)) + rank; }

std::vector<int> input(int rank, size_t first, size_t count) {
  std::vector<int> all(count);
  for (size_t i = 0; i < count; ++i) all[i] = element(rank, first + i);
  return all;
}

std::vector<int> sum(int ranks, size_t first, size_t count) {
  std::vector<int> all(count);
  for (int rank = 0; rank < ranks; ++rank) {
    for (size_t i = 0; i < count; ++i) all[i] += element(rank, first + i);
  }
  return all;
}

/// `forced`: the beginnings of algorithms' names.
void expect_right_results(int ranks, int rank, size_t count, tuttiComm_t comm, const Forced& forced) {
  const auto n = static_cast<size_t>(ranks);
  const auto mine = input(rank, 0, count), whole = input(rank, 0, n * count);
  const auto ran = [&](Collective collective, tuttiResult_t result) {
    ASSERT_EQ(result, tuttiSuccess) << tuttiGetLastError();
    const auto name = forced.find(collective);
    if (count == 0 || name == forced.end()) return;
    EXPECT_TRUE(algorithm_of(comm).starts_with(name->second)) << algorithm_of(comm) << ", not " << name->second;
  };
  std::vector<int> gathered(n * count, -1), expected;
  for (int r = 0; r < ranks; ++r) {
    const auto block = input(r, 0, count);
    expected.insert(expected.end(), block.begin(), block.end());
  }
  ran(Collective::AllGather, tuttiAllGather(mine.data(), gathered.data(), count, tuttiInt32, comm, nullptr));
  EXPECT_EQ(gathered, expected) << "rank " << rank << ", " << count << " elements";
  std::vector<int> part(count, -1);
  ran(Collective::ReduceScatter,
      tuttiReduceScatter(whole.data(), part.data(), count, tuttiInt32, tuttiSum, comm, nullptr));
  EXPECT_EQ(part, sum(ranks, static_cast<size_t>(rank) * count, count)) << "rank " << rank;
  std::vector<int> all(count, -1);
  ran(Collective::AllReduce, tuttiAllReduce(mine.data(), all.data(), count, tuttiInt32, tuttiSum, comm, nullptr));
  EXPECT_EQ(all, sum(ranks, 0, count)) << "rank " << rank;
  all = mine;
  ran(Collective::AllReduce, tuttiAllReduce(all.data(), all.data(), count, tuttiInt32, tuttiSum, comm, nullptr));
  EXPECT_EQ(all, sum(ranks, 0, count)) << "rank " << rank << ", in place";
  for (int root = 0; root < ranks; ++root) {
    std::vector<int> told(count, -1), folded(count, -1);
    ran(Collective::Broadcast, tuttiBroadcast(mine.data(), told.data(), count, tuttiInt32, root, comm, nullptr));
    EXPECT_EQ(told, input(root, 0, count)) << "rank " << rank << " of root " << root;
    ran(Collective::Reduce, tuttiReduce(mine.data(), folded.data(), count, tuttiInt32, tuttiSum, root, comm, nullptr));
    if (rank == root) {
      EXPECT_EQ(folded, sum(ranks, 0, count)) << "root " << root;
    }
  }
}

TEST_F(SynthesisedPlans, RunWhereTheyAreForced) {
  for (const int ranks : {2, 3, 5}) {
    make_plans(ranks);
    Forced all;
    for (const Collective collective : {Collective::AllGather, Collective::ReduceScatter, Collective::AllReduce,
                                        Collective::Broadcast, Collective::Reduce}) {
      all[collective] = "synth@";
    }
    const test::ScopedEnv forced("TUTTI_ALGO", kForced);
    with_ranks(ranks, [&](int rank, tuttiComm_t comm) {
      for (const size_t count : {0, 1, 7, 1000, 100003}) expect_right_results(ranks, rank, count, comm, all);
    });
  }
}

TEST_F(SynthesisedPlans, ForSmallCallsRunToo) {
  constexpr int kRanks = 4;
  std::map<Collective, std::vector<std::string>> names;
  for (const plan::Algorithm* one : make_plans(kRanks)->algorithms) {
    if (!std::string(one->name).starts_with("synth@")) names[one->collective].emplace_back(one->name);
  }
  EXPECT_EQ(names.size(), 5u);
  for (size_t i = 0; std::any_of(names.begin(), names.end(), [&](const auto& all) { return i < all.second.size(); });
       ++i) {
    Forced all;
    std::string words;
    for (const auto& [collective, some] : names) {
      if (i >= some.size()) continue;
      all[collective] = some[i];
      words += fmt::format("{}{}:{}", words.empty() ? "" : ",", name_of(collective), some[i]);
    }
    const test::ScopedEnv forced("TUTTI_ALGO", words);
    with_ranks(kRanks, [&](int rank, tuttiComm_t comm) {
      for (const size_t count : {0, 1, 7, 20001}) expect_right_results(kRanks, rank, count, comm, all);
    });
  }
}

TEST_F(SynthesisedPlans, ThatAreNotThereCannotBeForced) {
  make_plans(3);
  const test::ScopedEnv forced("TUTTI_ALGO", kForced);
  const auto error_of = [](int ranks) {
    tuttiComm_t comms[4];
    return tuttiCommInitAll(comms, ranks) == tuttiSuccess ? "no error" : std::string(tuttiGetLastError());
  };
  EXPECT_NE(error_of(4).find("no plan is kept for these 4 ranks"), std::string::npos) << error_of(4);
  with_ranks(1, [](int, tuttiComm_t comm) {
    const int in = 7;
    int out = -1;
    EXPECT_EQ(tuttiAllReduce(&in, &out, 1, tuttiInt32, tuttiSum, comm, nullptr), tuttiSuccess) << "one rank needs none";
    EXPECT_EQ(out, 7);
  });
  const test::ScopedEnv off("TUTTI_SYNTH", "off");
  EXPECT_NE(error_of(3).find("no plan is kept for these 3 ranks"), std::string::npos) << error_of(3);
}

TEST_F(SynthesisedPlans, ThatAreDamagedLeaveTheLibrarysOwn) {
  make_plans(3);
  for (const auto& file : std::filesystem::directory_iterator(folder + "/tutti")) {
    if (!file.path().filename().string().starts_with("synth-")) continue;
    const std::string text = read_file(file.path(), 1 << 20, true).value_or("");
    ASSERT_FALSE(text.empty());
    write_private(file.path(), text.substr(0, text.size() - 100));
  }
  with_ranks(3, [](int rank, tuttiComm_t comm) {
    const int in = 1 << rank;
    int out = -1;
    EXPECT_EQ(tuttiAllReduce(&in, &out, 1, tuttiInt32, tuttiSum, comm, nullptr), tuttiSuccess);
    EXPECT_EQ(out, 7);
    EXPECT_FALSE(select::is_synthesised(algorithm_of(comm)));
  });
}

/// A bound that was kept with plans is of the figures of that time: `tutti tune` and the calibration may have changed
/// them, which the plans' key does not say.
TEST_F(SynthesisedPlans, AreExplainedWithTheBoundOfNow) {
  const test::ScopedEnv explains("TUTTI_EXPLAIN", "1"), level("TUTTI_LOG", "info");
  for (const int ranks : {2, 5}) {
    make_plans(ranks, "{a cut of another time}");
    testing::internal::CaptureStderr();
    with_ranks(ranks, [&](int rank, tuttiComm_t comm) {
      const auto n = static_cast<size_t>(ranks);
      std::vector<int> in(n, rank), all(n, -1);
      EXPECT_EQ(tuttiAllGather(&rank, all.data(), 1, tuttiInt32, comm, nullptr), tuttiSuccess);
      EXPECT_EQ(tuttiAllReduce(in.data(), all.data(), n, tuttiInt32, tuttiSum, comm, nullptr), tuttiSuccess);
    });
    const std::string said = testing::internal::GetCapturedStderr();
    for (const char* call : {"why all_gather(", "why all_reduce("}) {
      EXPECT_NE(said.find(call), std::string::npos) << said;
    }
    EXPECT_EQ(said.find("a cut of another time"), std::string::npos) << said;
    if (static_cast<size_t>(ranks) > allowed_cores().size()) continue;  // no bound is known of them
    EXPECT_NE(said.find("\n  bound: {rank"), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace tutti
