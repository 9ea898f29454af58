// The program of chaos_test.py: collectives whose every element is checked, in a job whose ranks die and come back. It
// ends when the launcher announces the end of the job, and then tells what it has seen.
//
//   chaos_job [PROGRESS_FILE [MILLISECONDS]]   with a pause behind each step
#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <tutti/tutti.hpp>

namespace {

using tutti::Communicator;
using Clock = std::chrono::steady_clock;

struct Seen {
  int64_t step = 0, made = 0, wrong = 0, failures = 0;
  std::vector<long> resident, descriptors;  // at the beginning of each generation, …
  std::vector<int> ranks;                   // … which had so many
};

long resident_kib() {
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

long open_descriptors() {
  long count = 0;
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return -1;
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

/// What rank `rank` contributes at place i of a step: sums of them are exact in f32.
float contribution(int64_t step, int rank, size_t i) {
  return static_cast<float>((step * 7 + rank * 31 + static_cast<int64_t>(i)) % 64);
}

/// 1 to 64 Ki elements, by the step alone.
size_t length_of(int64_t step) {
  const uint64_t mixed = static_cast<uint64_t>(step) * 0x9e3779b97f4a7c15ULL;
  return 1 + (mixed >> 40) % (size_t{1} << ((mixed >> 20) % 17));
}

void check(Seen& seen, float value, float right) { seen.wrong += value == right ? 0 : 1; }

void all_reduce(Communicator& world, Seen& seen, size_t count) {
  std::vector<float> data(count);
  for (size_t i = 0; i < count; ++i) data[i] = contribution(seen.step, world.rank(), i);
  world.all_reduce(data);
  for (size_t i = 0; i < count; ++i) {
    float right = 0;
    for (int rank = 0; rank < world.size(); ++rank) right += contribution(seen.step, rank, i);
    check(seen, data[i], right);
  }
}

void all_gather(Communicator& world, Seen& seen, size_t count) {
  const auto ranks = static_cast<size_t>(world.size());
  std::vector<float> mine(count), all(count * ranks);
  for (size_t i = 0; i < count; ++i) mine[i] = contribution(seen.step, world.rank(), i);
  world.all_gather(mine, all);
  for (size_t rank = 0; rank < ranks; ++rank) {
    for (size_t i = 0; i < count; ++i)
      check(seen, all[rank * count + i], contribution(seen.step, static_cast<int>(rank), i));
  }
}

void broadcast(Communicator& world, Seen& seen, size_t count) {
  const int root = static_cast<int>(seen.step % world.size());
  std::vector<float> data(count);
  if (world.rank() == root) {
    for (size_t i = 0; i < count; ++i) data[i] = contribution(seen.step, root, i);
  }
  world.broadcast(data, root);
  for (size_t i = 0; i < count; ++i) check(seen, data[i], contribution(seen.step, root, i));
}

enum class Next { Step, Stop, Gather };

Next make_step(Communicator& world, Seen& seen) {
  const size_t count = length_of(seen.step);
  switch (seen.step % 3) {
    case 0:
      all_reduce(world, seen, count);
      break;
    case 1:
      all_gather(world, seen, count / 8 + 1);
      break;
    default:
      broadcast(world, seen, count);
  }
  const tuttiJobState_t job = Communicator::job_state();
  std::vector<int> notices = {job.ends_in >= 0 ? 1 : 0, job.waiting > 0 ? 1 : 0};
  world.all_reduce(notices, tutti::Op::Max);
  ++seen.step;
  ++seen.made;
  return notices[0] != 0 ? Next::Stop : notices[1] != 0 ? Next::Gather : Next::Step;
}

/// Rank 0 tells how far the job is, a few times a second, and when (CLOCK_MONOTONIC) the last step began.
class Progress {
 public:
  explicit Progress(std::string file) : file_(std::move(file)) {}
  void tell(Communicator& world, int64_t step, Clock::time_point began) {
    if (file_.empty() || world.rank() != 0 || Clock::now() < next_) return;
    next_ = Clock::now() + std::chrono::milliseconds(200);
    std::ofstream(file_ + ".new") << step << ' ' << world.size() << ' ' << Communicator::job_state().generation << ' '
                                  << std::chrono::nanoseconds(began.time_since_epoch()).count() << '\n';
    std::rename((file_ + ".new").c_str(), file_.c_str());
  }

 private:
  std::string file_;
  Clock::time_point next_{};
};

/// True: the job ends.
bool run_generation(Seen& seen, Progress& progress, std::chrono::milliseconds pause) {
  auto world = Communicator::from_environment();
  seen.resident.push_back(resident_kib());
  seen.descriptors.push_back(open_descriptors());
  seen.ranks.push_back(world.size());
  world.all_reduce(seen.step, tutti::Op::Max);
  auto next = Next::Step;
  while (next == Next::Step) {
    const auto began = Clock::now();
    next = make_step(world, seen);
    progress.tell(world, seen.step, began);
    if (pause.count() > 0) std::this_thread::sleep_for(pause);
  }
  world.close();
  return next == Next::Stop;
}

/// "RESIDENT_FROM RESIDENT_TO DESCRIPTORS_FROM DESCRIPTORS_TO": of the last generation, and of the first one after two
/// others that had as many ranks, since each rank takes memory and descriptors; and how many generations lie between.
void tell_end(const Seen& seen) {
  size_t first = std::min<size_t>(2, seen.ranks.size() - 1);
  while (seen.ranks[first] != seen.ranks.back()) ++first;
  std::printf(
      "end: step %ld, made %ld, wrong %ld, failures %ld, generations %zu, KiB %ld %ld, descriptors %ld %ld, "
      "%zu generations later\n",
      static_cast<long>(seen.step), static_cast<long>(seen.made), static_cast<long>(seen.wrong),
      static_cast<long>(seen.failures), seen.resident.size(), seen.resident[first], seen.resident.back(),
      seen.descriptors[first], seen.descriptors.back(), seen.ranks.size() - 1 - first);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  Seen seen;
  Progress progress(argc > 1 ? argv[1] : "");
  const std::chrono::milliseconds pause(argc > 2 ? std::atoi(argv[2]) : 0);
  for (;;) {
    try {
      if (run_generation(seen, progress, pause)) break;
    } catch (const tutti::Error& error) {
      ++seen.failures;
      std::fprintf(stderr, "step %ld: %s\n", static_cast<long>(seen.step), error.what());
      // Timeout: a rank that has failed at its start several times may come back later than that (docs/elastic.md).
      if (error.code() != tutti::Code::PeerFailed && error.code() != tutti::Code::Timeout) return 1;
    }
  }
  tell_end(seen);
  return seen.wrong == 0 ? 0 : 1;
}
