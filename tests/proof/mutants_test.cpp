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

/// No thread waits for words of this kind, but to begin or end a call or a round.
void drop_waits(Job& job, std::string_view what) {
  for (Thread& thread : job.threads) {
    for (Action& action : thread.actions)
      if (!action.ends && action.what != std::string_view("enter"))
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
  for (const auto& [collective, algorithm] :
       {std::pair(Collective::AllReduce, "two_shot"), std::pair(Collective::ReduceScatter, "one_shot"),
        std::pair(Collective::AllGather, "one_shot")}) {
    const auto nvls = [&](const char* mistake, std::function<void(Job&)> make) {
      add(methods::nvls, collective, algorithm, mistake, std::move(make));
    };
    nvls("nothing waits for the signals", [](Job& job) { drop_waits(job, "rank 1's signal"); });
    nvls("a part is read one element further", [](Job& job) { shift(job, "fold"); });
    nvls("there is one slot", [](Job& job) { halve(job, "slots"); });
    if (collective == Collective::AllGather) continue;  // it copies nothing in
    nvls("the windows are signalled before they are there", [](Job& job) { hurry(job, "signal", "copy in"); });
  }
  return all;
}

constexpr uint64_t kMoreRounds = 20;  // than any link has slots

class Mutants : public testing::TestWithParam<Mutant> {};

TEST_P(Mutants, AreRejected) {
  const Mutant& mutant = GetParam();
  for (const Rank n : {4, 8}) {
    const auto plans = plan::Candidate{mutant.collective, mutant.algorithm}.plans(n);
    CallCase how = cases_of(*mutant.method, plans.front()).front();
    how.geometry.count += kMoreRounds * how.geometry.window;
    Job job = job_of(plans, how);
    ASSERT_TRUE(prove(job)) << prove(job).reason;
    mutant.make(job);
    const plan::Verdict verdict = prove(job);
    EXPECT_FALSE(verdict) << n << " ranks";
    EXPECT_NE(verdict.reason.find("rank "), std::string::npos) << verdict.reason;
  }
}

INSTANTIATE_TEST_SUITE_P(Proof, Mutants, testing::ValuesIn(mutants()));

/// A mistake in lowering: of one rank's program, or of all.
struct Miscompiled {
  const char* mistake;
  Collective collective;
  const char* algorithm;
  std::function<void(exec::Program&)> make;
};
void PrintTo(const Miscompiled& one, std::ostream* out) { *out << one.mistake; }

/// Calls visit(window, instruction) for those of all rounds.
template <class Visit>
void each_op(exec::Program& program, const Visit& visit) {
  for (exec::WindowProgram* window : {&program.full, &program.last}) {
    for (exec::Instruction& op : window->ops) visit(*window, op);
  }
}

std::vector<Miscompiled> mistakes() {
  constexpr Collective kAllReduce = Collective::AllReduce;
  return {
      {"a segment begins one element further", kAllReduce, "two_shot",
       [](exec::Program& program) {
         each_op(program, [](auto& window, auto& op) {
           if (op.bytes > 64 && op.sources > 1) window.segments[op.segments.begin].to.offset += 64;
         });
       }},
      {"two operands change places", kAllReduce, "two_shot",
       [](exec::Program& program) {
         each_op(program, [](auto& window, auto& op) {
           for (uint32_t s = op.segments.begin; s < op.segments.end && op.sources > 1; ++s) {
             std::swap(window.sources[window.segments[s].sources], window.sources[window.segments[s].sources + 1]);
           }
           if (op.arrivals.end - op.arrivals.begin > 1) {
             std::swap(window.arrivals[op.arrivals.begin], window.arrivals[op.arrivals.begin + 1]);
           }
         });
       }},
      {"a fold is a copy", kAllReduce, "ring",
       [](exec::Program& program) {
         each_op(program, [](auto&, auto& op) { op.sources = std::min(op.sources, 1U); });
       }},
      {"an instruction waits for no other lane", kAllReduce, "double_tree",
       [](exec::Program& program) { each_op(program, [](auto&, auto& op) { op.after_lane = exec::kNone; }); }},
      {"rounds are not a window apart", Collective::Broadcast, "chain",
       [](exec::Program& program) { program.window_bytes -= 64; }},
      {"two readers' links change places", Collective::AllToAll, "pairwise",
       [](exec::Program& program) {
         if (program.out_links.size() > 1) std::swap(program.out_links[0], program.out_links[1]);
       }},
  };
}

class Mistakes : public testing::TestWithParam<Miscompiled> {};

/// Of lowering, by all methods that run lanes.
TEST_P(Mistakes, AreRejected) {
  const Miscompiled& one = GetParam();
  const auto plans = plan::Candidate{one.collective, one.algorithm}.plans(4);
  for (const Method* method : {&methods::lanes, &methods::slots, &methods::ll, &methods::ll128}) {
    const CallCase how = cases_of(*method, plans.front()).front();
    ASSERT_TRUE(prove(plans, how)) << prove(plans, how).reason;
    std::vector<exec::Program> programs = lower_all(plans, how);
    for (exec::Program& program : programs) one.make(program);
    EXPECT_FALSE(prove(plans, how, std::move(programs))) << method->name;
  }
}

INSTANTIATE_TEST_SUITE_P(Proof, Mistakes, testing::ValuesIn(mistakes()));

/// A message that is lent though it will be written to.
TEST(Mistakes, ALentMessageThatChangesIsRejected) {
  const auto plans = plan::Candidate{Collective::AllReduce, "recursive_doubling"}.plans(4);
  for (const CallCase& how : cases_of(methods::lanes, plans.front())) {
    if (how.name != "staged, in place") continue;
    std::vector<exec::Program> programs = lower_all(plans, how);
    for (exec::Program& program : programs) {
      each_op(program, [](auto& window, auto& op) {
        if (op.message.base == exec::Base::None) return;
        for (uint32_t out = op.outs.begin; out < op.outs.end; ++out)
          window.outs[out].delivery = exec::Delivery::Address;
        op.slot = exec::Slot::None;
      });
    }
    EXPECT_FALSE(prove(plans, how, std::move(programs)));
  }
}

/// Copy engines: what one rank stages is not where its readers think.
TEST(Mistakes, OfCopyEnginesAreRejected) {
  const auto plans = plan::Candidate{Collective::AllToAll, "one_shot"}.plans(4);
  const CallCase how = cases_of(methods::copy_engine, plans.front()).front();
  const auto verdict_with = [&](const auto& change) {
    std::vector<exec::Program> programs = lower_all(plans, how);
    change(programs);
    return prove(plans, how, std::move(programs));
  };
  EXPECT_TRUE(verdict_with([](auto&) {}));
  EXPECT_FALSE(verdict_with([](auto& all) { std::swap(all[1].out_links[0], all[1].out_links[1]); }));
  EXPECT_FALSE(verdict_with([](auto& all) { std::swap(all[1].in_links[0], all[1].in_links[1]); }));
  EXPECT_FALSE(verdict_with([](auto& all) { all[2].window_bytes += 64; }));
}

}  // namespace
}  // namespace tutti::proof
