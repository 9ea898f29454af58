// tutti train: trains a small GPT, with every kind of parallelism that the training layer has.
#include <fmt/format.h>

#include <climits>
#include <memory>
#include <optional>

#include "base/format.hpp"
#include "tools/commands.hpp"
#include "tools/perf/ranks.hpp"
#include "tools/run/self_job.hpp"
#include "tools/train/progress.hpp"
#include "tools/train/trace.hpp"
#include "tutti/train/trainer.hpp"

namespace tutti::tools {
namespace {

constexpr const char* kDetails = R"(
The model is a byte-level GPT; its text is any file, or the licences that every Debian has. The batch is that of all
ranks together, so the loss is the same however many there are. Ranks are -n processes; without -n, those of the launcher
(tutti run, torchrun, srun, mpirun).

waiting: the share of a step in which rank 0 waits for communication. hidden: the share of the gradients' communication
that ran while the backward pass computed. balance, busiest: with --experts, the load-balance loss (1 where the experts
have equal shares of the tokens) and the largest share by the mean one, in the layer where it is largest.

Examples:
  tutti train -n 2
  tutti train -n 4 --data-parallel server --svg curve.svg
  tutti train -n 4 --tp 2 --sp
  tutti train -n 4 --cp 4 --length 512
  tutti train -n 4 --ep 4 --experts 8 --top-k 2
  tutti train -n 4 --zero 3 --bf16 --checkpoint-activations
  tutti train -n 4 --zero 1 --steps 200 --save ckpt --save-every 50
  tutti train -n 2 --zero 3 --steps 300 --save ckpt --resume
  tutti train -n 4 --pp 4 --micro-batches 8 --schedule zb-h1 --pace 5 --trace timeline.svg --trace timeline.json
  tutti run --hosts a,b -- tutti train --text book.txt --json log.jsonl
)";

struct Words {
  int processes = 0, steps = 600;
  bool launched = false;
  std::string text, data_parallel = "ddp", type = "f32", wire = "f32", cp_mode = "ring", schedule = "1f1b";
  int zero = 0;
  bool bf16 = false, keep_gathered = false, resume = false;
  std::string save;
  int save_every = 0;
  std::vector<std::string> traces;
  double pace = 0;                       // milliseconds
  double bucket = 25, first_bucket = 1;  // MiB
  int dp = 0;                            // 0: what the other axes leave
  train::TrainOptions options;
  ProgressOptions progress;
};

constexpr double kMiB = 1 << 20;

void read_words(Words& words) {
  train::TrainOptions& options = words.options;
  train::DataParallelOptions& data = options.data_parallel;
  const auto type = [](const std::string& word) { return word == "bf16" ? DType::BF16 : DType::F32; };
  data.mode = words.data_parallel == "server" ? train::DataParallelMode::ParameterServer : train::DataParallelMode::Ddp;
  options.context = words.cp_mode == "ulysses" ? train::ContextMode::Ulysses : train::ContextMode::Ring;
  if (words.zero > 0 && words.data_parallel != "ddp") {
    throw_error(Code::InvalidArgument, "--zero {} and --data-parallel {} exclude each other: leave out one", words.zero,
                words.data_parallel);
  }
  constexpr train::DataParallelMode kStages[] = {train::DataParallelMode::Zero1, train::DataParallelMode::Zero2,
                                                 train::DataParallelMode::Zero3};
  if (words.zero > 0) data.mode = kStages[words.zero - 1];
  data.reshard_after_forward = !words.keep_gathered;
  data.weights = words.bf16 ? DType::BF16 : type(words.type);
  data.communication = type(words.wire);
  data.bucket = static_cast<size_t>(words.bucket * kMiB);
  data.first_bucket = static_cast<size_t>(words.first_bucket * kMiB);
  options.pipeline.schedule = train::schedule_kind(words.schedule);
  options.pace = words.pace * 1e-3;
}

/// Before any rank is started: a run that does not resume must not add to another run's checkpoints.
void check_save(const Words& words) {
  if (words.save.empty()) {
    if (words.resume || words.save_every > 0)
      throw_error(Code::InvalidArgument, "--resume and --save-every need a folder: --save DIR");
    return;
  }
  const std::optional<int64_t> newest = train::newest_checkpoint(words.save);
  if (newest && !words.resume) {
    throw_error(Code::InvalidArgument,
                "--save {}: there is a checkpoint of step {}; go on from it with --resume, or "
                "choose another folder",
                words.save, *newest);
  }
}

/// One rank's whole run.
void run_rank(Communicator& comm, const Words& words) {
  train::TrainOptions options = words.options;
  train::MeshShape& mesh = options.mesh;
  const int others = mesh.ranks() / mesh.dp;
  mesh.dp = words.dp > 0 ? words.dp : std::max(1, comm.size() / others);
  train::Trainer trainer(comm, options, train::Corpus::read(words.text));
  Progress progress(words.progress, comm.rank() == 0, words.steps);
  progress.begin(trainer, comm.size());
  if (words.resume) trainer.resume(words.save);
  while (trainer.steps_done() < words.steps) {
    const bool traced = !words.traces.empty() && trainer.steps_done() + 1 == words.steps;
    progress.step(traced ? traced_step(trainer, words.traces, comm.rank() == 0) : trainer.step());
    const int64_t done = trainer.steps_done();
    const bool due = done == words.steps || (words.save_every > 0 && done % words.save_every == 0);
    if (words.save.empty() || !due) continue;
    trainer.save(words.save);
    progress.saved(words.save, done);
  }
  progress.end(trainer);
}

/// The kinds of parallelism that split layers.
void add_split_flags(CLI::App& command, Words& words) {
  train::TrainOptions& o = words.options;
  const auto least = [](int lowest) { return CLI::Range(lowest, INT_MAX); };
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
      .add_option("--cp-mode", words.cp_mode,
                  "ring (keys and values circulate) or ulysses (all-to-all of heads and sequence); default ring")
      ->check(CLI::IsMember({"ring", "ulysses"}))
      ->needs(cp);
  CLI::Option* const experts =
      command.add_option("--experts", o.moe.experts, "in each layer, over all ranks, instead of an MLP; default: none")
          ->check(least(1));
  command.add_option("--ep", o.mesh.ep, "expert-parallel ranks, which divide the experts; default 1")
      ->check(least(1))
      ->needs(experts);
  command.add_option("--top-k", o.moe.top_k, "experts of a token; default 2")->check(least(1))->needs(experts);
  command
      .add_option("--capacity", o.moe.capacity,
                  "an expert takes so many even shares of tokens and drops the rest; default 0: takes all")
      ->check(CLI::Range(0.0, 1e9))
      ->needs(experts);
  command.add_option("--balance", o.moe.balance, "weight of the load-balance loss; default 0.01")
      ->check(CLI::Range(0.0, 1e9))
      ->needs(experts);
}

void add_pipeline_flags(CLI::App& command, Words& words) {
  train::TrainOptions& o = words.options;
  const auto least = [](int lowest) { return CLI::Range(lowest, INT_MAX); };
  command.add_option("--pp", o.mesh.pp, "pipeline-parallel ranks: stages of layers; default 1")->check(least(1));
  command
      .add_option("--schedule", words.schedule,
                  "of the pipeline: naive, gpipe, 1f1b, interleaved or zb-h1; default 1f1b")
      ->check(CLI::IsMember({"naive", "gpipe", "1f1b", "interleaved", "zb-h1"}));
  command.add_option("--chunks", o.pipeline.chunks, "of layers on each rank, for --schedule interleaved; default 1")
      ->check(least(1));
  command
      .add_option("--pace", words.pace,
                  "ms that each stage's F, B and W last at least (they sleep): shows a schedule on few cores")
      ->check(CLI::Range(0.0, 1e4));
  command
      .add_option("--trace", words.traces,
                  "draws the last step's timeline: FILE.svg a picture, FILE.json for Perfetto; may be given twice")
      ->type_name("FILE");
}

void add_flags(CLI::App& command, Words& words) {
  train::TrainOptions& o = words.options;
  const auto least = [](int lowest) { return CLI::Range(lowest, INT_MAX); };
  command.add_option("-n,--np", words.processes, "starts so many process ranks on this host")
      ->check(CLI::Range(1, 65536));
  command.add_option("--steps", words.steps, "of the optimizer; default 600")->check(least(1));
  command.add_option("--text", words.text, "the file to learn; default: the licences in /usr/share/common-licenses");
  command.add_option("--layers", o.model.layers, "transformer blocks; default 4")->check(least(1));
  command.add_option("--width", o.model.width, "of the model; default 64")->check(least(1));
  command.add_option("--heads", o.model.heads, "of attention; default 4")->check(least(1));
  command.add_option("--length", o.model.length, "bytes in a sequence; default 64")->check(least(1));
  command.add_option("--batch", o.batch, "sequences in a step, over all ranks; default 16")->check(least(1));
  command.add_option("--micro-batches", o.micro_batches, "into which each rank divides its batch; default 1")
      ->check(least(1));
  command.add_option("--dp", words.dp, "data-parallel ranks; default: what the other kinds leave")->check(least(1));
  add_split_flags(command, words);
  add_pipeline_flags(command, words);
  command
      .add_option("--data-parallel", words.data_parallel,
                  "ddp, or server (a parameter server, to compare); default ddp")
      ->check(CLI::IsMember({"ddp", "server"}));
  command.add_option("--type", words.type, "of weights and gradients: f32 or bf16 (with an f32 master); default f32")
      ->check(CLI::IsMember({"f32", "bf16"}));
  command.add_option("--wire-type", words.wire, "of gradients on the wire: f32 or bf16; default f32")
      ->check(CLI::IsMember({"f32", "bf16"}));
  command.add_option("--bucket", words.bucket, "MiB of gradients in one all-reduce; default 25")
      ->check(CLI::Range(0.001, 4096.0));
  command.add_option("--first-bucket", words.first_bucket, "MiB in the first; default 1")
      ->check(CLI::Range(0.001, 4096.0));
  command
      .add_option("--zero", words.zero, "shards optimizer states (1), gradients (2), weights (3); default 0: nothing")
      ->check(CLI::Range(0, 3));
  command.add_flag("--keep-gathered", words.keep_gathered, "ZeRO-3 keeps weights from forward to backward");
  command.add_flag("--bf16", words.bf16, "as --type bf16");
  command.add_flag("--checkpoint-activations", o.checkpoint_activations,
                   "keeps only each unit's input, and runs forward again in backward");
  command.add_option("--save", words.save, "the folder of checkpoints; one is saved at the end")->type_name("DIR");
  command.add_option("--save-every", words.save_every, "steps from one checkpoint to the next")->check(least(1));
  command.add_flag("--resume", words.resume, "goes on from the newest checkpoint of --save, with any ranks and --zero");
  command.add_option("--rate", o.adam.rate, "of learning; default 0.003")->check(CLI::Range(0.0, 10.0));
  command.add_option("--warmup", o.warmup, "steps over which the rate rises; default 10")->check(least(0));
  command.add_option("--clip", o.clip, "the gradients' largest norm; 0: any; default 1")->check(CLI::Range(0.0, 1e9));
  command.add_option("--seed", o.seed, "of parameters and data; default 1");
  command.add_flag("--reproducible", o.reproducible, "the same bits as micro-batches of one process (n = 2)");
  command.add_option("--svg", words.progress.svg, "writes the learning curve to a file")->type_name("FILE");
  command.add_option("--json", words.progress.json, "writes a line for each step to a file as well")->type_name("FILE");
  command.add_flag("--launched", words.launched)->group("");
}

}  // namespace

void add_train(CLI::App& app, const std::vector<std::string>& arguments, int& status) {
  CLI::App* command = app.add_subcommand("train", "trains a small GPT over all ranks");
  const auto words = std::make_shared<Words>();
  train::TrainOptions& options = words->options;  // these learn the default text within a minute of processor time
  options.model = {.layers = 4, .width = 64, .heads = 4, .length = 64};
  options.batch = 16;
  options.adam.rate = 3e-3f;
  add_flags(*command, *words);
  command->footer(kDetails);
  command->callback([words, &arguments, &status] {
    read_words(*words);
    if (!words->launched) check_save(*words);
    check_trace_names(words->traces);
    if (words->processes > 0 && !words->launched) {
      train::Corpus::read(words->text);  // an error before any rank is started
      status = run_job(job_of_self("tutti train", arguments, words->processes, 1));
      return;
    }
    const bool went_well = run_ranks("tutti train", 1, [&](Communicator& comm) { run_rank(comm, *words); });
    status = went_well ? 0 : 1;
  });
}

}  // namespace tutti::tools
