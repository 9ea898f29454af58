// The options of a run: whether they fit together, and all of them as text, for comparing ranks.
#include <fmt/format.h>

#include <vector>

#include "tutti/train/trainer.hpp"

namespace tutti::train {
namespace {

void refuse_if(const std::string& objection) {
  if (!objection.empty()) throw Error(Code::InvalidArgument, objection);
}

/// The batch is divided among dp x ep ranks and micro-batches.
void check_batch(const TrainOptions& o) {
  const size_t parts = static_cast<size_t>(o.mesh.dp) * static_cast<size_t>(o.mesh.ep) * o.micro_batches;
  if (parts == 0 || o.batch == 0) refuse_if("the batch and the number of micro-batches are 1 or more");
  if (o.batch % parts != 0) {
    const size_t below = o.batch / parts * parts, above = below + parts;
    refuse_if(fmt::format("the batch of {} sequences cannot be divided by dp {} x ep {} x {} micro-batches: {}{} can",
                          o.batch, o.mesh.dp, o.mesh.ep, o.micro_batches, below > 0 ? fmt::format("{} or ", below) : "",
                          above));
  }
  if (!o.sequence_parallel) return;
  if (o.mesh.tp == 1) {
    refuse_if(
        "sequence parallelism divides among tensor-parallel ranks what they would each hold: it needs tp above 1");
  }
  const size_t tokens = o.batch / parts * o.model.length / static_cast<size_t>(o.mesh.cp);
  check_divides("tp", static_cast<size_t>(o.mesh.tp), "the tokens of a micro-batch", tokens);
}

}  // namespace

void check_options(const TrainOptions& o, int ranks) {
  refuse_if(objection(o.mesh, ranks));
  const auto tp = static_cast<size_t>(o.mesh.tp);
  check_config(o.model, tp);
  if (o.mesh.ep > 1 && o.moe.experts == 0) {
    refuse_if(fmt::format(
        "ep is {}, but the model has no experts: choose their number, a multiple of ep, or leave out ep", o.mesh.ep));
  }
  if (o.moe.experts > 0) check_config(o.moe, o.model.hidden(), static_cast<size_t>(o.mesh.ep), tp);
  check_batch(o);
  context_positions(o.context, o.model.length, 0, o.mesh.cp);
  if (o.mesh.cp > 1 && o.context == ContextMode::Ulysses) {
    check_divides("cp", static_cast<size_t>(o.mesh.cp), "the heads of a rank", o.model.heads / tp);
  }
  const PipelineShape pipeline{o.mesh.pp, static_cast<int>(o.micro_batches), o.pipeline.chunks};
  refuse_if(objection(o.pipeline.schedule, pipeline));
  balanced_stages(std::vector<double>(o.model.layers + 2, 1), pipeline.stages());
  refuse_if(objection(o.data_parallel, o.mesh.ep > 1));
}

// The bindings name every member: one that is added to a struct and not here does not compile.
std::string describe(const TrainOptions& options) {
  const auto& [model, mesh, pipeline, data_parallel, sequence_parallel, context, moe, checkpoint_activations, batch,
               micro_batches, seed, adam, warmup, clip, pace, reproducible, compare_every] = options;
  const auto& [layers, width, heads, length, vocabulary] = model;
  const auto& [dp, pp, cp, ep, tp] = mesh;
  const auto& [schedule, chunks] = pipeline;
  const auto& [mode, weights, communication, first_bucket, bucket, reshard] = data_parallel;
  const auto& [experts, top_k, capacity, balance] = moe;
  const auto& [rate, beta1, beta2, epsilon, decay, scale, step] = adam;
  std::string text;
  const auto say = [&text](const char* name, const auto& value) { text += fmt::format("{} {}\n", name, value); };
  say("layers", layers), say("width", width), say("heads", heads), say("length", length);
  say("vocabulary", vocabulary), say("dp", dp), say("pp", pp), say("cp", cp), say("ep", ep), say("tp", tp);
  say("schedule", name_of(schedule)), say("chunks", chunks);
  say("data-parallel mode", static_cast<int>(mode)), say("weights of type", name_of(weights));
  say("wire-type", name_of(communication)), say("first-bucket", first_bucket), say("bucket", bucket);
  say("reshard after forward", reshard), say("sequence parallelism", sequence_parallel);
  say("cp-mode", context == ContextMode::Ring ? "ring" : "ulysses"), say("experts", experts), say("top-k", top_k);
  say("capacity", capacity), say("balance", balance), say("checkpoint-activations", checkpoint_activations);
  say("batch", batch), say("micro-batches", micro_batches), say("seed", seed), say("rate", rate);
  say("beta1", beta1), say("beta2", beta2), say("epsilon", epsilon), say("decay", decay), say("scale", scale);
  say("first step", step), say("warmup", warmup), say("clip", clip), say("pace", pace);
  say("reproducible", reproducible), say("compare-every", compare_every);
  return text;
}

}  // namespace tutti::train
