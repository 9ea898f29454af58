// The proof rejects what is wrong: of each method, jobs with one mistake of each kind.
#include <gtest/gtest.h>

#include <functional>
#include <string_view>

#include "proof/cases.hpp"
#include "proof/run.hpp"
#include "support/prove.hpp"

namespace tutti::proof {
namespace {

using exec::Method;
namespace methods = exec::methods;

bool is_about(const Job& job, uint32_t word, std::string_view what) { return job.words[word].name.rfind(what, 0) == 0; }

/// No thread waits for words of this kind.
void drop_waits(Job& job, std::string_view what) {
  for (Thread& thread : job.threads) {
    for (Action& action : thread.actions)
      std::erase_if(action.waits, [&](const Wait& wait) { return is_about(job, wait.word, what); });
  }
}

/// The actions are taken before those that precede them.
void hurry(Job& job, std::string_view what, std::string_view before) {
  for (Thread& thread : job.threads) {
    for (size_t i = 1; i < thread.actions.size(); ++i) {
      if (thread.actions[i].what == what && thread.actions[i - 1].what == before)
        std::swap(thread.actions[i], thread.actions[i - 1]);
    }
  }
}

/// The first action of this kind that moves anything reads its first operand one element further.
void shift(Job& job, std::string_view what) {
  for (Thread& thread : job.threads) {
    for (Action& action : thread.actions) {
      if (action.what != what || action.moves.empty()) continue;
      ++action.moves[0].from[0].at;
      return;
    }
  }
}

/// The second half of memories of this kind is the first once more.
void halve(Job& job, std::string_view memory) {
  for (Thread& thread : job.threads) {
    for (Action& action : thread.actions) {
      for (Move& move : action.moves) {
        for (auto* places : {&move.from, &move.to}) {
          for (Place& place : *places) {
            const Memory& found = job.memories[place.memory];
            if (found.name.find(memory) != std::string::npos) place.at %= found.elements / 2;
          }
        }
      }
    }
  }
}

struct Mutant {
  const Method* method;
  Collective collective;
  const char* algorithm;
  const char* mistake;
  std::function<void(Job&)> make;
};
void PrintTo(const Mutant& mutant, std::ostream* out) { *out << mutant.method->name << ": " << mutant.mistake; }

std::vector<Mutant> mutants() {
  std::vector<Mutant> all;
  for (const Method* method : {&methods::lanes, &methods::slots, &methods::ll, &methods::ll128}) {
    const auto ring = [&](const char* mistake, std::function<void(Job&)> make) {
      all.push_back({method, Collective::AllReduce, "ring", mistake, std::move(make)});
    };
    ring("a message is read before it comes", [](Job& job) { drop_waits(job, "the messages on"); });
    ring("an operand is read one element further", [](Job& job) { shift(job, "move"); });
    // In a ring a message that comes says that all have read those before. Along a chain nothing but counters does.
    const auto chain = [&](const char* mistake, std::function<void(Job&)> make) {
      all.push_back({method, Collective::Broadcast, "chain", mistake, std::move(make)});
    };
    chain("a slot is written before its last message is read",
          [](Job& job) { drop_waits(job, "the consumed messages on"); });
    chain("a message is consumed before it is read", [](Job& job) { hurry(job, "publish, consume", "move"); });
  }
  const auto add = [&](const Method& method, Collective collective, const char* algorithm, const char* mistake,
                       std::function<void(Job&)> make) {
    all.push_back({&method, collective, algorithm, mistake, std::move(make)});
  };
  add(methods::lanes, Collective::AllReduce, "double_tree", "a lane does not wait for another",
      [](Job& job) { drop_waits(job, "the progress of"); });
  const auto copies = [&](const char* mistake, std::function<void(Job&)> make) {
    add(methods::copy_engine, Collective::AllToAll, "one_shot", mistake, std::move(make));
  };
  copies("a slot is filled before it is free", [](Job& job) { drop_waits(job, "the word free"); });
  copies("a message is copied before it comes", [](Job& job) { drop_waits(job, "the tag"); });
  copies("a slot is free before its message is copied", [](Job& job) { hurry(job, "tell free", "store"); });
  copies("a word is set anew before it is reset", [](Job& job) { hurry(job, "reset free", "await free"); });
  copies("there is one slot", [](Job& job) { halve(job, "staging memory"); });
  const auto nvls = [&](const char* mistake, std::function<void(Job&)> make) {
    add(methods::nvls, Collective::AllReduce, "two_shot", mistake, std::move(make));
  };
  nvls("nothing waits for the signals", [](Job& job) { drop_waits(job, "rank 1's signal"); });
  nvls("the windows are signalled before they are there", [](Job& job) { hurry(job, "signal", "copy in"); });
  nvls("a part is read one element further", [](Job& job) { shift(job, "fold"); });
  nvls("there is one slot", [](Job& job) { halve(job, "slots"); });
  return all;
}

constexpr uint64_t kMoreRounds = 20;  // than any link has slots

class Mutants : public testing::TestWithParam<Mutant> {};

TEST_P(Mutants, AreRejected) {
  const Mutant& mutant = GetParam();
  for (const Rank n : {4, 8}) {
    const auto plans = plan::Candidate{mutant.collective, mutant.algorithm}.plans(n);
    Setting setting = settings_of(*mutant.method, plans.front()).front().setting;
    setting.geometry.count += kMoreRounds * setting.geometry.window;
    Job job = job_of(plans, setting);
    ASSERT_TRUE(prove(job)) << prove(job).reason;
    mutant.make(job);
    const plan::Verdict verdict = prove(job);
    EXPECT_FALSE(verdict) << n << " ranks";
    EXPECT_NE(verdict.reason.find("rank "), std::string::npos) << verdict.reason;
    RecordProperty(fmt::format("reason_{}", n), verdict.reason);
    if (n == 4) std::cout << verdict.reason << "\n";
  }
}

INSTANTIATE_TEST_SUITE_P(Proof, Mutants, testing::ValuesIn(mutants()));

}  // namespace
}  // namespace tutti::proof
