// The measuring of tutti tune: jobs of ranks that measure, and the file that keeps what they have measured.
#include "tools/tune/tuning.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "base/counted.hpp"
#include "base/env.hpp"
#include "base/fd.hpp"
#include "base/format.hpp"
#include "base/private_file.hpp"
#include "base/version.hpp"
#include "select/machine.hpp"
#include "tools/output_file.hpp"
#include "tools/run/hosts.hpp"
#include "tools/run/self_job.hpp"
#include "tools/tune/checks.hpp"
#include "tools/tune/measure.hpp"
#include "tools/tune/place.hpp"
#include "tools/tune/synth.hpp"
#include "tools/tune/timing.hpp"
#include "topo/constants.hpp"
#include "topo/detect.hpp"
#include "topo/paths.hpp"

namespace tutti::tools {
namespace {

constexpr size_t kMaxText = size_t{16} << 20;

class Tuning {
 public:
  Tuning(const TuneOptions& options, std::string path)
      : options_(options),
        path_(std::move(path)),
        ranks_(options.hosts.empty() ? place_here(options.ranks)
                                     : place(parse_hosts(options.hosts), options.ranks, host_name())),
        many_hosts_(ranks_.back().host != ranks_.front().host),
        partial_path_(fmt::format("{}.{}-ranks{}{}{}.part", path_, ranks_.size(), many_hosts_ ? "-of-hosts" : "",
                                  options.all          ? "-all"
                                  : options.links_only ? "-links"
                                                       : "",
                                  options.on_gpus() ? "-on-gpus" : "")),
        heading_(fmt::format(
            "tutti tune {}: {} on {:016x}{}{}{}", version(), counted(static_cast<uint64_t>(ranks_.size()), "rank"),
            select::machine_key(topo::local_topology()), many_hosts_ ? " of " : "", options.hosts,
            options.on_gpus() ? fmt::format(", GPUs, up to {} by {}", options.sizes.largest, options.sizes.factor)
                              : "")),
        began_(wall_clock()) {
    if (ranks_.size() < 2) throw_error(Code::InvalidArgument, "one rank has nobody to talk to; give -n 2 or more");
  }

  void run() {
    claim();
    resume();
    std::vector<Cell> cells = options_.on_gpus() ? cells_on_gpus() : cells_in_host_memory();
    for (const Cell& cell : cells) all_ += known_.done.count(cell) > 0 ? 0 : effort_of(cell);
    for (const std::vector<Cell>& job : jobs_of(cells)) measure(job);
    save();
    if (many_hosts_) share();
    unlink(partial_path_.c_str());
  }

 private:
  std::vector<Cell> cells_in_host_memory() {
    const std::vector<Placement> here = near(ranks_, ranks_.size());
    if (known_.profile.links.count("threads") == 0) measure_links("threads", near(ranks_, 1), 2);
    if (known_.profile.links.count("processes") == 0 && here.size() > 1) measure_links("processes", here, 1);
    const bool seen = known_.inputs && known_.inputs->groups->ranks() == static_cast<Rank>(ranks_.size());
    if (!seen || (many_hosts_ && known_.graph.empty())) measure_hosts();
    if (options_.synth && known_.graph.empty()) measure_with_graph("processes");
    if (options_.synth) make_plans();
    if (options_.links_only) return {};
    select::CostInputs inputs = with_links();
    if (plans_ != nullptr) inputs.synthesised = plans_->plans();
    if (many_hosts_) setenv("TUTTI_ORDER", order_text(inputs.order).c_str(), 1);
    return cells_of(inputs, options_.sizes, options_.within());
  }

  /// The ranks list them, since only they see the GPUs: with the measured links, as communicators will.
  std::vector<Cell> cells_on_gpus() {
    if (!known_.profile.gpus) measure_links("GPUs", ranks_, 1);
    if (!known_.profile.gpus) throw_error(Code::InternalError, "{}: the ranks have named no GPUs", partial_path_);
    refuse_stand_in(*known_.profile.gpus, path_, options_.output.empty() && env().profile.empty());
    if (options_.links_only) return {};
    if (known_.cells.empty()) {
      profile_of_ranks_ = partial_path_ + ".links";
      select::save_profile(known_.profile, profile_of_ranks_);
      measure_links("candidates", ranks_, 1);
      unlink(profile_of_ranks_.c_str());
      profile_of_ranks_ = "off";
    }
    return known_.cells;
  }

  /// Two at a time would measure each other. The system lets go of the folder when this process ends, however it ends.
  void claim() {
    const size_t slash = partial_path_.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : partial_path_.substr(0, slash + 1);
    if (access(folder.c_str(), F_OK) != 0) make(folder);
    folder_ = Fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder_ && flock(folder_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      throw_error(Code::InvalidUsage,
                  "another one writes its profile to {}, and both would measure each other; wait for it", folder);
    }
  }

  void make(const std::string& folder) {
    try {
      write_private(partial_path_, heading_ + "\n");
    } catch (const Error& error) {
      throw_error(error.code(), "{}: {}; name a file for the profile by -o or TUTTI_PROFILE", folder, error.what());
    }
  }

  void resume() {
    const auto text = read_file(partial_path_, kMaxText, true);
    known_ = read_partial(text.value_or(""), heading_);
    if (!text || !text->starts_with(heading_ + "\n")) write_private(partial_path_, heading_ + "\n");
    if (!known_.done.empty()) {
      fmt::print("{}: goes on after {} that an interrupted run has made\n", kTuneCommand,
                 counted(known_.done.size(), "measurement"));
      std::fflush(stdout);
    }
  }

  void reread() { known_ = read_partial(read_file(partial_path_, kMaxText, true).value_or(""), heading_); }

  Task plain_task() const {
    Task task;
    task.results = partial_path_;
    task.began = began_;
    task.sizes = options_.sizes;
    task.within = options_.within();
    task.doubtful = options_.doubtful;
    return task;
  }

  void start(const Task& task, const std::vector<Placement>& ranks, int threads) {
    const std::string task_path = partial_path_ + ".task";
    write_private(task_path, nlohmann::json(task).dump());
    setenv("TUTTI_ALGO", forced_by(task.cells, &Cell::algorithm).c_str(), 1);
    setenv("TUTTI_METHOD", forced_by(task.cells, &Cell::method).c_str(), 1);
    setenv("TUTTI_PROFILE", profile_of_ranks_.c_str(), 1);
    std::vector<std::string> arguments = {"tune", "--task", task_path, "--threads", std::to_string(threads)};
    arguments.insert(arguments.end(), {"--device", options_.device});
    if (plans_ != nullptr) arguments.insert(arguments.end(), {"--plans", plans_->path()});
    Job job = job_of_self(kTuneCommand, arguments, ranks, threads);
    job.launcher = options_.launcher;
    job.exported = options_.exported;
    status_ = run_job(job);
    unlink(task_path.c_str());
    if (status_ != 0) {
      throw_error(Code::SystemError, "the ranks have failed; what was measured is kept, and the same command goes on");
    }
    reread();
  }

  void measure_links(const std::string& kind, const std::vector<Placement>& ranks, int threads) {
    Task task = plain_task();
    task.links = kind;
    start(task, ranks, threads);
    if (!known_.doubts.contains(kind) || known_.profile.links.contains(kind)) return;
    throw_error(
        Code::SystemError,
        "links between {} cannot be measured now: the best of several tries shows {}. Nothing is written: leave "
        "the machine to this command, which goes on where it was{}",
        kind, known_.doubts[kind], kind == "hosts" ? "; or keep these figures by --doubtful" : "");
  }

  void measure_hosts() { many_hosts_ ? measure_with_graph("hosts") : measure_links("hosts", ranks_, 1); }
  void measure_with_graph(const std::string& kind) {  // with the job's graph
    const std::string dump = partial_path_ + ".graph";
    setenv("TUTTI_TOPO_DUMP_FILE", dump.c_str(), 1);
    measure_links(kind, ranks_, 1);
    unsetenv("TUTTI_TOPO_DUMP_FILE");
    OutputFile("", partial_path_, true).write(line_of({{"graph", read_file(dump, kMaxText, true).value_or("")}}));
    unlink(dump.c_str());
    reread();
  }

  /// For the job's graph, as communicators will see it with the profile.
  void make_plans() {
    plans_ = std::make_unique<TunedPlans>(graph_on_network(known_), inputs_on_network(known_));
    fmt::print("{}: {}\n", kTuneCommand, plans_->words());
    std::fflush(stdout);
  }

  /// The machine, as communicators will see it with the profile.
  select::CostInputs with_links() const {
    if (!known_.inputs) throw_error(Code::InternalError, "{}: the ranks have not said what they see", partial_path_);
    if (many_hosts_) return inputs_on_network(known_);
    select::CostInputs inputs = *known_.inputs;
    for (const auto& [kind, link] : known_.profile.links) {
      if (kind == "threads") continue;
      const bool outside = kind != "processes" && inputs.groups->has_two_levels();
      select::LinkCost& cost = outside ? inputs.between : inputs.inside;
      if (kind == "processes" && many_hosts_ && !inputs.groups->has_two_levels()) continue;
      cost = {link.alpha, link.beta, link.alpha * machine_constants().message_share, cost.in_place};
    }
    inputs.gamma = known_.profile.gamma.value_or(inputs.gamma);
    return inputs;
  }

  void measure(const std::vector<Cell>& job) {
    Task task = plain_task();
    task.done = done_;
    task.all = all_;
    task.on_gpus = options_.on_gpus();
    for (const Cell& cell : job) {
      if (known_.done.count(cell) > 0) continue;
      task.cells.push_back(cell);
      done_ += effort_of(cell);
    }
    if (task.cells.empty()) return;
    if (!options_.on_gpus()) check_room(task.cells, ranks_);
    start(task, ranks_, 1);
  }

  /// Adds this situation's times to what the profile has of others.
  void save() {
    if (known_.situation.empty())
      throw_error(Code::InternalError, "{}: the ranks have not said in which situation they measured", partial_path_);
    select::Profile profile = earlier_profile(path_, kTuneCommand);
    take_machines(known_.profile, profile);
    if (known_.profile.gpus) take_gpus(known_.profile, profile, path_);
    for (const auto& [kind, link] : known_.profile.links) profile.links[kind] = link;
    if (known_.profile.gamma) profile.gamma = known_.profile.gamma;
    profile.hosts.update(known_.profile.hosts);
    if (!options_.links_only) profile.measured[known_.situation] = known_.profile.measured[known_.situation];
    select::save_profile(profile, path_);
    fmt::print("{}: {} of {} in {:.0f} s, in {}\n", kTuneCommand,
               options_.links_only ? "the links" : counted(known_.done.size(), "measurement"), known_.situation,
               wall_clock() - began_, path_);
    const auto tell = [](const std::string& what, const select::MeasuredLink& link) {
      fmt::print("  {}: {:.3g} us, {:.3g} GB/s\n", what, link.alpha * 1e6, 1e-9 / link.beta);
    };
    if (options_.on_gpus()) {
      for (const auto& [kind, link] : profile.gpu_links) {
        tell(kind == name_of(topo::PathKind::SameGpu) ? "ranks on one GPU" : "GPUs, " + kind, link);
      }
      if (select::is_stand_in(*profile.gpus)) fmt::print("  These are times of a stand-in: they mean nothing.\n");
      return;
    }
    for (const auto& [kind, link] : profile.links) tell(kind, link);
    for (const auto& [kind, why] : known_.doubts)
      fmt::print("  {}: {}: others may have had the processors; measure an idle machine again\n", kind, why);
    if (!profile.gamma) fmt::print("  folding: as long as copying, as far as could be measured; γ is the model's\n");
    for (const std::string& line : select::lines_of(known_.profile.hosts)) fmt::print("  {}\n", line);
  }

  /// Communicators want the same profile on all ranks: other hosts get this one, in place of theirs.
  void share() {
    const auto text = read_file(path_, kMaxText, true);
    if (!text) throw_error(Code::SystemError, "{} has gone, which the other hosts are to keep", path_);
    Task task = plain_task();
    task.profile = *text;
    task.place = options_.output.empty() ? env().profile : options_.output;
    start(task, ranks_, 1);
    fmt::print("{}: the other hosts have it too\n", kTuneCommand);
  }

  const TuneOptions& options_;
  std::string path_;
  std::vector<Placement> ranks_;
  bool many_hosts_;
  std::string partial_path_, heading_;
  std::string profile_of_ranks_ = "off";  // TUTTI_PROFILE
  double began_, done_ = 0, all_ = 0;
  Partial known_;
  std::unique_ptr<TunedPlans> plans_;  // null: none are asked for
  int status_ = 0;                     // of the last job
  Fd folder_;
};

}  // namespace

void measure_machine(const TuneOptions& options, const std::string& path) { Tuning(options, path).run(); }

}  // namespace tutti::tools
