// tutti tune: measures this machine, so that communicators choose by measured times.
#include <CLI/CLI.hpp>

#include <memory>

#include "base/bytes.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "select/machine.hpp"
#include "select/synthesised.hpp"
#include "tools/commands.hpp"
#include "tools/output_file.hpp"
#include "tools/perf/gpu.hpp"
#include "tools/perf/ranks.hpp"
#include "tools/run/binding.hpp"
#include "tools/run/remote.hpp"
#include "tools/tune/checks.hpp"
#include "tools/tune/measure.hpp"
#include "tools/tune/place.hpp"
#include "tools/tune/tuning.hpp"
#include "topo/cores.hpp"

namespace tutti::tools {
namespace {

int tune(const TuneOptions& options) {
  if (options.launched) {
    select::keep_one_order();
    if (!options.plans.empty()) select::use_synthesised(options.plans);
    const auto body = [&](Communicator& comm) { work_on(comm, shared_task(comm, options.task)); };
    const std::vector<Cores> cores = usable_cores();
    const auto bind = [&](int rank) {  // the launcher binds processes only
      if (options.threads > 1) run_on(affinity_mask(cores[static_cast<size_t>(rank) % cores.size()]));
    };
    return run_ranks(kTuneCommand, options.threads, body,
                     options.on_gpus() ? &Gpu::use : std::function<void(int)>(bind))
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
  measure_machine(options, path);
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
