// tutti tune: measures this machine, so that communicators choose by measured times.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
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
#include "tools/output_file.hpp"
#include "tools/perf/gpu.hpp"
#include "tools/perf/ranks.hpp"
#include "tools/run/binding.hpp"
#include "tools/run/hosts.hpp"
#include "tools/run/remote.hpp"
#include "tools/run/self_job.hpp"
#include "tools/tune/checks.hpp"
#include "tools/tune/measure.hpp"
#include "tools/tune/place.hpp"
#include "tools/tune/synth.hpp"
#include "tools/tune/timing.hpp"
#include "topo/constants.hpp"
#include "topo/cores.hpp"
#include "topo/detect.hpp"
#include "topo/graph_json.hpp"
#include "topo/paths.hpp"

namespace tutti::tools {
namespace {

constexpr const char* kSpeaker = "tutti tune";
constexpr size_t kMaxText = size_t{16} << 20;
constexpr double kWithin = 2, kAny = 1e300;

struct TuneOptions {
  int ranks = 0;
  std::string device = "host";
  bool on_gpus() const { return device == "cuda"; }
  double within() const { return all ? kAny : kWithin; }
  bool all = false, links_only = false, synth = false, doubtful = false;
  std::string largest = "256M";
  Sizes sizes;
  std::string output, hosts, launcher;
  std::vector<std::string> exported;
  std::string task, plans;  // of a rank that this command has started
  int threads = 1;
  bool launched = false;
};

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
      fmt::print("{}: goes on after {} that an interrupted run has made\n", kSpeaker,
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
    Job job = job_of_self(kSpeaker, arguments, ranks, threads);
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
    fmt::print("{}: {}\n", kSpeaker, plans_->words());
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
    select::Profile profile = earlier_profile(path_, kSpeaker);
    take_machines(known_.profile, profile);
    if (known_.profile.gpus) take_gpus(known_.profile, profile, path_);
    for (const auto& [kind, link] : known_.profile.links) profile.links[kind] = link;
    if (known_.profile.gamma) profile.gamma = known_.profile.gamma;
    profile.hosts.update(known_.profile.hosts);
    if (!options_.links_only) profile.measured[known_.situation] = known_.profile.measured[known_.situation];
    select::save_profile(profile, path_);
    fmt::print("{}: {} of {} in {:.0f} s, in {}\n", kSpeaker,
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
    fmt::print("{}: the other hosts have it too\n", kSpeaker);
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

int tune(const TuneOptions& options) {
  if (options.launched) {
    select::keep_one_order();
    if (!options.plans.empty()) select::use_synthesised(options.plans);
    const auto body = [&](Communicator& comm) { work_on(comm, shared_task(comm, options.task)); };
    const std::vector<Cores> cores = usable_cores();
    const auto bind = [&](int rank) {  // the launcher binds processes only
      if (options.threads > 1) run_on(affinity_mask(cores[static_cast<size_t>(rank) % cores.size()]));
    };
    return run_ranks(kSpeaker, options.threads, body, options.on_gpus() ? &Gpu::use : std::function<void(int)>(bind))
               ? 0
               : 1;
  }
  refuse_what_changes_times(options.exported);
  if (options.output == kStandardOutput) {
    throw_error(Code::InvalidArgument,
                "-o -: a profile is a file, beside which an interrupted run keeps what it has measured: name one");
  }
  const std::string path = select::profile_path(options.output.empty() ? env().profile : options.output);
  if (path.empty()) {
    throw_error(Code::InvalidArgument,
                "there is no place for the profile: set HOME, or name a file by TUTTI_PROFILE or -o");
  }
  check_place(path);
  check_output("-o", options.output);
  Tuning(options, path).run();
  return 0;
}

}  // namespace

void add_tune(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("tune", "measures this machine, so that the best algorithms are chosen here");
  const auto options = std::make_shared<TuneOptions>();
  command->add_option("-n,--np", options->ranks, "process ranks; default 2 on this host, all slots of --hosts")
      ->check(CLI::Range(2, 1024));
  command
      ->add_option("--hosts", options->hosts,
                   "hosts and how many ranks each takes, this one first; each keeps the profile")
      ->type_name("HOST[:SLOTS],...");
  command
      ->add_option("--launcher", options->launcher,
                   "what runs a command on another host, e.g. 'ip netns exec {host}'; default: ssh")
      ->type_name("COMMAND");
  command->add_option("-x", options->exported, "a variable for all ranks; may be repeated")
      ->allow_extra_args(false)
      ->type_name("NAME[=VALUE]");
  command
      ->add_option("--device", options->device,
                   "cuda: calls on memory of GPUs, a GPU a rank as far as there are; default host")
      ->check(CLI::IsMember({"host", "cuda"}));
  command->add_option("-o", options->output, "the profile; default TUTTI_PROFILE, else one in the user's cache folder")
      ->type_name("FILE");
  command->add_option("-e,--maxbytes", options->largest, "the largest size; default 256M");
  command->add_option("-f,--stepfactor", options->sizes.factor, "from one size to the next; default 4")
      ->check(CLI::Range(uint64_t{2}, uint64_t{1} << 20));
  CLI::Option* const all = command->add_flag("--all", options->all,
                                             "measures all algorithms, not only those predicted within twice the best");
  command
      ->add_flag("--links", options->links_only,
                 "measures the links alone: seconds instead of minutes; the model chooses algorithms by them")
      ->excludes(all);
  command->add_flag("--doubtful", options->doubtful,
                    "with --hosts: keeps rates between hosts of which no two measurements agree, marked as such");
  command->add_flag("--synth", options->synth,
                    "also makes plans for this machine and these ranks, and measures them with the algorithms; "
                    "communicators choose them where they are faster (docs/synthesis.md)");
  command->add_option("--task", options->task)->group("");
  command->add_option("--plans", options->plans)->group("");
  command->add_option("--threads", options->threads)->group("");
  command->add_flag("--launched", options->launched)->group("");
  command->footer(
      "An interrupted run goes on where it was. docs/selection.md says how communicators use the profile.\n"
      "Examples:\n  tutti tune\n  tutti tune -n 4\n  tutti tune --hosts a:4,b:4\n  tutti tune --device cuda -n 8\n"
      "  TUTTI_PROFILE=here.json tutti tune\n");
  command->callback([options, &status] {
    const auto largest = parse_bytes(options->largest);
    if (!largest || *largest < sizeof(uint64_t)) {
      throw_error(Code::InvalidArgument, "-e {}: write a number of bytes from 8 on, such as 64K or 256M",
                  options->largest);
    }
    options->sizes.largest = *largest;
    if (options->ranks == 0 && options->hosts.empty()) options->ranks = 2;
    if (options->on_gpus() && !options->hosts.empty()) {
      throw_error(Code::InvalidArgument,
                  "--device cuda measures the GPUs of this host: leave out --hosts, which measures the network");
    }
    if (options->on_gpus() && options->synth)
      throw_error(Code::InvalidArgument, "--synth makes plans for calls on host memory: leave out --device cuda");
    check_launcher(options->launcher);
    status = tune(*options);
  });
}

}  // namespace tutti::tools
