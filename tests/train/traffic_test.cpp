// The formulas of traffic, and what ranks really send: with the algorithms that the formulas are of, the bytes of the
// plans that ran are the same, over all ranks.
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "train/curves.hpp"

namespace tutti::train {
namespace {

/// While it lives, communicators use the algorithms that send as few bytes as any.
class LeastBytes {
 public:
  LeastBytes() {
    check(tuttiSetDefault("TUTTI_ALGO",
                          "all_reduce:ring,all_gather:ring,reduce_scatter:ring,all_to_all:pairwise,broadcast:chain"));
  }
  ~LeastBytes() { (void)tuttiSetDefault("TUTTI_ALGO", ""); }
  LeastBytes(const LeastBytes&) = delete;
  LeastBytes& operator=(const LeastBytes&) = delete;
};

struct Sum {
  double formula = 0, sent = 0;
};

/// Of two steps, over all ranks, by communicator.
std::map<std::string, Sum> sums_of(const TrainOptions& options) {
  const LeastBytes forced;
  std::map<std::string, Sum> sums;
  std::mutex mutex;
  run_world(static_cast<int>(options.mesh.ranks()), [&](Communicator& comm) {
    Trainer trainer(comm, options, sample_text());
    const std::vector<Traffic> before = trainer.traffic();
    for (int i = 0; i < 2; ++i) trainer.step();
    const std::vector<Traffic> after = trainer.traffic();
    const std::lock_guard lock(mutex);
    for (size_t i = 0; i < after.size(); ++i) {
      sums[after[i].name].formula += after[i].formula - before[i].formula;
      sums[after[i].name].sent += static_cast<double>(after[i].sent - before[i].sent);
    }
  });
  return sums;
}

void expect_formula(const TrainOptions& options, const std::vector<const char*>& used) {
  SCOPED_TRACE(describe(options));
  std::map<std::string, Sum> sums = sums_of(options);
  for (const auto& [name, sum] : sums) EXPECT_NEAR(sum.sent, sum.formula, 1e-6 * sum.formula) << name;
  for (const char* name : used) EXPECT_GT(sums[name].sent, 1000) << name;
}

TEST(Traffic, OfDataParallelismIsTheFormulas) {
  for (const auto mode : {DataParallelMode::Ddp, DataParallelMode::ParameterServer, DataParallelMode::Zero1,
                          DataParallelMode::Zero2, DataParallelMode::Zero3}) {
    for (const int ranks : {2, 4}) {
      TrainOptions options = small_gpt();
      options.mesh.dp = ranks;
      options.data_parallel.mode = mode;
      expect_formula(options, {"replicas"});
    }
  }
}

TEST(Traffic, OfTensorAndSequenceParallelismIsTheFormulas) {
  for (const bool sequence : {false, true}) {
    TrainOptions options = small_gpt();
    options.mesh.tp = 4;
    options.sequence_parallel = sequence;
    expect_formula(options, {"tp"});
  }
}

TEST(Traffic, OfContextParallelismIsTheFormulas) {
  for (const ContextMode mode : {ContextMode::Ring, ContextMode::Ulysses}) {
    TrainOptions options = small_gpt();
    options.mesh.cp = 4;
    options.context = mode;
    expect_formula(options, {"cp", "replicas"});
  }
}

TEST(Traffic, OfExpertsAndPipelinesIsTheFormulas) {
  TrainOptions options = small_gpt();
  options.mesh = {.pp = 2, .ep = 2};
  options.micro_batches = 4;
  options.moe.experts = 4;
  expect_formula(options, {"ep", "replicas", "stages"});
}

}  // namespace
}  // namespace tutti::train
