// A job that goes on when ranks die: the others find out which, make a communicator without them, and repeat the step.
//
//   tutti run -n 4 --keep-going -- ./survivors 10
//
// adds up the ranks' numbers in each of 10 steps. With a rank and a step behind it, that rank dies there, as if its host
// had failed: ./survivors 10 2 5
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <utility>

#include <tutti/tutti.hpp>

namespace {

/// The ranks that remain, after some have failed. Ranks hear of a death at slightly different times: one that has
/// excluded too few gets an error at once, and tries again with those that it has heard of meanwhile.
tutti::Communicator survivors_of(const tutti::Communicator& failed) {
  for (;;) {
    const std::vector<int> dead = failed.failed_ranks();
    if (dead.empty()) throw tutti::Error(tutti::Code::PeerFailed, "it failed without a death: " + failed.error_text());
    try {
      return failed.shrink(dead);
    } catch (const tutti::Error& error) {
      if (error.code() != tutti::Code::PeerFailed || failed.failed_ranks() == dead) throw;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 10;
  const int victim = argc > 3 ? std::atoi(argv[2]) : -1, last_step = argc > 3 ? std::atoi(argv[3]) : -1;
  try {
    auto world = tutti::Communicator::from_environment();
    const int number = world.rank();
    for (int step = 0; step < steps; ++step) {
      if (number == victim && step == last_step) std::raise(SIGKILL);
      auto sum = static_cast<float>(number);
      try {
        world.all_reduce(sum);
      } catch (const tutti::Error& error) {
        if (error.code() != tutti::Code::PeerFailed) throw;
        std::fprintf(stderr, "step %d: %s\n", step, error.what());
        world = survivors_of(world);
        --step;  // again, without them
        continue;
      }
      if (world.rank() == 0) std::printf("step %d: %d ranks, sum %g\n", step, world.size(), static_cast<double>(sum));
    }
    world.close();
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
