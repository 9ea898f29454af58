// tutti perf: measures and checks a collective, with nccl-tests' flags, columns and definitions.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>

#include "base/bytes.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/spelling.hpp"
#include "select/forced.hpp"
#include "select/given.hpp"
#include "tools/commands.hpp"
#include "tools/number_range.hpp"
#include "tools/output_file.hpp"
#include "tools/perf/bench.hpp"
#include "tools/perf/bound.hpp"
#include "tools/perf/estimate.hpp"
#include "tools/perf/gpu.hpp"
#include "tools/perf/options.hpp"
#include "tools/perf/ranks.hpp"
#include "tools/perf/report.hpp"
#include "tools/run/hosts.hpp"
#include "tools/run/self_job.hpp"
#include "topo/cgroup.hpp"

namespace tutti::tools {
namespace {

constexpr const char* kPerfDetails = R"(
COLLECTIVE: all_reduce all_gather reduce_scatter all_to_all broadcast reduce gather scatter send_recv barrier, or as
others call them: all_reduce_perf, ncclAllReduce, MPI_Allreduce, alltoall, bcast, sendrecv …

Size is that of the whole buffer which the collective divides among ranks, or of a message. A call's time is the mean over
the iterations, of the slowest rank (-a chooses). algbw = size/time; busbw is algbw times 2(n-1)/n for all_reduce,
(n-1)/n for all_gather, reduce_scatter, all_to_all, gather and scatter, 1 for the others. Every output is held against
the exact result, bit by bit: #bad counts elements, over all ranks. Exit status 0: all were right.

Ranks are --np processes times -t threads; without --np, those of the launcher (tutti run, torchrun, srun, mpirun).

Examples:
  tutti perf all_reduce --np 4 -b 8 -e 64M -f 4
  tutti perf reduce -t 4 -o all -d all -r all
  tutti perf all_reduce -t 4 --device cuda -G 100
  tutti run --hosts a,b -- tutti perf send_recv
)";

/// nccl-tests' flags that have no meaning here, and what to use instead.
struct Foreign {
  const char* flags;
  const char* why;
};
constexpr Foreign kForeign[] = {
    {"-g,--ngpus",
     "each rank has one GPU (--device cuda); give the number of ranks by --np (processes) or -t (threads)"},
    {"-p,--parallel_init", "ranks always join at the same time; leave it out"},
    {"-y,--stream_null", "calls of --device cuda go to a stream of the rank's; -z 0 queues others on a host stream"},
    {"-C,--report_cputime", "calls run on the CPU, so its time is what is reported; leave it out"},
    {"-T,--timeout", "set TUTTI_TIMEOUT (seconds) in the environment instead"},
    {"-N,--run_cycles", "repeat the command instead"}};

struct Words {
  std::string collective, first = "8", last = "64M", step, op, type = "f32", root;
  double factor = 0;
  std::string device = "host";
  int blocking = 1, mapped = 0, time_of = static_cast<int>(TimeOf::Slowest);
  int processes = 0;
  bool launched = false;
  PerfOptions options;
};

size_t bytes_in(const char* flag, const std::string& text) {
  const auto bytes = parse_bytes(text);
  if (!bytes) throw_error(Code::InvalidArgument, "{} {}: write a number of bytes such as 8, 64K or 1G", flag, text);
  return bytes->value;
}

void read_sizes(Words& words, bool last_given) {
  const size_t first = bytes_in("-b", words.first);
  size_t last = bytes_in("-e", words.last);
  if (!last_given) last = std::max(last, first);
  if (first > last) throw_error(Code::InvalidArgument, "-b {} is more than -e {}", words.first, words.last);
  const size_t step = words.step.empty() ? 0 : bytes_in("-i", words.step);
  if (!words.step.empty() && step == 0) throw_error(Code::InvalidArgument, "-i 0 leads nowhere");
  if (step > 0 && words.factor != 0) throw_error(Code::InvalidArgument, "give -f (a factor) or -i (bytes), not both");
  words.options.sizes = sweep(first, last, step, words.factor != 0 ? words.factor : 4);
}

void read_root(Words& words) {
  if (words.root == "all" || words.root == "-1") {
    words.options.root = PerfOptions::kAllRoots;
  } else if (!words.root.empty()) {
    const bool digits = words.root.size() < 9 && words.root.find_first_not_of("0123456789") == std::string::npos;
    if (!digits) throw_error(Code::InvalidArgument, "-r {}: write a rank, or all", words.root);
    words.options.root = std::stoi(words.root);
  }
}

/// Parses the options. Throws Error(InvalidArgument).
void read_words(Words& words, bool last_given) {
  PerfOptions& options = words.options;
  options.collective = read_collective(words.collective, "");
  const char* const name = name_of(options.collective);
  if (!words.op.empty()) {
    if (!reduces(options.collective)) throw_error(Code::InvalidArgument, "{} folds nothing: leave out -o", name);
    options.ops = parse_ops(words.op);
  }
  if (!words.root.empty() && !has_root(options.collective)) {
    throw_error(Code::InvalidArgument, "{} has no root: leave out -r", name);
  }
  read_root(words);
  options.types = parse_types(words.type);
  read_sizes(words, last_given);
  options.blocking = words.blocking != 0;
  options.mapped = words.mapped != 0;
  options.device = words.device == "cuda";
  if (options.graphs > 0 && !options.device) throw_error(Code::InvalidArgument, "-G needs --device cuda");
  if (options.device && words.blocking == 0) {
    throw_error(Code::InvalidArgument, "--device cuda has no -z: calls go to a stream of CUDA");
  }
  options.time_of = static_cast<TimeOf>(words.time_of);
}

/// All ranks reach the same decision before any of them allocates memory.
void check_memory_of_hosts(const std::vector<PerfRow>& rows, const std::vector<RankPlace>& places) {
  std::map<std::string, std::pair<uint64_t, uint64_t>> hosts;  // ranks, and available bytes
  for (const RankPlace& place : places) {
    auto& [ranks, available] = hosts.emplace(place.host, std::pair(0, place.memory)).first->second;
    ++ranks;
    available = std::min(available, place.memory);
  }
  for (const auto& [host, memory] : hosts) check_memory(rows, memory.first, memory.second, host);
}

std::string progress_text(const PerfOptions& options, const PerfRow& row, size_t done, size_t all, bool in_place,
                          const Estimate& estimate) {
  const auto left = estimate.left();
  return fmt::format("# {} of {}: {} of {} {}, {}{}", done + 1, all, name_of(options.collective),
                     to_text(Bytes{row.bytes}), name_of(row.type), in_place ? "in place" : "out of place",
                     left ? fmt::format("; about {} left", rough_time(*left)) : "");
}

/// Measures, and updates the estimate.
Measurement measure(RankBench& bench, const PerfRow& row, bool in_place, Estimate& estimate) {
  const auto start = std::chrono::steady_clock::now();
  Measurement made = bench.measure(row, in_place);
  estimate.done(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return made;
}

/// The size of each measurement of a run.
std::vector<uint64_t> sizes_of(const std::vector<PerfRow>& rows, bool twice) {
  std::vector<uint64_t> sizes;
  for (const PerfRow& row : rows) sizes.insert(sizes.end(), twice ? 2 : 1, row.bytes);
  return sizes;
}

/// One rank's whole run. Returns the number of wrong elements on all ranks.
uint64_t run_rank(Communicator& comm, const PerfOptions& options) {
  if (options.root >= comm.size()) {
    throw_error(Code::InvalidArgument, "-r {}: there are {} ranks, the last is {}", options.root, comm.size(),
                comm.size() - 1);
  }
  const bool tells = comm.rank() == 0;
  if (tells && options.json != kStandardOutput) {
    OutputFile("--json", options.json, true).close();  // a fault is known at the start, not after the run
  }
  const std::vector<PerfRow> rows = rows_of(options, comm.size());
  const std::vector<RankPlace> places = gather_places(comm);
  check_memory_of_hosts(rows, places);
  Bounds bounds;
  if (tells && options.bound) bounds = bounds_of_run(options, rows, places);
  Report report(options, places, rows, std::move(bounds));
  if (tells) report.header();
  std::optional<Progress> progress;
  if (tells) progress.emplace();
  RankBench bench(comm, options, rows);
  Estimate estimate(sizes_of(rows, has_in_place(options.collective)));
  uint64_t wrong = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (progress) progress->show(progress_text(options, rows[i], i, rows.size(), false, estimate));
    const Measurement out_of_place = measure(bench, rows[i], false, estimate);
    std::optional<Measurement> in_place;
    if (has_in_place(options.collective)) {
      if (progress) progress->show(progress_text(options, rows[i], i, rows.size(), true, estimate));
      in_place = measure(bench, rows[i], true, estimate);
    }
    wrong += out_of_place.wrong + (in_place ? in_place->wrong : 0);
    if (progress) progress->clear();
    if (tells) report.row(rows[i], out_of_place, in_place);
  }
  if (tells) report.footer();
  if (tells) report.write_json();
  return wrong;
}

int run_here(const PerfOptions& options) {
  std::atomic<bool> all_right{true};
  const bool went_well = run_ranks(
      "tutti perf", options.threads,
      [&](Communicator& comm) {
        if (run_rank(comm, options) != 0) all_right = false;
      },
      options.device ? &Gpu::use : std::function<void(int)>());
  return went_well && all_right ? 0 : 1;
}

/// A mistake in a variable that all ranks would read is an error here, once.
void check_variables() {
  select::parse_forced(env().algorithm);
  select::parse_forced_methods(select::forced_methods_text());
  select::check_plan_files(env().plan);
}

/// Starts this program again, as this many processes.
int run_processes(const Words& words, const std::vector<std::string>& arguments) {
  check_variables();
  const int ranks = words.processes * words.options.threads;
  check_memory(rows_of(words.options, ranks), static_cast<uint64_t>(ranks), available_memory(), "this host");
  return run_job(job_of_self("tutti perf", arguments, place_here(words.processes), words.options.threads));
}

void add_flags(CLI::App& command, Words& words) {
  PerfOptions& options = words.options;
  constexpr int kMaxGrouped = 1 << 20;  // each call of a group takes memory until the group ends
  const auto at_least = [](int least) { return CLI::Range(least, INT_MAX); };
  command
      .add_option("COLLECTIVE", words.collective, "what to measure; nccl-tests', NCCL's and MPI's names are known too")
      ->required();
  command.add_option("--np", words.processes, "starts so many process ranks on this host")->check(CLI::Range(1, 65536));
  command.add_option("-t,--nthreads", options.threads, "ranks as threads of each process; default 1")
      ->check(CLI::Range(1, 1024));
  command.add_option("-b,--minbytes", words.first, "the smallest size; default 8");
  command.add_option("-e,--maxbytes", words.last, "the largest size; default 64M");
  command.add_option("-f,--stepfactor", words.factor, "from one size to the next; default 4")
      ->check(within(1.001, 1e18));
  command.add_option("-i,--stepbytes", words.step, "from one size to the next, instead of -f");
  command.add_option("-n,--iters", options.iterations, "timed calls for each size; default 20")->check(at_least(1));
  command.add_option("-w,--warmup_iters", options.warmup, "calls before those; default 5")->check(at_least(0));
  command.add_option("-m,--agg_iters", options.aggregate, "calls in one group; default 1")
      ->check(CLI::Range(1, kMaxGrouped));
  command.add_option("-c,--check", options.checks, "checked calls for each size, with other data each; default 1")
      ->check(at_least(0));
  std::string ops, types;
  for (int i = 0; i < kOps; ++i) ops += fmt::format("{} ", name_of(static_cast<Op>(i)));
  command.add_option("-o,--op", words.op, ops + "(mulsum), or all; default sum");
  for (int i = 0; i < kDTypes; ++i) types += fmt::format("{} ", name_of(static_cast<DType>(i)));
  command.add_option("-d,--datatype", words.type, types + "(or int8 half float …), or all; default f32");
  command.add_option("-r,--root", words.root, "a rank, or all; default 0");
  command
      .add_option("-z,--blocking", words.blocking,
                  "1: each call blocks; 0: queued on a stream, waited for once; default 1")
      ->check(CLI::Range(0, 1));
  command
      .add_option("-R,--local_register", words.mapped,
                  "1: buffers are tuttiMemAlloc's, which the ranks of a host can map, or with --device cuda registered "
                  "(tuttiCommRegister); 0: malloc's, or the GPU's and not registered; default 0")
      ->check(CLI::Range(0, 1));
  command.add_option("--device", words.device, "where the buffers lie: host or cuda; default host")
      ->check(CLI::IsMember({"host", "cuda"}));
  command
      .add_option(
          "-G,--cudagraph", options.graphs,
          "with --device cuda: captures the iterations in a graph, and replays it so often; default 0: no graph")
      ->check(at_least(0));
  command
      .add_option("-a,--average", words.time_of, "time of: 0 rank 0, 1 average, 2 fastest, 3 slowest rank; default 3")
      ->check(CLI::Range(0, 3));
  command.add_flag("--bound", options.bound,
                   "beside each size, the busbw that no schedule exceeds on this machine, by its topology "
                   "(docs/synthesis.md)");
  command.add_option("--json", options.json, "writes the results to a file as well; -: to standard output instead")
      ->type_name("FILE");
  command.add_flag("--launched", words.launched)->group("");
  for (const Foreign& flag : kForeign) {
    command
        .add_option_function<std::string>(
            flag.flags,
            [flag](const std::string&) { throw_error(Code::InvalidArgument, "{}: {}", flag.flags, flag.why); })
        ->group("");
  }
}

}  // namespace

void add_perf(CLI::App& app, const std::vector<std::string>& arguments, int& status) {
  CLI::App* command = app.add_subcommand("perf", "measures a collective and checks its results");
  const auto words = std::make_shared<Words>();
  add_flags(*command, *words);
  command->footer(kPerfDetails);
  command->callback([words, command, &arguments, &status] {
    read_words(*words, command->count("-e") > 0);
    const bool start_processes = words->processes > 0 && !words->launched;
    status = start_processes ? run_processes(*words, arguments) : run_here(words->options);
  });
}

}  // namespace tutti::tools
