#include "tools/train/flags.hpp"

#include <algorithm>
#include <climits>
#include <filesystem>
#include <optional>

#include "base/format.hpp"
#include "tools/number_range.hpp"
#include "tools/output_option.hpp"
#include "tools/train/trace.hpp"

namespace tutti::tools {
namespace {

constexpr double kBytesOfMiB = 1 << 20;

[[noreturn]] void refuse(const std::string& text) { throw Error(Code::InvalidArgument, text); }

void check_no_flag_is_ignored(const CLI::App& command, const TrainFlags& flags) {
  const auto given = [&](const char* flag) { return command.count(flag) > 0; };
  const bool server = flags.data_parallel == "server";
  if (flags.zero > 0 && server) {
    refuse(fmt::format("--zero {} and --data-parallel server exclude each other: leave out one", flags.zero));
  }
  if (flags.keep_gathered && flags.zero != 3) refuse("--keep-gathered is for --zero 3: else nothing is gathered");
  for (const char* flag : {"--bucket", "--first-bucket"}) {
    if (!given(flag) || (flags.zero == 0 && !server)) continue;
    refuse(fmt::format("{} is for DDP: {} sends unit by unit", flag, server ? "a parameter server" : "ZeRO"));
  }
  if (given("--wire-type") && server)
    refuse("--wire-type is for DDP: a parameter server sends gradients as it has them");
  if (flags.bf16 && given("--type") && flags.type == "f32") refuse("--bf16 and --type f32 contradict each other");
  if (given("--cp-mode") && flags.options.mesh.cp == 1) refuse("--cp-mode is for --cp above 1");
  if (given("--capacity") && flags.options.moe.experts == 1) refuse("--capacity is for more than one expert");
}

CLI::Range least(int lowest) { return CLI::Range(lowest, INT_MAX); }

/// The kinds of parallelism that split layers.
void add_split_flags(CLI::App& command, TrainFlags& flags) {
  train::TrainOptions& o = flags.options;
  CLI::Option* const tp =
      command.add_option("--tp", o.mesh.tp, "tensor-parallel ranks, which divide each layer; default 1")
          ->check(least(1));
  command
      .add_flag("--sp", o.sequence_parallel,
                "sequence parallelism: tensor-parallel ranks divide the tokens where layers are not split")
      ->needs(tp);
  CLI::Option* const cp =
      command.add_option("--cp", o.mesh.cp, "context-parallel ranks, which divide each sequence; default 1")
          ->check(least(1));
  command
      .add_option("--cp-mode", flags.cp_mode,
                  "ring (keys and values circulate) or ulysses (all-to-all of heads and sequence); default ring")
      ->check(CLI::IsMember({"ring", "ulysses"}))
      ->needs(cp);
  CLI::Option* const experts =
      command.add_option("--experts", o.moe.experts, "in each layer, over all ranks, instead of an MLP; default: none")
          ->check(CLI::Range(1, 1 << 16));
  command.add_option("--ep", o.mesh.ep, "expert-parallel ranks, which divide the experts; default 1")
      ->check(least(1))
      ->needs(experts);
  command.add_option("--top-k", o.moe.top_k, "experts of a token; default 2")->check(least(1))->needs(experts);
  command
      .add_option("--capacity", o.moe.capacity,
                  "an expert takes so many even shares of tokens and drops the rest; default 0: takes all")
      ->check(within(0.0, 1e9))
      ->needs(experts);
  command.add_option("--balance", o.moe.balance, "weight of the load-balance loss; default 0.01")
      ->check(within(0.0, 1e9))
      ->needs(experts);
}

void add_pipeline_flags(CLI::App& command, TrainFlags& flags) {
  train::TrainOptions& o = flags.options;
  command.add_option("--pp", o.mesh.pp, "pipeline-parallel ranks: stages of layers; default 1")->check(least(1));
  command
      .add_option("--schedule", flags.schedule,
                  "of the pipeline: naive, gpipe, 1f1b, interleaved or zb-h1; default 1f1b")
      ->check(CLI::IsMember({"naive", "gpipe", "1f1b", "interleaved", "zb-h1"}));
  command.add_option("--chunks", o.pipeline.chunks, "of layers on each rank, for --schedule interleaved; default 1")
      ->check(CLI::Range(1, 1024));
  command
      .add_option("--pace", flags.pace,
                  "ms that each stage's F, B and W last at least (they sleep): shows a schedule on few cores")
      ->check(within(0.0, 1e4));
  command
      .add_option(
          "--trace", flags.traces,
          "what all ranks did in the last step: FILE.svg a picture, FILE.json for Perfetto and tutti trace; may "
          "be given twice")
      ->type_name("FILE");
}

}  // namespace

void add_flags(CLI::App& command, TrainFlags& flags) {
  train::TrainOptions& o = flags.options;
  command.add_option("-n,--np", flags.processes, "starts so many process ranks on this host")
      ->check(CLI::Range(1, 65536));
  command.add_option("--steps", flags.steps, "of the optimizer; default 600")->check(least(1));
  command.add_option("--text", flags.text, "the file to learn; default: the licences in /usr/share/common-licenses");
  command.add_option("--layers", o.model.layers, "transformer blocks; default 4")->check(CLI::Range(1, 1024));
  command.add_option("--width", o.model.width, "of the model; default 64")->check(CLI::Range(1, 1 << 16));
  command.add_option("--heads", o.model.heads, "of attention; default 4")->check(CLI::Range(1, 1 << 16));
  command.add_option("--length", o.model.length, "bytes in a sequence; default 64")->check(CLI::Range(1, 1 << 20));
  command.add_option("--batch", o.batch, "sequences in a step, over all ranks; default 16")
      ->check(CLI::Range(1, 1 << 20));
  command.add_option("--micro-batches", o.micro_batches, "into which each rank divides its batch; default 1")
      ->check(CLI::Range(1, 1 << 16));
  command.add_option("--dp", flags.dp, "data-parallel ranks; default: what the other kinds leave")->check(least(1));
  add_split_flags(command, flags);
  add_pipeline_flags(command, flags);
  command
      .add_option("--data-parallel", flags.data_parallel,
                  "ddp, or server (a parameter server, to compare); default ddp")
      ->check(CLI::IsMember({"ddp", "server"}));
  command.add_option("--type", flags.type, "of weights and gradients: f32 or bf16 (with an f32 master); default f32")
      ->check(CLI::IsMember({"f32", "bf16"}));
  command.add_option("--wire-type", flags.wire, "of gradients on the wire: f32 or bf16; default f32")
      ->check(CLI::IsMember({"f32", "bf16"}));
  command.add_option("--bucket", flags.bucket, "MiB of gradients in one all-reduce; default 25")
      ->check(within(0.001, 4096.0));
  command.add_option("--first-bucket", flags.first_bucket, "MiB in the first; default 1")->check(within(0.001, 4096.0));
  command
      .add_option("--zero", flags.zero, "shards optimizer states (1), gradients (2), weights (3); default 0: nothing")
      ->check(CLI::Range(0, 3));
  command.add_flag("--keep-gathered", flags.keep_gathered, "ZeRO-3 keeps weights from forward to backward");
  command.add_flag("--bf16", flags.bf16, "as --type bf16");
  command.add_flag("--checkpoint-activations", o.checkpoint_activations,
                   "keeps only each unit's input, and runs forward again in backward");
  command.add_option("--save", flags.save, "the folder of checkpoints; one is saved at the end")->type_name("DIR");
  command.add_option("--save-every", flags.save_every, "steps from one checkpoint to the next")->check(least(1));
  command
      .add_option("--restarts", flags.restarts,
                  "with -n: starts a rank that has failed again, so many times in all; the others go on with it")
      ->check(least(0));
  command
      .add_option("--min-ranks", flags.min_ranks,
                  "with -n: where no restart is left, the others go on as long as so many remain")
      ->check(least(1));
  command
      .add_option(
          "--notice", flags.notice,
          "with -n: seconds from SIGTERM, or Ctrl-C with --save, until ranks that still run are ended; default 30")
      ->check(within(0.0, 1e6));
  command
      .add_option(
          "--snapshot-every", flags.snapshot_every,
          "seconds between copies of the optimizer's state in memory, which are kept where ranks may be lost and "
          "replaced; default 2")
      ->check(within(0.0, 1e6));
  command.add_flag("--resume", flags.resume, "goes on from the newest checkpoint of --save, with any ranks and --zero");
  command.add_option("--rate", o.adam.rate, "of learning; default 0.003")->check(within(0.0, 10.0));
  command.add_option("--warmup", o.warmup, "steps over which the rate rises; default 10")->check(least(0));
  command.add_option("--clip", o.clip, "the gradients' largest norm; 0: any; default 1")->check(within(0.0, 1e9));
  command.add_option("--seed", o.seed, "of parameters and data; default 1");
  command.add_flag("--reproducible", o.reproducible, "the same bits as micro-batches of one process (n = 2)");
  add_output(command, {{".svg", "the learning curve", &flags.progress.svg},
                       {".json", "a line for each step", &flags.progress.json}});
  command.add_option("--svg", flags.progress.svg, "writes the learning curve to a file")->type_name("FILE");
  command.add_option("--json", flags.progress.json, "writes a line for each step to a file as well")->type_name("FILE");
  command.add_flag("--launched", flags.launched)->group("");
}

void read_flags(const CLI::App& command, TrainFlags& flags) {
  check_no_flag_is_ignored(command, flags);
  if (flags.save.empty() && (flags.resume || flags.save_every > 0)) {
    refuse("--resume and --save-every need a folder: --save DIR");
  }
  if ((flags.restarts > 0 || flags.min_ranks > 0) && flags.processes == 0 && !flags.launched) {
    refuse("--restarts and --min-ranks need -n; under tutti run they are options of that");
  }
  train::TrainOptions& options = flags.options;
  train::DataParallelOptions& data = options.data_parallel;
  const auto type = [](const std::string& word) { return word == "bf16" ? DType::BF16 : DType::F32; };
  using Mode = train::DataParallelMode;
  constexpr Mode kStages[] = {Mode::Ddp, Mode::Zero1, Mode::Zero2, Mode::Zero3};
  data.mode = flags.data_parallel == "server" ? Mode::ParameterServer : kStages[flags.zero];
  options.context = flags.cp_mode == "ulysses" ? train::ContextMode::Ulysses : train::ContextMode::Ring;
  data.reshard_after_forward = !flags.keep_gathered;
  data.weights = flags.bf16 ? DType::BF16 : type(flags.type);
  data.communication = type(flags.wire);
  data.bucket = static_cast<size_t>(flags.bucket * kBytesOfMiB);
  data.first_bucket = static_cast<size_t>(flags.first_bucket * kBytesOfMiB);
  options.pipeline.schedule = train::schedule_kind(flags.schedule);
  options.pace = flags.pace * 1e-3;
  check_trace_names(flags.traces);
}

train::TrainOptions options_for(const TrainFlags& flags, int ranks) {
  train::TrainOptions options = flags.options;
  options.mesh.dp = 1;
  options.mesh.dp = flags.dp > 0 ? flags.dp : static_cast<int>(std::max<int64_t>(1, ranks / options.mesh.ranks()));
  return options;
}

void check_files(const TrainFlags& flags) {
  std::error_code error;
  if (!flags.save.empty() && std::filesystem::exists(flags.save, error) &&
      !std::filesystem::is_directory(flags.save, error)) {
    refuse(fmt::format("--save {} is a file: checkpoints need a folder, which may not exist yet", flags.save));
  }
  const std::optional<int64_t> newest = flags.save.empty() ? std::nullopt : train::newest_checkpoint(flags.save);
  if (newest && !flags.resume) {  // a run that does not resume must not add to another run's checkpoints
    refuse(
        fmt::format("--save {}: there is a checkpoint of step {}; go on from it with --resume, or choose another "
                    "folder",
                    flags.save, *newest));
  }
  if (newest && *newest >= flags.steps) {
    refuse(fmt::format("--save {}: step {} of {} is already done; raise --steps", flags.save, *newest, flags.steps));
  }
  OutputFile("--svg", flags.progress.svg, true).close();
  OutputFile("--json", flags.progress.json, true).close();
  for (const std::string& name : flags.traces) OutputFile("--trace", name, true).close();
}

void check_run(const TrainFlags& flags, int ranks) {
  const train::TrainOptions options = options_for(flags, ranks);
  train::check_options(options, ranks);
  std::vector<int32_t> tokens(options.model.length), targets(options.model.length);
  train::Corpus::read(flags.text).sequence(0, 0, 0, options.model.length, tokens.data(), targets.data());
}

namespace {

/// The least batch, not below the one given, that so many ranks, and each number up to --min-ranks, can divide; 0: none
/// was found.
size_t common_batch(const TrainFlags& flags) {
  constexpr size_t kTries = 1000;
  for (size_t batch = flags.options.batch; batch < flags.options.batch + kTries; ++batch) {
    bool all = true;
    for (int ranks = flags.min_ranks; all && ranks <= flags.processes; ++ranks) {
      TrainFlags other = flags;
      other.options.batch = batch;
      try {
        train::check_options(options_for(other, ranks), ranks);
      } catch (const Error&) {
        all = false;
      }
    }
    if (all) return batch == flags.options.batch ? 0 : batch;  // if so, something else is wrong
  }
  return 0;
}

}  // namespace

void check_fewer(const TrainFlags& flags) {
  for (int ranks = flags.min_ranks; ranks > 0 && ranks < flags.processes; ++ranks) {
    try {
      check_run(flags, ranks);
    } catch (const Error& error) {
      const size_t batch = common_batch(flags);
      throw_error(
          error.code(), "of the {} ranks that --min-ranks {} allows: {}{}", ranks, flags.min_ranks, error.what(),
          batch == 0
              ? ""
              : fmt::format("; --batch {} can be divided by {} to {} ranks", batch, flags.min_ranks, flags.processes));
    }
  }
}

}  // namespace tutti::tools
