// tutti train: trains a small GPT, with every kind of parallelism that the training layer has.
#include <fmt/format.h>

#include <climits>
#include <memory>

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
that ran while the backward pass computed.

Examples:
  tutti train -n 2 --steps 50
  tutti train -n 4 --data-parallel server --svg curve.svg
  tutti train -n 4 --pp 4 --micro-batches 8 --schedule zb-h1 --pace 5 --trace timeline.svg --trace timeline.json
  tutti run --hosts a,b -- tutti train --text book.txt --json log.jsonl
)";

struct Words {
  int processes = 0, steps = 50;
  bool launched = false;
  std::string text, data_parallel = "ddp", type = "f32", wire = "f32", schedule = "1f1b";
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
  data.weights = type(words.type);
  data.communication = type(words.wire);
  data.bucket = static_cast<size_t>(words.bucket * kMiB);
  data.first_bucket = static_cast<size_t>(words.first_bucket * kMiB);
  options.pipeline.schedule = train::schedule_kind(words.schedule);
  options.pace = words.pace * 1e-3;
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
  for (int i = 0; i < words.steps; ++i) {
    const bool traced = !words.traces.empty() && i + 1 == words.steps;
    progress.step(traced ? traced_step(trainer, words.traces, comm.rank() == 0) : trainer.step());
  }
  progress.end(trainer);
}

void add_flags(CLI::App& command, Words& words) {
  train::TrainOptions& o = words.options;
  const auto least = [](int lowest) { return CLI::Range(lowest, INT_MAX); };
  command.add_option("-n,--np", words.processes, "starts so many process ranks on this host")
      ->check(CLI::Range(1, 65536));
  command.add_option("--steps", words.steps, "of the optimizer; default 50")->check(least(1));
  command.add_option("--text", words.text, "the file to learn; default: the licences in /usr/share/common-licenses");
  command.add_option("--layers", o.model.layers, "transformer blocks; default 4")->check(least(1));
  command.add_option("--width", o.model.width, "of the model; default 128")->check(least(1));
  command.add_option("--heads", o.model.heads, "of attention; default 4")->check(least(1));
  command.add_option("--length", o.model.length, "bytes in a sequence; default 128")->check(least(1));
  command.add_option("--batch", o.batch, "sequences in a step, over all ranks; default 8")->check(least(1));
  command.add_option("--micro-batches", o.micro_batches, "into which each rank divides its batch; default 1")
      ->check(least(1));
  command.add_option("--dp", words.dp, "data-parallel ranks; default: what the other kinds leave")->check(least(1));
  command.add_option("--tp", o.mesh.tp, "tensor-parallel ranks; default 1")->check(least(1));
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
  command.add_option("--rate", o.adam.rate, "of learning; default 0.001")->check(CLI::Range(0.0, 10.0));
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
  words->options.adam.rate = 1e-3f;
  add_flags(*command, *words);
  command->footer(kDetails);
  command->callback([words, &arguments, &status] {
    read_words(*words);
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
