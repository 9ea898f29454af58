#include "tools/lab/lesson.hpp"

namespace tutti::tools {
namespace {

using train::planner::Input;
using train::planner::Row;
using train::planner::Sheet;
using train::planner::Source;
using enum train::planner::Part;

constexpr const char* kZero = "Rajbhandari 2020, §5";
constexpr const char* kFlop = "Chowdhery 2022, app. B";
constexpr const char* kRing = "Patarasuk 2009";
constexpr const char* kMega = "Shoeybi 2019, §3";
constexpr const char* kThakur = "Thakur 2005";
constexpr const char* kLiu = "Liu 2023, §3";
constexpr const char* kChen = "Chen 2016, §4";

// clang-format off
// Bytes of a parameter: mixed precision 2 + 2 + 12, all in f32 4 + 4 + 8. P: parts into which tp and pp cut the model.
constexpr Input kZeroInputs[] = {
    {"Ψ", "", "parameters"}, {"N", "", "data-parallel ranks"}, {"P", "", "parts of the model: tp·pp"}, {"M", "B", "memory of a GPU"},
    {"w", "B", "a weight"}, {"g", "B", "a gradient"}, {"o", "B", "optimizer, a parameter"},
};
constexpr Row kZeroRows[] = {
    {Memory, "z0", "", "(w + g + o)·Ψ/P", "B", "data parallel", kZero},
    {Memory, "z1", "", "(w + g + o/N)·Ψ/P", "B", "ZeRO-1", kZero},
    {Memory, "z2", "", "(w + (g + o)/N)·Ψ/P", "B", "ZeRO-2", kZero},
    {Memory, "z3", "", "(w + g + o)/N·Ψ/P", "B", "ZeRO-3", kZero},
    {Memory, "most0", "", "M·P/(w + g + o)", "", "largest model, data parallel", kZero},
    {Memory, "most1", "", "M·P/(w + g + o/N)", "", "largest model, ZeRO-1", kZero},
    {Memory, "most2", "", "M·P/(w + (g + o)/N)", "", "largest model, ZeRO-2", kZero},
    {Memory, "most3", "", "M·P·N/(w + g + o)", "", "largest model, ZeRO-3", kZero},
};

// An all-reduce of S bytes. A rank has one link of W bytes a second in each direction; the messages of one round share
// it, and their latencies overlap. t: time; p: sent by the rank that sends most; v: sent by all.
constexpr Input kGrowthInputs[] = {
    {"n", "", "ranks"}, {"k", "", "doublings: log₂ n"}, {"S", "B", "bytes of the buffer"}, {"α", "s", "latency"}, {"W", "B/s", "link, one direction"},
};
constexpr Row kGrowthRows[] = {
    {Time, "t_server", "", "2·(α + (n − 1)·S/W)", "s", "parameter server", "Li 2014"},
    {Time, "t_chain", "", "2·(n − 1)·(α + S/W)", "s", "sequential: along a chain and back", ""},
    {Time, "t_tree", "", "2·k·(α + S/W)", "s", "tree: up and down", kThakur},
    {Time, "t_oneshot", "", "α + (n − 1)·S/W", "s", "parallel: everything to everyone", ""},
    {Time, "t_doubling", "", "k·(α + S/W)", "s", "recursive doubling", kThakur},
    {Time, "t_ring", "", "2·(n − 1)·(α + S/(n·W))", "s", "ring", kRing},
    {Time, "t_twoshot", "", "2·(α + (n − 1)/n·S/W)", "s", "parallel: a chunk to each owner", ""},
    {Time, "t_halving", "", "2·(k·α + (n − 1)/n·S/W)", "s", "recursive halving and doubling", kThakur},
    {Volume, "p_server", "", "(n − 1)·S", "B", "parameter server", "Li 2014"},
    {Volume, "p_chain", "n=2", "S", "B", "sequential: along a chain and back", ""},
    {Volume, "p_chain", "", "2·S", "B", "sequential: along a chain and back", ""},
    {Volume, "p_tree", "", "k·S", "B", "tree: up and down", kThakur},
    {Volume, "p_oneshot", "", "(n − 1)·S", "B", "parallel: everything to everyone", ""},
    {Volume, "p_doubling", "", "k·S", "B", "recursive doubling", kThakur},
    {Volume, "p_ring", "", "2·(n − 1)/n·S", "B", "ring", kRing},
    {Volume, "p_twoshot", "", "2·(n − 1)/n·S", "B", "parallel: a chunk to each owner", ""},
    {Volume, "p_halving", "", "2·(n − 1)/n·S", "B", "recursive halving and doubling", kThakur},
    {Volume, "v_server", "", "2·(n − 1)·S", "B", "parameter server", "Li 2014"},
    {Volume, "v_chain", "", "2·(n − 1)·S", "B", "sequential: along a chain and back", ""},
    {Volume, "v_tree", "", "2·(n − 1)·S", "B", "tree: up and down", kThakur},
    {Volume, "v_oneshot", "", "n·(n − 1)·S", "B", "parallel: everything to everyone", ""},
    {Volume, "v_doubling", "", "n·k·S", "B", "recursive doubling", kThakur},
    {Volume, "v_ring", "", "2·(n − 1)·S", "B", "ring", kRing},
    {Volume, "v_twoshot", "", "2·(n − 1)·S", "B", "parallel: a chunk to each owner", ""},
    {Volume, "v_halving", "", "2·(n − 1)·S", "B", "recursive halving and doubling", kThakur},
};

// Gradients become ready at an even rate; the all-reduces of buckets run one after the other on a stream of their own.
constexpr Input kDdpInputs[] = {
    {"Ψ", "", "parameters"}, {"n", "", "ranks"}, {"T", "", "tokens of a GPU"}, {"bucket", "B", "size of a bucket"}, {"W", "B/s", "link, one direction"},
    {"α", "s", "latency"}, {"F", "FLOP/s", "peak of a GPU's arithmetic"}, {"e", "share", "of the peak that is reached"},
};
constexpr Row kDdpRows[] = {
    {Volume, "S", "", "2·Ψ", "B", "gradients in bf16", ""},
    {Volume, "sent", "", "2·(n − 1)/n·S", "B", "sent by a rank", kRing},
    {Volume, "K", "", "ceil(S/bucket)", "", "buckets", "Li 2020, §3.2.2"},
    {Time, "t_back", "", "4·Ψ·T/(F·e)", "s", "backward", kFlop},
    {Time, "t_ready", "", "t_back/K", "s", "until one more bucket is full", ""},
    {Time, "t_bucket", "", "2·(n − 1)·(α + S/K/(n·W))", "s", "all-reduce of a bucket", kRing},
    {Time, "t_comm", "", "K·t_bucket", "s", "all-reduce of all buckets", kRing},
    {Time, "shown", "", "max(t_bucket, t_ready + t_comm − t_back)", "s", "not hidden", "Li 2020, §3.2.3"},
    {Time, "hidden", "", "1 − shown/t_comm", "share", "of the communication, hidden", ""},
    {Time, "t_step", "", "3/2·t_back + shown", "s", "forward, backward, what is not hidden", kFlop},
};

// Weights and gradients in bf16; a unit is gathered before it computes, forward and backward, and released after.
constexpr Input kFsdpInputs[] = {
    {"Ψ", "", "parameters"}, {"U", "", "units"}, {"N", "", "ranks"}, {"T", "", "tokens of a GPU"}, {"W", "B/s", "link, one direction"},
    {"F", "FLOP/s", "peak of a GPU's arithmetic"}, {"e", "share", "of the peak that is reached"},
};
constexpr const char* kZeroSent = "Rajbhandari 2020, §7";
constexpr Row kFsdpRows[] = {
    {Memory, "states", "", "16·Ψ/N", "B", "shards of a rank", kZero},
    {Memory, "unit", "", "2·Ψ/U", "B", "weights of a unit, gathered", ""},
    {Memory, "whole", "", "2·Ψ", "B", "all weights, if none were released", ""},
    {Volume, "sent_ddp", "", "2·2·Ψ·(N − 1)/N", "B", "sent by a rank, data parallel", kZeroSent},
    {Volume, "sent_fsdp", "", "3·2·Ψ·(N − 1)/N", "B", "sent by a rank, ZeRO-3", kZeroSent},
    {Time, "t_gather", "", "(N − 1)/N·unit/W", "s", "all-gather of a unit", kRing},
    {Time, "t_scatter", "", "t_gather", "s", "reduce-scatter of its gradients", kRing},
    {Time, "t_forward", "", "2·Ψ/U·T/(F·e)", "s", "forward of a unit", kFlop},
    {Time, "t_backward", "", "2·t_forward", "s", "backward of a unit", kFlop},
    {Time, "t_compute", "", "3·U·t_forward", "s", "arithmetic of the step", kFlop},
    {Time, "t_comm", "", "U·(2·t_gather + t_scatter)", "s", "communication of the step", kZeroSent},
};

// One MLP, or one attention's projections, of t tensor-parallel ranks; bf16, forward.
constexpr Input kTensorInputs[] = {
    {"h", "", "hidden size"}, {"f", "", "width of the MLP"}, {"T", "", "tokens"}, {"t", "", "tensor-parallel ranks"}, {"W", "B/s", "link, one direction"},
    {"α", "s", "latency"}, {"F", "FLOP/s", "peak of a GPU's arithmetic"}, {"e", "share", "of the peak that is reached"},
};
constexpr Row kTensorRows[] = {
    {Memory, "w_mlp", "", "h·f", "", "elements of a matrix of the MLP", kMega},
    {Memory, "w_mlp_t", "", "h·f/t", "", "of them on a rank", kMega},
    {Memory, "w_qkv", "", "3·h·h", "", "elements of queries, keys, values", kMega},
    {Memory, "w_qkv_t", "", "3·h·h/t", "", "of them on a rank", kMega},
    {Time, "C", "", "4·T·h·f/t", "FLOP", "two products of the MLP on a rank", kFlop},
    {Time, "t_mlp", "", "C/(F·e)", "s", "the MLP's arithmetic", ""},
    {Volume, "S", "", "2·T·h", "B", "the MLP's output", kMega},
    {Volume, "sent_pair", "", "2·(t − 1)/t·S", "B", "columns, then rows: one all-reduce", kMega},
    {Volume, "sent_columns", "", "(t − 1)/t·2·T·(f + h)", "B", "columns twice: an all-gather after each", kRing},
    {Volume, "sent_rows", "", "2·(t − 1)/t·2·T·(f + h)", "B", "rows twice: an all-reduce after each", kRing},
    {Time, "t_comm", "", "2·(t − 1)·α + sent_pair/W", "s", "the all-reduce", kRing},
    {Time, "by", "", "t_comm/t_mlp", "share", "the all-reduce, by the arithmetic", ""},
};

// Attention over a sequence on c ranks, forward, without a mask; bf16.
constexpr Input kContextInputs[] = {
    {"s", "", "tokens of the sequence"}, {"c", "", "context-parallel ranks"}, {"h", "", "width of attention"}, {"kv", "", "elements of keys and values of a token"},
    {"W", "B/s", "link, one direction"}, {"F", "FLOP/s", "peak of a GPU's arithmetic"}, {"e", "share", "of the peak that is reached"},
};
constexpr Row kContextRows[] = {
    {Layout, "block", "", "s/c", "", "tokens of a rank", kLiu},
    {Time, "C", "", "4·block·block·h", "FLOP", "a block of queries with a block of keys", kLiu},
    {Time, "t_block", "", "C/(F·e)", "s", "its arithmetic", ""},
    {Volume, "S", "", "2·block·kv", "B", "a block of keys and values", kLiu},
    {Time, "t_send", "", "S/W", "s", "its message", ""},
    {Layout, "least", "", "F·e/W·kv/(2·h)", "", "tokens of a block that hide the message", kLiu},
    {Time, "shown", "", "(c − 1)·max(0, t_send − t_block)", "s", "not hidden", kLiu},
    {Time, "t_ring", "", "c·t_block + shown", "s", "attention", ""},
    {Volume, "sent_ring", "", "(c − 1)·S", "B", "sent by a rank, ring", kLiu},
    {Volume, "sent_ulysses", "", "(c − 1)/c·2·block·(2·h + kv)", "B", "sent by a rank, Ulysses", "Jacobs 2023, §3.2"},
};

constexpr Input kMoeInputs[] = {
    {"T", "", "tokens of a rank"}, {"n", "", "expert-parallel ranks"}, {"E", "", "experts"}, {"k", "", "experts that a token uses"}, {"cf", "", "capacity factor"},
    {"h", "", "hidden size"}, {"most", "", "tokens of the fullest expert, as drawn"},
};
constexpr const char* kShard = "Lepikhin 2020, §2.2";
constexpr Row kMoeRows[] = {
    {Layout, "mean", "", "n·T·k/E", "", "tokens of an expert, evenly", kShard},
    {Layout, "capacity", "", "ceil(cf·n·T·k/E)", "", "tokens that an expert takes", kShard},
    {Volume, "S", "", "2·T·k·h", "B", "copies of tokens that a rank dispatches", kShard},
    {Volume, "sent", "", "(n − 1)/n·S", "B", "sent by a rank for an all-to-all, evenly", kShard},
    {Volume, "sent_step", "", "4·sent", "B", "dispatch and combine, forward and backward", kShard},
    {Time, "slower", "", "most/mean", "", "the fullest expert, by the mean: all wait for it", ""},
};

// A layer's input has x bytes; a layer keeps ρ of them for its backward pass. Every g-th input is kept, and g layers
// are computed again at a time.
constexpr Input kRecomputeInputs[] = {
    {"L", "", "layers"}, {"g", "", "layers between two kept inputs"}, {"ρ", "", "kept by a layer, in inputs"}, {"s", "", "tokens"}, {"h", "", "hidden size"},
};
constexpr Row kRecomputeRows[] = {
    {Memory, "x", "", "2·s·h", "B", "a layer's input in bf16", "Korthikanti 2022, §4.1"},
    {Memory, "none", "", "L·ρ·x", "B", "nothing recomputed", kChen},
    {Memory, "kept", "", "ceil(L/g)·x", "B", "inputs kept", kChen},
    {Memory, "segment", "", "g·ρ·x", "B", "one segment, computed again", kChen},
    {Memory, "held", "", "kept + segment", "B", "with every g-th input kept", kChen},
    {Memory, "g_best", "", "sqrt(L/ρ)", "", "the g that holds least", kChen},
    {Memory, "least", "", "2·sqrt(L·ρ)·x", "B", "with that g, if it divided L", kChen},
    {Time, "more", "", "1/3", "share", "more arithmetic: one forward pass", "Korthikanti 2022, §5"},
};

// The V: each rank has two chunks, one on the way down and one on the way up. A chunk's forward, backward and weights'
// part take as long as each other, so a rank computes for 6·m of them.
constexpr Input kVeeInputs[] = {{"p", "", "stages"}, {"m", "", "micro-batches"}};
constexpr Row kVeeRows[] = {
    {Layout, "bubble", "", "(p − 1)/(6·m + p − 1)", "share", "pipeline bubble, at least: the last stage starts p − 1 chunks later", ""},
    {Layout, "q", "", "min(m, p)", "", "micro-batches in flight, each stage", "Qi 2023, §6"},
};

constexpr Input kPriceInputs[] = {
    {"Ψ", "", "parameters that a token uses"}, {"D", "token", "tokens"}, {"G", "", "GPUs"}, {"F", "FLOP/s", "peak of a GPU's arithmetic"}, {"e", "share", "of the peak that is reached"},
    {"price", "$", "an hour of a GPU"},
};
constexpr Row kPriceRows[] = {
    {Time, "C", "", "6·Ψ·D", "FLOP", "arithmetic", kFlop},
    {Time, "one", "", "C/(F·e)", "s", "one GPU", ""},
    {Time, "years", "", "one/31557600", "", "years of one GPU", ""},
    {Time, "hours", "", "one/3600", "h", "hours of a GPU", ""},
    {Time, "days", "", "one/G/86400", "d", "days on all GPUs", ""},
    {Time, "cost", "", "hours·price", "$", "cost", ""},
    {Time, "D_best", "", "20·Ψ", "token", "tokens, compute-optimal", "Hoffmann 2022, table 3"},
};

constexpr Source kSources[] = {
    {"Li 2014", "Li et al.: Scaling Distributed Machine Learning with the Parameter Server, OSDI 2014",
     "https://www.usenix.org/conference/osdi14/technical-sessions/presentation/li_mu"},
    {"Thakur 2005", "Thakur, Rabenseifner, Gropp: Optimization of Collective Communication Operations in MPICH, IJHPCA 19(1)",
     "https://doi.org/10.1177/1094342005051521"},
    {"Jacobs 2023", "Jacobs et al.: DeepSpeed Ulysses: System Optimizations for Enabling Training of Extreme Long Sequence Transformer Models",
     "https://arxiv.org/abs/2309.14509"},
    {"Chen 2016", "Chen, Xu, Zhang, Guestrin: Training Deep Nets with Sublinear Memory Cost", "https://arxiv.org/abs/1604.06174"},
    {"Li 2021", "Li, Xue, Baranwal, Li, You: Sequence Parallelism: Long Sequence Training from System Perspective", "https://arxiv.org/abs/2105.13120"},
    {"Zhao 2023", "Zhao et al.: PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel, VLDB 2023", "https://arxiv.org/abs/2304.11277"},
    {"Hu 2021", "Hu et al.: LoRA: Low-Rank Adaptation of Large Language Models", "https://arxiv.org/abs/2106.09685"},
    {"Dettmers 2023", "Dettmers, Pagnoni, Holtzman, Zettlemoyer: QLoRA: Efficient Finetuning of Quantized LLMs", "https://arxiv.org/abs/2305.14314"},
    {"McMahan 2017", "McMahan, Moore, Ramage, Hampson, Agüera y Arcas: Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017",
     "https://arxiv.org/abs/1602.05629"},
    {"Douillard 2023", "Douillard et al.: DiLoCo: Distributed Low-Communication Training of Language Models", "https://arxiv.org/abs/2311.08105"},
    {"Liu 2024", "Liu et al.: MobileLLM: Optimizing Sub-billion Parameter Language Models for On-Device Use Cases", "https://arxiv.org/abs/2402.14905"},
};
// clang-format on

}  // namespace

std::span<const LessonSheet> lesson_sheets() {
  static const Sheet kZeroSheet(kZeroInputs, kZeroRows), kGrowth(kGrowthInputs, kGrowthRows),
      kDdp(kDdpInputs, kDdpRows), kFsdp(kFsdpInputs, kFsdpRows), kTensor(kTensorInputs, kTensorRows),
      kContext(kContextInputs, kContextRows), kMoe(kMoeInputs, kMoeRows), kRecompute(kRecomputeInputs, kRecomputeRows),
      kPrice(kPriceInputs, kPriceRows), kVee(kVeeInputs, kVeeRows);
  static const LessonSheet kSheets[] = {{"zero", kZeroSheet}, {"growth", kGrowth},       {"ddp", kDdp},
                                        {"fsdp", kFsdp},      {"tensor", kTensor},       {"context", kContext},
                                        {"moe", kMoe},        {"recompute", kRecompute}, {"price", kPrice},
                                        {"vee", kVee}};
  return kSheets;
}

std::span<const Source> lesson_sources() { return kSources; }

}  // namespace tutti::tools
