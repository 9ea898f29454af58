// One training step on many GPUs. Mixed precision: parameters of 2 bytes, gradients of 2 or 4, Adam with an f32 master
// copy and two f32 moments (12 bytes). Every rank holds Ψr dense and Ψx expert parameters; dense ones are replicated on
// the N ranks of data, context and expert parallelism, expert ones on the Nx ranks of data and context parallelism.
// Where stages cannot have equal numbers of layers, the figures are those of the fullest stage, and the first stage is
// one of those with a layer less. Tensor parallelism is innermost, then context, expert, pipeline, data parallelism.
#include "train/planner/formulas.hpp"

namespace tutti::train::planner {
namespace {

constexpr Input kInputs[] = {
    {"Ψ", "", "parameters of the model"},
    {"Ψe", "", "of them in experts"},
    {"L", "", "layers"},
    {"h", "", "hidden size"},
    {"a", "", "attention heads"},
    {"da", "", "width of attention: heads · head size"},
    {"kv", "", "elements of keys and values that a layer keeps of a token"},
    {"f", "", "width of the MLP, or of one expert"},
    {"w", "", "matrices of an MLP: 3 gated, 2 plain"},
    {"drop", "", "dropout: 1 or 0"},
    {"s", "", "tokens of a sequence"},
    {"V", "", "words of the vocabulary"},
    {"E", "", "experts of a layer"},
    {"k", "", "experts that a token uses"},
    {"ks", "", "shared experts, which all tokens use"},
    {"kn", "", "copies of a token that leave for experts"},
    {"G", "", "GPUs"},
    {"H", "", "GPUs of a host"},
    {"M", "B", "memory of a GPU"},
    {"u", "share", "usable share of the memory"},
    {"F", "FLOP/s", "peak of a GPU's arithmetic"},
    {"η_m", "share", "share of the peak that the best matrix product reaches"},
    {"η", "share", "share of the kernels' own rates that training sustains"},
    {"p8", "", "rate of matrix products, by that of bf16"},
    {"W_mem", "B/s", "bandwidth of a GPU's memory"},
    {"α_in", "s", "latency inside a host"},
    {"α_out", "s", "latency between hosts"},
    {"W_in", "B/s", "a GPU's bandwidth inside its host, one direction"},
    {"W_out", "B/s", "a GPU's bandwidth to other hosts, one direction"},
    {"ω", "share", "share of hidden communication that shows all the same"},
    {"B", "", "sequences of a step"},
    {"sched", "", "schedule: 0 GPipe, 1 1F1B, 2 interleaved 1F1B, 3 ZB-H1, 4 DualPipe"},
    {"sp", "", "sequence parallelism: 1 or 0"},
    {"fa", "", "FlashAttention: 1 or 0"},
    {"gb", "B", "a gradient"},
    {"dp", "", "data-parallel"},
    {"pp", "", "pipeline stages"},
    {"cp", "", "context-parallel"},
    {"ep", "", "expert-parallel"},
    {"tp", "", "tensor-parallel"},
    {"zero", "", "ZeRO stage"},
    {"rc", "", "recomputation: 0 none, 1 selective, 2 whole layers"},
    {"v", "", "model chunks of a rank (1 unless interleaved)"},
    {"b", "", "sequences of a micro-batch"},
};

constexpr const char* kZero = "Rajbhandari 2020, §5";
constexpr const char* kAct = "Korthikanti 2022, table 2";
constexpr const char* kRing = "Patarasuk 2009";
constexpr const char* kMega = "Shoeybi 2019, §3";
constexpr const char* kPipe = "Narayanan 2021, §2.2";
constexpr const char* kAlpha = "Hockney 1994; NCCL tuning.cc";
constexpr const char* kFlop = "Chowdhery 2022, app. B";
constexpr const char* kModel = "model of this planner";
constexpr const char* kEnds = "Korthikanti 2022, §4.3";
constexpr const char* kFlash = "Dao 2022, §3.1";
constexpr const char* kFlash2 = "Dao 2023, §4.1";
constexpr const char* kShape = "Isaev 2023; calculon a100_80g.json";
constexpr const char* kDual = "DeepSeek 2024, table 2";
using enum Part;

// clang-format off
constexpr Row kRows[] = {
    {Layout, "N", "", "dp·cp·ep", "", "copies of a dense parameter", ""},
    {Layout, "Nx", "", "dp·cp", "", "copies of an expert parameter", ""},
    {Layout, "l", "", "v·ceil(L/(pp·v))", "", "layers of the fullest stage", ""},
    {Layout, "l_first", "sched=4", "l", "", "layers of the first stage", ""},
    {Layout, "l_first", "", "min(l, max(1, floor(L/pp)))", "", "layers of the first stage", ""},
    {Layout, "uneven", "", "l·pp/L", "", "the fullest stage's layers, by the mean", ""},
    {Layout, "Ψr", "sched=4", "2·(Ψ − Ψe)/(tp·pp)·uneven", "", "dense parameters of a rank, of two stages", kDual},
    {Layout, "Ψr", "", "(Ψ − Ψe)/(tp·pp)·uneven", "", "dense parameters of a rank", kMega},
    {Layout, "Ψx", "sched=4", "2·Ψe/(tp·pp·ep)·uneven", "", "expert parameters of a rank, of two stages", kDual},
    {Layout, "Ψx", "", "Ψe/(tp·pp·ep)·uneven", "", "expert parameters of a rank", "Lepikhin 2020"},
    {Layout, "Ψa", "", "Ψ − Ψe + Ψe·k/E", "", "parameters that a token uses", ""},
    {Layout, "m", "", "B/(dp·ep·b)", "", "micro-batches of a step", ""},
    {Layout, "r", "v>1", "m/pp", "", "times that a layer's gradients are complete: interleaved micro-batches come in groups of pp", kPipe},
    {Layout, "r", "", "m", "", "times that a layer's gradients are complete", ""},
    {Layout, "x", "", "s/cp·b·h", "", "elements of a hidden state", ""},
    {Layout, "q", "sched=0", "m", "", "micro-batches in flight, first stage", "Huang 2019"},
    {Layout, "q", "sched=4", "min(m, pp + 1)", "", "micro-batches in flight", kDual},
    {Layout, "q", "v>1", "min(m, pp + (pp − 1)/v)", "", "micro-batches in flight, first stage", "Korthikanti 2022, §4.2.3"},
    {Layout, "q", "", "min(m, pp)", "", "micro-batches in flight, first stage", kPipe},
    {Layout, "q_end", "sched=0", "m", "", "micro-batches in flight, last stage", "Huang 2019"},
    {Layout, "q_end", "sched=4", "q", "", "micro-batches in flight, last stage", kDual},
    {Layout, "q_end", "v>1", "min(m, ((v − 1)·pp + 1)/v)", "", "micro-batches in flight, last stage", kPipe},
    {Layout, "q_end", "", "1", "", "micro-batches in flight, last stage", kPipe},
    {Layout, "bubble", "sched=4", "max(0, pp − 2)/(3·m + max(0, pp − 2))", "share", "pipeline bubble", kDual},
    {Layout, "bubble", "v>1", "(pp − 1)/(v·m + pp − 1)", "share", "pipeline bubble", kPipe},
    {Layout, "bubble", "sched=3 and m<pp", "(2·pp − m − 1)/(2·pp + 2·m − 1)", "share", "pipeline bubble", kModel},
    {Layout, "bubble", "sched=3", "(pp − 1)/(3·m + pp − 1)", "share", "pipeline bubble", "Qi 2023, §2"},
    {Layout, "bubble", "", "(pp − 1)/(m + pp − 1)", "share", "pipeline bubble", "Huang 2019"},
    {Layout, "T_floor", "rc=2", "B·s·8·Ψa/(G·F·p8·η_m·η)·uneven/(1 − bubble)", "s", "a step takes no less", kFlop},
    {Layout, "T_floor", "", "B·s·6·Ψa/(G·F·p8·η_m·η)·uneven/(1 − bubble)", "s", "a step takes no less", kFlop},

    {Memory, "weights", "zero<3 and Ψx=0", "2·Ψr", "B", "weights", kZero},
    {Memory, "weights", "zero=3 and Ψx=0", "2·Ψr/N", "B", "weights", kZero},
    {Memory, "weights", "zero<3", "2·(Ψr + Ψx)", "B", "weights", kZero},
    {Memory, "weights", "", "2·Ψr/N + 2·Ψx/Nx", "B", "weights", kZero},
    {Memory, "gradients", "zero<2 and Ψx=0", "gb·Ψr", "B", "gradients", kZero},
    {Memory, "gradients", "zero≥2 and Ψx=0", "gb·Ψr/N", "B", "gradients", kZero},
    {Memory, "gradients", "zero<2", "gb·(Ψr + Ψx)", "B", "gradients", kZero},
    {Memory, "gradients", "", "gb·Ψr/N + gb·Ψx/Nx", "B", "gradients", kZero},
    {Memory, "optimizer", "zero<1 and Ψx=0", "12·Ψr", "B", "optimizer", kZero},
    {Memory, "optimizer", "zero≥1 and Ψx=0", "12·Ψr/N", "B", "optimizer", kZero},
    {Memory, "optimizer", "zero<1", "12·(Ψr + Ψx)", "B", "optimizer", kZero},
    {Memory, "optimizer", "", "12·Ψr/N + 12·Ψx/Nx", "B", "optimizer", kZero},
    {Memory, "states", "", "weights + gradients + optimizer", "B", "model states", kZero},
    // What a layer keeps for the backward pass, in bf16 as Korthikanti 2022, §4.1 counts it, for any width. A_out is
    // not divided by tensor parallelism alone: inputs of both norms (2 + 2 bytes an element), inputs of attention (2)
    // and of the MLPs (2 each), and with dropout two masks (1 each). A_in is: queries and attention's output (2 + 2
    // for each of da), keys and values (2), inputs and output of the MLP's activation (2 for each of w·f: plain 2,
    // gated 3). A plain MLP of 4·h, with dropout and as many key-value heads as heads: 10 + 24 = 34 bytes, as in the
    // paper.
    {Memory, "A_out", "", "x·(6 + 2·(k + ks) + drop·(1 + k + ks))", "B", "kept by a layer for a micro-batch, outside tp", kAct},
    {Memory, "A_in", "", "x/h·(4·da + 2·kv + 2·w·f·(k + ks))", "B", "kept by a layer for a micro-batch, inside tp", kAct},
    {Memory, "A_1", "sp=1", "(A_out + A_in)/tp", "B", "kept by a layer for a micro-batch, without scores", kAct},
    {Memory, "A_1", "", "A_out + A_in/tp", "B", "kept by a layer for a micro-batch, without scores", kAct},
    // FlashAttention keeps the logarithm of each row's sum, in f32. Otherwise: softmax (2), with dropout its mask (1)
    // and its output (2).
    {Memory, "A_sc", "fa=1", "4·a·x/(h·tp)", "B", "kept of attention's scores", kFlash},
    {Memory, "A_sc", "cp>1", "4·a·x/(h·tp)", "B", "kept of attention's scores; a ring keeps none", "Liu 2023"},
    {Memory, "A_sc", "", "(2 + 3·drop)·a·s·s·b/tp", "B", "kept of attention's scores", kAct},
    {Memory, "A_0", "", "A_1 + A_sc", "B", "kept by a layer for a micro-batch, nothing recomputed", kAct},
    // Selective recomputation: scores (Korthikanti 2022, §5), or with FlashAttention, which does so itself, the
    // outputs of both norms and of the MLP's activation, which take no matrix product (Megatron Core:
    // --recompute-modules).
    {Memory, "A", "rc=0", "A_0", "B", "kept by a layer for a micro-batch", kAct},
    {Memory, "A", "rc=1 and fa=0", "A_1", "B", "kept by a layer for a micro-batch", "Korthikanti 2022, §5"},
    {Memory, "A", "rc=1 and sp=1", "A_0 − x/tp·(2 + (2 + 2·f/h)·(k + ks))", "B", "kept by a layer for a micro-batch", "Megatron Core"},
    {Memory, "A", "rc=1", "A_0 − x·(2 + (2 + 2·f/(h·tp))·(k + ks))", "B", "kept by a layer for a micro-batch", "Megatron Core"},
    {Memory, "A", "sp=1", "2·x/tp", "B", "kept by a layer for a micro-batch: its input", kAct},
    {Memory, "A", "", "2·x", "B", "kept by a layer for a micro-batch: its input", kAct},
    {Memory, "A_first", "pp=1", "L·A + x/tp + 4·x·(1 + V/h)/tp", "B", "activations of the only stage", kEnds},
    {Memory, "A_first", "", "q·l_first·A + q·x/tp", "B", "activations of the first stage", kEnds},
    {Memory, "A_mid", "pp<3", "0", "B", "activations of the second stage", kEnds},
    {Memory, "A_mid", "sched=0", "q·l·A", "B", "activations of the second stage", kEnds},
    {Memory, "A_mid", "v>1", "min(m, pp + (pp − 3)/v)·l·A", "B", "activations of the second stage", kEnds},
    {Memory, "A_mid", "", "min(m, pp − 1)·l·A", "B", "activations of the second stage", kEnds},
    {Memory, "A_last", "pp=1", "A_first", "B", "activations of the last stage", kEnds},
    {Memory, "A_last", "", "q_end·l·A + 4·x·(1 + V/h)/tp", "B", "activations of the last stage", kEnds},
    {Memory, "activations", "", "max(A_first, max(A_mid, A_last))", "B", "activations", ""},
    {Memory, "Ψl", "", "(Ψr + Ψx)/l", "", "parameters of a layer on a rank", ""},
    {Memory, "l_chunk", "v>1", "l/v", "", "layers of a piece: of a chunk", ""},
    {Memory, "l_chunk", "", "1", "", "layers of a piece", ""},
    {Memory, "buf_zero", "zero<2", "0", "B", "layers gathered or to be reduced", ""},
    {Memory, "buf_zero", "zero=2", "2·gb·Ψl·l_chunk", "B", "gradients of two pieces, to be reduced", kModel},
    {Memory, "buf_zero", "", "2·(2 + gb)·Ψl·l_chunk", "B", "weights and gradients of two pieces, gathered", kModel},
    {Memory, "buf_pp", "pp=1", "0", "B", "pipeline messages", ""},
    {Memory, "buf_pp", "", "4·2·x/tp", "B", "activation and gradient, in and out", kModel},
    {Memory, "buf_rc", "rc=2", "A_0", "B", "the layer that is recomputed", kModel},
    {Memory, "buf_rc", "", "0", "B", "the layer that is recomputed", ""},
    {Memory, "buffers", "", "buf_zero + buf_pp + buf_rc", "B", "buffers", kModel},
    {Memory, "total", "", "states + activations + buffers", "B", "total", ""},
    {Memory, "budget", "", "M·u", "B", "usable", ""},
    {Memory, "free", "", "budget − total", "B", "left over", ""},

    // k_…: how many ranks of a group share a host. λ_…: one turn of a ring, which leaves each host once. A ring through
    // several hosts uses the network cards of all its members there; a message between two ranks uses one.
    {Links, "k_tp", "", "max(1, min(tp, H))", "", "ranks of a tensor group in a host", ""},
    {Links, "k_cp", "", "max(1, min(cp, floor(H/tp)))", "", "ranks of a context group in a host", ""},
    {Links, "k_ep", "", "max(1, min(ep, floor(H/(tp·cp))))", "", "ranks of an expert group in a host", ""},
    {Links, "k_pp", "", "max(1, min(pp, floor(H/(tp·cp·ep))))", "", "stages of a pipeline in a host", ""},
    {Links, "k_dp", "", "max(1, min(dp, floor(H/(tp·cp·ep·pp))))", "", "ranks of a data group in a host", ""},
    {Links, "k_N", "", "k_cp·k_ep·k_dp", "", "copies of a dense parameter in a host", ""},
    {Links, "k_Nx", "", "k_cp·k_dp", "", "copies of an expert parameter in a host", ""},
    {Links, "λ_tp", "", "(ceil(tp/k_tp) − 1)·α_out + (tp − ceil(tp/k_tp))·α_in", "s", "a turn of the tensor ring", kAlpha},
    {Links, "λ_ep", "", "(ceil(ep/k_ep) − 1)·α_out + (ep − ceil(ep/k_ep))·α_in", "s", "a turn of the expert ring", kAlpha},
    {Links, "λ_N", "", "(ceil(N/k_N) − 1)·α_out + (N − ceil(N/k_N))·α_in", "s", "a turn of the data ring", kAlpha},
    {Links, "λ_Nx", "", "(ceil(Nx/k_Nx) − 1)·α_out + (Nx − ceil(Nx/k_Nx))·α_in", "s", "a turn of the experts' data ring", kAlpha},
    {Links, "α_cp", "k_cp<cp", "α_out", "s", "latency, context", kAlpha},
    {Links, "α_cp", "", "α_in", "s", "latency, context", kAlpha},
    {Links, "α_pp", "k_pp<pp", "α_out", "s", "latency, pipeline", kAlpha},
    {Links, "α_pp", "", "α_in", "s", "latency, pipeline", kAlpha},
    {Links, "β_tp", "k_tp<tp", "1/min(W_in, k_tp·W_out)", "s/B", "a byte, tensor", kAlpha},
    {Links, "β_tp", "", "1/W_in", "s/B", "a byte, tensor", kAlpha},
    {Links, "β_cp", "k_cp<cp", "1/W_out", "s/B", "a byte, context", kAlpha},
    {Links, "β_cp", "", "1/W_in", "s/B", "a byte, context", kAlpha},
    {Links, "β_ep", "k_ep<ep", "1/W_out", "s/B", "a byte, expert", kAlpha},
    {Links, "β_ep", "", "1/W_in", "s/B", "a byte, expert", kAlpha},
    {Links, "β_pp", "k_pp<pp", "1/W_out", "s/B", "a byte, pipeline", kAlpha},
    {Links, "β_pp", "", "1/W_in", "s/B", "a byte, pipeline", kAlpha},
    {Links, "β_N", "k_N<N", "1/min(W_in, k_N·W_out)", "s/B", "a byte, data", kAlpha},
    {Links, "β_N", "", "1/W_in", "s/B", "a byte, data", kAlpha},
    {Links, "β_Nx", "k_Nx<Nx", "1/min(W_in, k_Nx·W_out)", "s/B", "a byte, experts' data", kAlpha},
    {Links, "β_Nx", "", "1/W_in", "s/B", "a byte, experts' data", kAlpha},

    {Volume, "S_tp", "", "2·x", "B", "a tensor-parallel all-reduce", kMega},
    {Volume, "n_tp", "rc=2", "6·l·m", "", "tensor-parallel all-reduces, 2 again for recomputation", kMega},
    {Volume, "n_tp", "", "4·l·m", "", "tensor-parallel all-reduces: 2 forward, 2 backward", kMega},
    {Volume, "sent_tp", "", "n_tp·2·(tp − 1)/tp·S_tp", "B", "tensor", kRing},
    {Volume, "S_cp", "", "2·x/h·kv/tp", "B", "a block of keys and values", "Liu 2023"},
    {Volume, "n_cp", "rc=2", "4·l·m", "", "turns of keys and values: 2 forward, 2 backward", "Liu 2023"},
    {Volume, "n_cp", "", "3·l·m", "", "turns of keys and values: 1 forward, 2 backward", "Liu 2023"},
    {Volume, "sent_cp", "", "n_cp·(cp − 1)·S_cp", "B", "context", "Liu 2023"},
    {Volume, "S_ep", "", "2·x·kn/tp", "B", "tokens that a rank dispatches", "Lepikhin 2020"},
    {Volume, "n_ep", "rc=2", "6·l·m", "", "all-to-alls, 2 again for recomputation", "Lepikhin 2020"},
    {Volume, "n_ep", "", "4·l·m", "", "all-to-alls: dispatch and combine, forward and backward", "Lepikhin 2020"},
    {Volume, "sent_ep", "", "n_ep·(ep − 1)/ep·S_ep", "B", "expert", "Lepikhin 2020"},
    {Volume, "S_pp", "", "2·x/tp", "B", "a message between stages", "Narayanan 2021, §4.1"},
    {Volume, "n_pp", "pp=1", "0", "", "messages of a stage", kPipe},
    {Volume, "n_pp", "", "2·m·v", "", "messages of a stage: activations on, gradients back", kPipe},
    {Volume, "sent_pp", "", "n_pp·S_pp", "B", "pipeline", kPipe},
    {Volume, "n_rs", "zero<2", "gb/2", "", "reduce-scatters of all parameters, 2 bytes each", "Rajbhandari 2020, §7"},
    {Volume, "n_rs", "sched=3 and pp>1 and zero=3", "m·gb/2", "", "reduce-scatters, of each micro-batch", "Qi 2023, §2"},
    {Volume, "n_rs", "", "r·gb/2", "", "reduce-scatters of all parameters, 2 bytes each", "Rajbhandari 2020, §7"},
    {Volume, "n_ag", "zero=0", "gb/2", "", "all-gathers: with a reduce-scatter each, an all-reduce of the gradients", "Rajbhandari 2020, §7"},
    {Volume, "n_ag", "zero<3", "1", "", "all-gathers of the weights", "Rajbhandari 2020, §7"},
    {Volume, "n_ag", "sched=3 and pp>1", "3·m", "", "all-gathers of the weights, of each micro-batch", "Qi 2023, §2"},
    {Volume, "n_ag", "", "2·r", "", "all-gathers of the weights: forward, backward", "Rajbhandari 2020, §7"},
    {Volume, "n_dp", "", "n_rs + n_ag", "", "passes of 2 bytes", ""},
    {Volume, "sent_dp", "Ψx=0", "n_dp·2·Ψr·(N − 1)/N", "B", "data", kRing},
    {Volume, "sent_dp", "", "n_dp·2·(Ψr·(N − 1)/N + Ψx·(Nx − 1)/Nx)", "B", "data", kRing},
    {Volume, "sent", "", "sent_tp + sent_cp + sent_ep + sent_pp + sent_dp", "B", "total", ""},

    // t_…: one collective, as a ring; with a topology the selector's time replaces it (call_times.hpp). T_…: all of a
    // step. E_…: what nothing hides.
    {Time, "C_0", "", "B·s·(6·Ψa + 12·L·da·s)", "FLOP", "arithmetic of the model", kFlop},
    {Time, "C", "rc=0 and cp>1", "C_0 + B·s·2·L·da·s", "FLOP", "arithmetic, a ring's scores again", "Liu 2023"},
    {Time, "C", "rc=0", "C_0", "FLOP", "arithmetic", kFlop},
    {Time, "C", "rc=1 and fa=1", "C_0", "FLOP", "arithmetic", kFlop},
    {Time, "C", "rc=1", "C_0 + B·s·4·L·da·s", "FLOP", "arithmetic, attention recomputed", "Korthikanti 2022, §5"},
    {Time, "C", "", "C_0 + B·s·(2·Ψa + 4·L·da·s)", "FLOP", "arithmetic, all recomputed", "Korthikanti 2022, §5"},
    // Matrix products by their size: what Calculon takes for GPUs, by its value for large ones (0.95, 0.9, 0.6, 0.1).
    {Time, "mat", "", "2·x·f/tp·k·ep/E", "FLOP", "a matrix product of the MLP on a rank", ""},
    {Time, "η_s", "mat≥128e9", "1", "share", "rate by the size of matrices", kShape},
    {Time, "η_s", "mat≥16e9", "0.95", "share", "rate by the size of matrices", kShape},
    {Time, "η_s", "mat≥1e9", "0.63", "share", "rate by the size of matrices", kShape},
    {Time, "η_s", "", "0.11", "share", "rate by the size of matrices", kShape},
    {Time, "y", "sched=4 and ep>1", "112/132", "share", "streaming multiprocessors that do not send and receive", "DeepSeek 2024, §3.2.2"},
    {Time, "y", "", "1", "share", "streaming multiprocessors that compute", ""},
    {Time, "T_mat", "rc=2", "B·s·8·Ψa/(G·F·p8·η_m·η_s·η)·uneven/y", "s", "matrix products, forward again", kFlop},
    {Time, "T_mat", "", "B·s·6·Ψa/(G·F·p8·η_m·η_s·η)·uneven/y", "s", "matrix products", kFlop},
    // FlashAttention skips what the causal mask hides: 4·s·s·da/2 forward, 2.5 times that backward, at half the peak.
    {Time, "T_attn", "fa=1 and rc=2", "B·s·9·L·da·s/(G·F·0.5·η)·uneven/y", "s", "attention, forward again", kFlash2},
    {Time, "T_attn", "fa=1", "B·s·7·L·da·s/(G·F·0.5·η)·uneven/y", "s", "attention", kFlash2},
    {Time, "T_attn", "rc=0", "B·s·12·L·da·s/(G·F·0.5·η)·uneven/y", "s", "attention", kFlop},
    {Time, "T_attn", "", "B·s·16·L·da·s/(G·F·0.5·η)·uneven/y", "s", "attention, forward again", kFlop},
    // What a layer keeps was written and read forward, and read backward, where its gradient is written and read: 5
    // times. Recomputed, it is written and read once more. For products in fp8 it and its gradient are read and
    // written twice at half the width, as rows and as columns: 4 times more. 0.9 of the memory's bandwidth: Calculon.
    {Time, "turns", "p8>1", "9", "", "times that a byte crosses the memory", kModel},
    {Time, "turns", "", "5", "", "times that a byte crosses the memory", kModel},
    {Time, "T_mem", "rc=2", "m·l·(turns + 2)·A_0/(0.9·W_mem)", "s", "norms, activations, residuals", kModel},
    {Time, "T_mem", "rc=1", "m·l·(turns·A_0 + 2·(A_0 − A))/(0.9·W_mem)", "s", "norms, activations, residuals", kModel},
    {Time, "T_mem", "", "m·l·turns·A_0/(0.9·W_mem)", "s", "norms, activations, residuals", kModel},
    // Adam reads 12 bytes of its state and the gradient, and writes 12 and the weight.
    {Time, "T_opt", "zero=0", "(26 + gb)·(Ψr + Ψx)/(0.9·W_mem)", "s", "optimizer", kModel},
    {Time, "T_opt", "Ψx=0", "(26 + gb)·Ψr/N/(0.9·W_mem)", "s", "optimizer", kModel},
    {Time, "T_opt", "", "(26 + gb)·(Ψr/N + Ψx/Nx)/(0.9·W_mem)", "s", "optimizer", kModel},
    {Time, "T_comp", "", "T_mat + T_attn + T_mem", "s", "arithmetic", ""},
    {Time, "t_tp", "", "2·(λ_tp + (tp − 1)/tp·S_tp·β_tp)", "s", "one tensor-parallel all-reduce", kRing},
    {Time, "T_tp", "", "n_tp·t_tp", "s", "tensor", kMega},
    {Time, "t_cp", "", "(cp − 1)·(α_cp + S_cp·β_cp)", "s", "one turn of keys and values", "Liu 2023"},
    {Time, "T_cp", "", "n_cp·t_cp", "s", "context, all", "Liu 2023"},
    {Time, "E_cp", "", "T_cp − (1 − ω)·min(T_cp, T_attn)", "s", "context, not hidden", "Liu 2023"},
    {Time, "t_ep", "", "λ_ep + (ep − 1)/ep·S_ep·β_ep", "s", "one all-to-all", kAlpha},
    {Time, "T_ep", "", "n_ep·t_ep", "s", "expert", "Lepikhin 2020"},
    {Time, "E_ep", "sched=4", "T_ep − (1 − ω)·min(T_ep, T_comp)", "s", "expert, not hidden", "DeepSeek 2024, §3.2.1"},
    {Time, "E_ep", "", "T_ep", "s", "expert, not hidden", "Lepikhin 2020"},
    {Time, "T_work", "", "T_comp + T_tp + E_cp + E_ep", "s", "a stage's work", ""},
    {Time, "T_bubble", "", "T_work·bubble/(1 − bubble)", "s", "pipeline bubble", kPipe},
    {Time, "t_pp", "", "α_pp + S_pp·β_pp", "s", "one message between stages", kAlpha},
    {Time, "T_pp", "", "n_pp·t_pp", "s", "pipeline messages", kModel},
    {Time, "t_dp", "Ψx=0", "l·λ_N + 2·Ψr·(N − 1)/N·β_N", "s", "one pass of a ring, a call each layer", kRing},
    {Time, "t_dp", "", "l·(λ_N + λ_Nx) + 2·Ψr·(N − 1)/N·β_N + 2·Ψx·(Nx − 1)/Nx·β_Nx", "s", "one pass of a ring, two calls each layer", kRing},
    {Time, "t_rs", "", "t_dp", "s", "a reduce-scatter of all parameters", kRing},
    {Time, "t_ag", "", "t_dp", "s", "an all-gather of all parameters", kRing},
    {Time, "T_dp", "", "n_rs·t_rs + n_ag·t_ag", "s", "data, all", "Rajbhandari 2020, §7"},
    {Time, "hidden", "zero=0", "2/3·T_comp/m", "s", "arithmetic that hides it: the last backward", "Li 2020"},
    {Time, "hidden", "zero=1", "T_comp/m", "s", "arithmetic that hides it: last backward, first forward", kModel},
    {Time, "hidden", "zero=2", "2/3·T_comp + 1/3·T_comp/m", "s", "arithmetic that hides it: backward, first forward", kModel},
    {Time, "hidden", "", "T_comp", "s", "arithmetic that hides it: all", kModel},
    {Time, "E_dp", "", "T_dp − (1 − ω)·min(T_dp, hidden)", "s", "data, not hidden", "Li 2020"},
    {Time, "T_step", "", "T_work + T_bubble + T_pp + E_dp + T_opt", "s", "step", ""},
    {Time, "tokens", "", "B·s/T_step", "token/s", "tokens a second", ""},
    {Time, "MFU", "", "C_0/(G·F·T_step)", "share", "model FLOPs utilization", kFlop},
    {Time, "HFU", "", "C/(G·F·T_step)", "share", "with what is recomputed", kFlop},
};
// clang-format on

}  // namespace

const Sheet& step_sheet() {
  static const Sheet kSheet(kInputs, kRows);
  return kSheet;
}

}  // namespace tutti::train::planner
