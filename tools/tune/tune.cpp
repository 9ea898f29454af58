// tutti tune: measures this machine, so that communicators choose by measured times.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>

#include "base/bytes.hpp"
#include "base/counted.hpp"
#include "base/env.hpp"
#include "base/fd.hpp"
#include "base/format.hpp"
#include "base/private_file.hpp"
#include "base/version.hpp"
#include "select/machine.hpp"
#include "tools/commands.hpp"
#include "tools/perf/ranks.hpp"
#include "tools/run/self_job.hpp"
#include "tools/tune/measure.hpp"
#include "topo/cgroup.hpp"
#include "topo/constants.hpp"
#include "topo/cores.hpp"
#include "topo/detect.hpp"
#include "topo/machine.hpp"

namespace tutti::tools {
namespace {

constexpr const char* kSpeaker = "tutti tune";
constexpr size_t kMostText = size_t{16} << 20;
constexpr double kWithin = 2;

struct Options {
  int ranks = 2;
  bool all = false;
  std::string largest = "256M";
  Sizes sizes;
  std::string output;
  std::string task;  // of a rank that this command has started
  int threads = 1;
  bool launched = false;
};

double wall_clock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// The machine as the communicators of the ranks will see it.
select::Setting setting_of(int ranks) {
  select::Setting setting = select::setting_here(ranks, 1).setting;
  std::vector<Cores> cores;
  const Job job = job_of_self(kSpeaker, {}, ranks, 1);
  for (const Placement& rank : job.ranks) cores.push_back(rank.cpus.value_or(allowed_cores()));
  setting.oversubscription = std::max(1.0, ranks_per_core(cores, core_quota()));
  setting.situation = select::situation_of(*setting.groups, "shm", setting.oversubscription > 1);
  return setting;
}

class Tuning {
 public:
  Tuning(const Options& options, std::string path)
      : options_(options),
        path_(std::move(path)),
        partial_path_(fmt::format("{}.{}-ranks{}.part", path_, options.ranks, options.all ? "-all" : "")),
        heading_(fmt::format("tutti tune {}: {} on {:016x}", version(),
                             counted(static_cast<uint64_t>(options.ranks), "rank"),
                             select::machine_key(topo::local_topology()))),
        setting_(setting_of(options.ranks)),
        began_(wall_clock()) {}

  void run() {
    claim();
    resume();
    if (known_.profile.links.count("processes") == 0) measure_links("processes", options_.ranks, 1);
    if (known_.profile.links.count("threads") == 0) measure_links("threads", 1, 2);
    take_links();
    const std::vector<Cell> cells =
        cells_of(setting_, options_.sizes, options_.all ? std::numeric_limits<double>::infinity() : kWithin);
    for (const Cell& cell : cells) all_ += known_.done.count(cell) > 0 ? 0 : effort_of(cell);
    for (const std::vector<Cell>& job : jobs_of(cells)) measure(job);
    save(cells.size());
  }

 private:
  /// Two at a time would measure each other. The system lets go of the folder when this process ends, however it ends.
  void claim() {
    const size_t slash = partial_path_.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : partial_path_.substr(0, slash + 1);
    if (access(folder.c_str(), F_OK) != 0) write_private(partial_path_, heading_ + "\n");  // makes it
    folder_ = Fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder_ && flock(folder_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      throw_error(Code::InvalidUsage,
                  "another one writes its profile to {}, and both would measure each other; wait for it", folder);
    }
  }

  void resume() {
    const auto text = read_file(partial_path_, kMostText, true);
    known_ = read_partial(text.value_or(""), heading_, setting_.situation);
    if (known_.done.empty() && known_.profile.links.empty()) write_private(partial_path_, heading_ + "\n");
    if (!known_.done.empty()) {
      fmt::print("{}: goes on after {} that an interrupted run has made\n", kSpeaker,
                 counted(known_.done.size(), "measurement"));
      std::fflush(stdout);
    }
  }

  void reread() {
    known_ = read_partial(read_file(partial_path_, kMostText, true).value_or(""), heading_, setting_.situation);
  }

  void start(const Task& task, int processes, int threads, const std::string& forced) {
    const std::string task_path = partial_path_ + ".task";
    write_private(task_path, to_text(task));
    setenv("TUTTI_ALGO", forced.c_str(), 1);
    setenv("TUTTI_PROFILE", "off", 1);
    const int status = run_job(
        job_of_self(kSpeaker, {"tune", "--task", task_path, "--threads", std::to_string(threads)}, processes, threads));
    unlink(task_path.c_str());
    if (status != 0) {
      throw_error(Code::SystemError, "the ranks have failed; what was measured is kept, and the same command goes on");
    }
    reread();
  }

  void measure_links(const std::string& kind, int processes, int threads) {
    if (processes * threads < 2) return;
    start({.links = kind, .cells = {}, .results = partial_path_, .began = began_}, processes, threads, "");
  }

  void take_links() {
    const auto link = known_.profile.links.find("processes");
    if (link != known_.profile.links.end()) {
      setting_.inside.alpha = link->second.alpha;
      setting_.inside.beta = link->second.beta;
      setting_.inside.message = link->second.alpha * machine_constants().message_share;
    }
    setting_.gamma = known_.profile.gamma.value_or(setting_.gamma);
  }

  void measure(const std::vector<Cell>& job) {
    Task task{.links = "", .cells = {}, .results = partial_path_, .done = done_, .all = all_, .began = began_};
    for (const Cell& cell : job) {
      if (known_.done.count(cell) > 0) continue;
      task.cells.push_back(cell);
      done_ += effort_of(cell);
    }
    if (!task.cells.empty()) start(task, options_.ranks, 1, forced_by(task.cells));
  }

  /// Adds this situation's times to what the profile has of others.
  void save(size_t cells) {
    select::Profile profile;
    try {
      const auto text = read_file(path_, kMostText, true);
      if (text) profile = select::parse_profile(*text, path_);
    } catch (const Error& error) {
      fmt::print(stderr, "{}: {}; it is replaced\n", kSpeaker, error.what());
    }
    profile.links = known_.profile.links;
    profile.gamma = known_.profile.gamma;
    profile.measured[setting_.situation] = known_.profile.measured[setting_.situation];
    select::save_profile(profile, path_);
    unlink(partial_path_.c_str());
    fmt::print("{}: {} of {} in {:.0f} s, in {}\n", kSpeaker, counted(cells, "measurement"), setting_.situation,
               wall_clock() - began_, path_);
    for (const auto& [kind, link] : profile.links) {
      fmt::print("  {}: {:.3g} us, {:.3g} GB/s\n", kind, link.alpha * 1e6, 1e-9 / link.beta);
    }
  }

  const Options& options_;
  std::string path_, partial_path_, heading_;
  select::Setting setting_;
  double began_, done_ = 0, all_ = 0;
  Partial known_;
  Fd folder_;
};

/// A profile has the times of calls as they are without these.
void refuse_what_changes_times() {
  const auto refuse = [](bool is_set, const char* name, const auto& value) {
    if (!is_set) return;
    throw_error(Code::InvalidArgument, "{}={} would be measured, but a profile is used without it too; unset it", name,
                value);
  };
  refuse(!env().transport.empty(), "TUTTI_TRANSPORT", env().transport);
  refuse(!env().groups.empty(), "TUTTI_GROUPS", env().groups);
  refuse(!env().plan.empty(), "TUTTI_PLAN", env().plan);
  refuse(env().reproducible, "TUTTI_REPRODUCIBLE", 1);
  refuse(env().threads > 1, "TUTTI_THREADS", env().threads);
}

/// Found out before minutes of measurements: the file is replaced as a whole.
void check_place(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) {
    throw_error(Code::InvalidArgument, "{} is not a regular file; name one for the profile by TUTTI_PROFILE or -o",
                path);
  }
}

int tune(const Options& options) {
  if (options.launched) {
    const auto text = read_file(options.task, kMostText, true);
    if (!text) throw_error(Code::InvalidArgument, "{}: there is no such file", options.task);
    const Task task = parse_task(*text);
    return run_ranks(kSpeaker, options.threads, [&](Communicator& comm) { work_on(comm, task); }) ? 0 : 1;
  }
  refuse_what_changes_times();
  const std::string path = options.output.empty() ? select::profile_path() : options.output;
  if (path.empty()) {
    throw_error(Code::InvalidArgument,
                "there is no place for the profile: set HOME, or name a file by TUTTI_PROFILE or -o");
  }
  check_place(path);
  Tuning(options, path).run();
  return 0;
}

}  // namespace

void add_tune(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("tune", "measures this machine, so that the best algorithms are chosen here");
  const auto options = std::make_shared<Options>();
  command->add_option("-n", options->ranks, "process ranks, on this host; default 2")->check(CLI::Range(2, 1024));
  command->add_option("-o", options->output, "the profile; default TUTTI_PROFILE, else one in the user's cache folder")
      ->type_name("FILE");
  command->add_option("-e,--maxbytes", options->largest, "the largest size; default 256M");
  command->add_option("-f,--stepfactor", options->sizes.factor, "from one size to the next; default 4")
      ->check(CLI::Range(uint64_t{2}, uint64_t{1} << 20));
  command->add_flag("--all", options->all, "measures all algorithms, not only those predicted within twice the best");
  command->add_option("--task", options->task)->group("");
  command->add_option("--threads", options->threads)->group("");
  command->add_flag("--launched", options->launched)->group("");
  command->footer(
      "An interrupted run goes on where it was. docs/selection.md says how communicators use the profile.\n"
      "Examples:\n  tutti tune\n  tutti tune -n 4\n  TUTTI_PROFILE=here.json tutti tune\n");
  command->callback([options, &status] {
    const auto largest = parse_bytes(options->largest);
    if (!largest || *largest < sizeof(uint64_t)) {
      throw_error(Code::InvalidArgument, "-e {}: write a number of bytes from 8 on, such as 64K or 256M",
                  options->largest);
    }
    options->sizes.largest = *largest;
    status = tune(*options);
  });
}

}  // namespace tutti::tools
