// tutti train: trains a small GPT, with every kind of parallelism that the training layer has.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memory>

#include "base/env.hpp"
#include "base/format.hpp"
#include "tools/commands.hpp"
#include "tools/exit_status.hpp"
#include "tools/perf/ranks.hpp"
#include "tools/run/hosts.hpp"
#include "tools/run/restarts.hpp"
#include "tools/run/self_job.hpp"
#include "tools/train/flags.hpp"
#include "tools/train/train_run.hpp"

namespace tutti::tools {
namespace {

constexpr const char* kDetails = R"(
The model is a byte-level GPT; its text is any file, or the licences that every Debian has. The batch is that of all
ranks together, so the loss is the same however many there are. Ranks are -n processes; without -n, those of the launcher
(tutti run, torchrun, srun, mpirun).

With --restarts or --min-ranks, or under tutti run with these, training goes on when a rank is lost, from copies of the
optimizer's state in memory. SIGTERM and Ctrl-C save, with --save, and end, within --notice seconds; a second Ctrl-C
ends at once.

waiting: the share of a step in which rank 0 waits for communication. hidden: the share of the gradients' communication
that ran while the backward pass computed. balance, imbalance: with --experts, the load-balance loss (1 where the experts
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
  tutti train -n 4 --zero 1 --steps 2000 --restarts 3 --save ckpt --save-every 500
  tutti train -n 4 --pp 4 --micro-batches 8 --schedule zb-h1 --pace 5 --trace timeline.svg --trace timeline.json
  tutti run --hosts a,b -- tutti train --text book.txt --json log.jsonl
)";

}  // namespace

void add_train(CLI::App& app, const std::vector<std::string>& arguments, int& status) {
  CLI::App* command = app.add_subcommand("train", "trains a small GPT over all ranks");
  const auto flags = std::make_shared<TrainFlags>();
  train::TrainOptions& options = flags->options;  // these learn the default text within a minute of processor time
  options.model = {.layers = 4, .width = 64, .heads = 4, .length = 64};
  options.batch = 16;
  options.adam.rate = 3e-3f;
  add_flags(*command, *flags);
  command->footer(kDetails);
  command->callback([command, flags, &arguments, &status] {
    read_flags(*command, *flags);
    const bool elastic = !env().job_server.empty();
    if (!flags->launched && !elastic) check_files(*flags);
    if (flags->processes > 0 && !flags->launched) {
      check_run(*flags, flags->processes);
      check_fewer(*flags);
      Job job = job_of_self("tutti train", arguments, place_here(flags->processes), 1);
      job.notice = flags->notice;
      job.saves = !flags->save.empty();
      if (flags->restarts > 0 || flags->min_ranks > 0) {
        job.restarts = std::make_shared<Restarts>(job, flags->restarts, flags->min_ranks);
      }
      status = run_job(job);
      return;
    }
    if (elastic) {
      status = train_through_generations(*flags);
      return;
    }
    int failed = 1;
    const bool went_well = run_ranks("tutti train", 1, [&](Communicator& comm) {
      try {
        TrainRun(*flags).on(comm);
      } catch (const Error& error) {
        failed = status_of(error);
        throw;
      }
    });
    status = went_well ? 0 : failed;
  });
}

}  // namespace tutti::tools
