// tutti run: the command line of the launcher.
#include <unistd.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>

#include "base/counted.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "tools/check/check.hpp"
#include "tools/commands.hpp"
#include "tools/number_range.hpp"
#include "tools/run/ask.hpp"
#include "tools/run/binding.hpp"
#include "tools/run/hosts.hpp"
#include "tools/run/job.hpp"
#include "tools/run/meeting.hpp"
#include "tools/run/remote.hpp"
#include "tools/run/restarts.hpp"

namespace tutti::tools {
namespace {

struct RunOptions {
  int ranks = 0;
  std::string hosts, hostfile;
  bool check = false;
  std::string json, check_part;
  int port = 0;
  std::string bind;
  bool no_prefix = false, no_pty = false;
  int restarts = 0, min_ranks = 0;
  Job job;
};

constexpr const char* kRunDetails = R"(
Every line that a rank writes comes out with "[rank] " before it. Where this goes to a terminal, ranks of this host
write to a terminal of their own (--no-pty: a pipe, as on other hosts), so that their lines come at once; in colours
unless NO_COLOR is set. Standard error is always a pipe. Standard input goes to rank 0.

SIGINT, SIGTERM and SIGHUP go to all ranks, and end the start of more. When a rank fails, tutti run says which one died
of what, lets the others end by themselves for --grace seconds, then ends them, and exits with the first failure's
status (128 + signal); with --keep-going the others go on. Nothing is left running: not what ranks have started, be it
in a session of its own, and not when this command is killed (then what has left its group and cleared its environment
escapes). Ranks that the system's limits do not allow are refused before the first starts.

Ranks find TUTTI_RANK, TUTTI_SIZE, TUTTI_LOCAL_RANK, TUTTI_LOCAL_SIZE, TUTTI_JOB and TUTTI_KEY (a secret) in their
environment; between hosts also TUTTI_ROOT_ADDR, those addresses of rank 0's host from which the others are reached, and
TUTTI_PORT. Where you export TUTTI_KEY, TUTTI_ROOT_ADDR or TUTTI_PORT yourself, yours are used. On other hosts the
program starts in the same folder, with the TUTTI_ variables, LD_LIBRARY_PATH and what -x names; ssh must log in without
a password. --launcher names another command: {host} becomes the host's name, and "sh -c SCRIPT" is appended, after ssh,
rsh or dbclient as one argument for the shell of the other host.

With --restarts or --min-ranks a rank that fails does not end the job: it is started again, or the others go on without
it. All that run then call tuttiCommInitEnv again and get a communicator of those that there are; a rank that does not
answer for TUTTI_HEARTBEAT_TIMEOUT seconds is killed. One that ends with status 2 in its first minute refuses its
arguments, and is not started again. SIGTERM to this command is a notice then, of which ranks learn by tuttiGetJobState: they have --notice
seconds. The exit status is 0 if the ranks that were left ended with 0.

Examples:
  tutti run -n 4 -- ./train --steps 10
  tutti run -n 4 --restarts 3 --min-ranks 2 -- ./train --steps 10
  tutti run -n 2 -- tutti perf all_reduce
  tutti run --hosts a:4,b:4 --check
  tutti run --hosts a:4,b:4 -x OMP_NUM_THREADS=1 -- ./train
  tutti run --hostfile hosts --launcher 'ssh -i key {host}' -- ./train
  tutti run --hosts a,b --launcher 'ip netns exec {host}' -x TUTTI_ROOT_ADDR=10.0.0.1 -- ./program   # in namespaces
)";

Binding parse_binding(const std::string& word) {
  if (word.empty()) return Binding::Auto;
  return word == "core" ? Binding::Core : Binding::None;
}

/// A program may follow without "--": `first` is then its start, and a later "--" is its own argument.
std::vector<std::string> whole_program(std::vector<std::string> first, const std::vector<std::string>& dashed) {
  if (first.empty()) return dashed;
  if (first.front().substr(0, 1) == "-") {
    throw_error(Code::InvalidArgument, "there is no option {}; see tutti run --help", first.front());
  }
  if (!dashed.empty()) first.emplace_back("--");
  first.insert(first.end(), dashed.begin(), dashed.end());
  return first;
}

/// The name of a variable, as a shell accepts it, alone or before "=".
void check_variable(const std::string& text) {
  const std::string name = text.substr(0, text.find('='));
  const auto is_part = [](char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; };
  const bool digit_first = !name.empty() && std::isdigit(static_cast<unsigned char>(name.front())) != 0;
  if (!name.empty() && !digit_first && std::all_of(name.begin(), name.end(), is_part)) return;
  throw_error(Code::InvalidArgument, "-x '{}': write NAME, or NAME=VALUE", text);
}

bool is_set(const std::string& variable) {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (std::string_view(*entry).substr(0, variable.size() + 1) == variable + "=") return true;
  }
  return false;
}

/// A variable that is not set here reaches no rank.
void warn_of_unset(const std::vector<std::string>& exported) {
  for (const std::string& variable : exported) {
    if (variable.find('=') != std::string::npos || is_set(variable)) continue;
    fmt::print(stderr, "tutti run: warning: -x {}: it is not set here, so ranks do not get it; -x {}=VALUE sets it\n",
               variable, variable);
  }
}

/// Refuses words that contradict each other.
void check_words(const RunOptions& options) {
  const bool has_program = !options.job.program.empty();
  if (!options.hosts.empty() && !options.hostfile.empty()) {
    throw_error(Code::InvalidArgument, "--hosts and --hostfile both name the hosts; give one of them");
  }
  if (options.check && has_program) {
    throw_error(Code::InvalidArgument, "--check starts no program: leave out {}", options.job.program.front());
  }
  if (options.check && options.hosts.empty() && options.hostfile.empty()) {
    throw_error(Code::InvalidArgument, "--check needs hosts: --hosts a,b or --hostfile FILE");
  }
  if (!options.check && !options.json.empty()) {
    throw_error(Code::InvalidArgument, "--json goes with --check; a program's output is its own");
  }
  if (!options.check && !has_program) {
    throw_error(Code::InvalidArgument, "no program given: write it after --, e.g. tutti run -n 4 -- ./program");
  }
  if ((options.restarts > 0 || options.min_ranks > 0) && (options.job.keep_going || options.check)) {
    throw_error(Code::InvalidArgument, "--restarts and --min-ranks go with a program, and without {}",
                options.check ? "--check" : "--keep-going");
  }
  for (const std::string& variable : options.job.exported) check_variable(variable);
  warn_of_unset(options.job.exported);
  check_launcher(options.job.launcher);
}

std::vector<Placement> placed(const RunOptions& options, const std::string& here, size_t cores) {
  if (!options.hostfile.empty()) return place(read_host_file(options.hostfile), options.ranks, here);
  if (!options.hosts.empty()) return place(parse_hosts(options.hosts), options.ranks, here);
  return place_here(options.ranks != 0 ? options.ranks : static_cast<int>(cores));
}

int run(RunOptions& options, const std::vector<std::string>& words) {
  if (!options.check_part.empty()) return check_here(options.check_part);
  Job& job = options.job;
  job.program = words;
  check_words(options);
  const std::string here = host_name();
  const std::vector<Cores> cores = usable_cores();
  job.ranks = placed(options, here, cores.size());
  if (static_cast<size_t>(options.min_ranks) > job.ranks.size()) {
    throw_error(Code::InvalidArgument, "--min-ranks {}: the job has {}", options.min_ranks,
                counted(job.ranks.size(), "rank"));
  }
  set_meeting_point(job, options.port, here);
  name_job(job);
  resolve_meeting_point(job);
  if (options.check) return check_hosts(job, options.json);
  job.prefix = !options.no_prefix;
  job.terminals = !options.no_pty;
  // Whether the program uses Tutti is not known: only memory that the user has asked for is counted.
  job.bytes = job.ranks.size() > 1 && env().arena ? staging_bytes() : 0;
  job.bytes_for = "staging memory (TUTTI_ARENA)";
  const std::string bound = bind_ranks(job.ranks, parse_binding(options.bind), cores);
  if (job.verbose) fmt::print(stderr, "tutti run: {}\n", bound);
  if (options.restarts > 0 || options.min_ranks > 0) {
    job.restarts = std::make_shared<Restarts>(job, options.restarts, options.min_ranks);
  }
  return run_job(job);
}

}  // namespace

void add_run(CLI::App& app, const std::vector<std::string>& program, int& status) {
  CLI::App* command = app.add_subcommand(
      "run",
      "starts a program as several ranks, here or on several hosts:\ntutti run [OPTIONS] -- PROGRAM [ARGUMENTS...]");
  const auto options = std::make_shared<RunOptions>();
  command->add_option("-n,--np", options->ranks, "number of ranks; default: the hosts' slots, or this host's cores")
      ->check(CLI::Range(1, 65536))
      ->type_name("N");
  command
      ->add_option("--hosts", options->hosts,
                   "hosts and how many ranks each takes, e.g. a:4,b:4,localhost:2 or node[01-16]:8")
      ->type_name("HOST[:SLOTS],...");
  command
      ->add_option("--hostfile", options->hostfile,
                   "a file with a host a line, \"a slots=4\" or \"a:4\"; also: --hosts @FILE; \"-\": standard input")
      ->type_name("FILE");
  command->add_flag(
      "--check", options->check,
      "starts no program, but checks that these hosts can run one: logins, versions, addresses, connections, "
      "latency and bandwidth of each two; says what is wrong");
  command->add_option("-o,--json", options->json, "writes what --check found to a file as well")->type_name("FILE");
  command->add_option("--check-part", options->check_part)
      ->check(CLI::IsMember({"facts", "reach", "pairs"}))
      ->group("");
  command
      ->add_option("--launcher", options->job.launcher,
                   "what runs a command on another host, e.g. 'ip netns exec {host}'; default: ssh")
      ->type_name("COMMAND");
  command->add_option("--port", options->port, "where rank 0 meets the others, between hosts; default: a random one")
      ->check(CLI::Range(1, 65535))
      ->type_name("PORT");
  command
      ->add_option("--bind", options->bind,
                   "none, or core: rank i of this host to core i; default: core, if there are enough of them")
      ->check(CLI::IsMember({"none", "core"}))
      ->type_name("");
  command
      ->add_option("-x", options->job.exported,
                   "sets a variable for all ranks; NAME alone: as it is here; may be repeated")
      ->allow_extra_args(false)
      ->type_name("NAME[=VALUE]");
  command->add_option("--grace", options->job.grace, "seconds the others have to end when a rank has failed; default 5")
      ->check(within(0.0, 1e6))
      ->type_name("SECONDS");
  command->add_flag(
      "--keep-going", options->job.keep_going,
      "leaves the others alone when a rank has failed, for programs that go on without it (tuttiCommShrink); "
      "the exit status is 0 if a rank ended with 0");
  command
      ->add_option("--restarts", options->restarts,
                   "starts a rank that has failed again, so many times in all; the others stay, and all call "
                   "tuttiCommInitEnv again (docs/elastic.md)")
      ->check(CLI::Range(0, 1000000))
      ->type_name("N");
  command
      ->add_option(
          "--min-ranks", options->min_ranks,
          "where no restart is left, the job goes on without ranks that have failed, as long as so many remain")
      ->check(CLI::Range(1, 65536))
      ->type_name("N");
  command
      ->add_option("--notice", options->job.notice,
                   "with --restarts or --min-ranks: seconds between SIGTERM to this command, of which ranks learn by "
                   "tuttiGetJobState, and SIGTERM to them; default 30")
      ->check(within(0.0, 1e6))
      ->type_name("SECONDS");
  command->add_flag("--no-prefix", options->no_prefix, "output as ranks write it");
  command->add_flag("--no-pty", options->no_pty, "ranks write into pipes also where this command writes to a terminal");
  command->add_flag("-v,--verbose", options->job.verbose, "says what is started where, and how it is bound");
  command->prefix_command();  // a program may also follow without "--"
  command->footer(kRunDetails);
  command->callback([options, command, &program, &status] {
    const std::vector<std::string> words = whole_program(command->remaining(), program);
    try {
      status = run(*options, words);
    } catch (const Interrupted& interrupted) {
      fmt::print(stderr, "tutti run: {}\n", interrupted.what());
      status = 128 + interrupted.signal();
    }
  });
}

}  // namespace tutti::tools
