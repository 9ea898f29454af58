// A job whose ranks may die, come back and become more: each goes on with what the others know.
//
//   tutti run -n 4 --restarts 3 -- ./elastic 2000
//
// adds up numbers of all ranks in 2000 steps. Kill any rank meanwhile (kill -9): it is started again, and the sum at
// the end is the same. With --min-ranks 2 in place of --restarts, the others go on without it. After SIGTERM to
// tutti run, or to any rank, all stop at the same step. With a rank and a step behind the number of steps, that rank
// kills itself there: ./elastic 2000 2 500
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <tutti/tutti.hpp>

namespace {

struct State {
  int64_t step = 0;
  std::vector<double> sums = std::vector<double>(1000);
};

/// The ranks of a new communicator differ by a step, since some have heard of a failure before the result of their
/// call, and a newcomer knows nothing: all get the state of the first rank that is furthest.
void agree(tutti::Communicator& world, State& state) {
  int64_t furthest = state.step;
  world.all_reduce(furthest, tutti::Op::Max);
  int owner = state.step == furthest ? world.rank() : world.size();
  world.all_reduce(owner, tutti::Op::Min);
  state.step = furthest;
  world.broadcast(state.sums, owner);
}

/// A launcher that knows nothing of Tutti may tell each rank, or one of them, that the job ends (docs/elastic.md).
void on_sigterm(int) { tutti::Communicator::set_job_end(30); }

enum class Next { Step, Stop, Gather };

/// Ranks hear of the launcher's notices at slightly different times, so what to do next is agreed upon in the same
/// all-reduce.
Next make_step(tutti::Communicator& world, State& state) {
  const tuttiJobState_t job = tutti::Communicator::job_state();
  std::vector<double> sums(state.sums.size() + 2, static_cast<double>(world.rank() + 1));
  sums[0] = job.ends_in >= 0 ? 1 : 0;
  sums[1] = job.waiting > 0 ? 1 : 0;
  world.all_reduce(sums);
  for (size_t i = 0; i < state.sums.size(); ++i) state.sums[i] += sums[i + 2];
  ++state.step;
  return sums[0] > 0 ? Next::Stop : sums[1] > 0 ? Next::Gather : Next::Step;
}

/// A process is gone; or one is started again, and takes longer than the others wait, since it failed several times at
/// its start and the launcher pauses.
bool is_worth_another_try(const tutti::Error& error) {
  return error.code() == tutti::Code::PeerFailed || error.code() == tutti::Code::Timeout;
}

/// True: the work is done.
bool work(State& state, int64_t steps, int victim, int64_t last_step) {
  auto world = tutti::Communicator::from_environment();
  agree(world, state);
  const unsigned generation = tutti::Communicator::job_state().generation;
  if (world.rank() == 0) {
    std::printf("generation %u begins: %d ranks, step %lld\n", generation, world.size(),
                static_cast<long long>(state.step));
    std::fflush(stdout);
  }
  auto next = Next::Step;
  while (state.step < steps && next == Next::Step) {
    if (world.rank() == victim && state.step == last_step && generation == 1) std::raise(SIGKILL);
    next = make_step(world, state);
  }
  if (world.rank() == 0) {
    std::printf("%d ranks, generation %u, %lld steps, sum %.0f\n", world.size(), generation,
                static_cast<long long>(state.step), state.sums.back());
    std::fflush(stdout);
  }
  world.close();
  return next != Next::Gather;
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::atoll(argv[1]) : 2000;
  const int victim = argc > 3 ? std::atoi(argv[2]) : -1;
  const int64_t last_step = argc > 3 ? std::atoll(argv[3]) : -1;
  std::signal(SIGTERM, on_sigterm);
  State state;
  for (int failures = 0; failures < 100;) {
    try {
      if (work(state, steps, victim, last_step)) return 0;
    } catch (const tutti::Error& error) {
      std::fprintf(stderr, "step %lld: %s\n", static_cast<long long>(state.step), error.what());
      if (!is_worth_another_try(error)) return 1;
      ++failures;
    }
  }
  return 1;
}
