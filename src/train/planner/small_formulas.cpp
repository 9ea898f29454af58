// The smaller tables and the sources.
#include "train/planner/formulas.hpp"

namespace tutti::train::planner {
namespace {

using enum Part;

// clang-format off
constexpr Input kCountInputs[] = {
    {"L", "", "layers"}, {"h", "", "hidden size"}, {"a", "", "attention heads"}, {"g", "", "key-value heads"},
    {"f", "", "width of the MLP"}, {"w", "", "matrices of an MLP: 3 gated, 2 plain"}, {"V", "", "words of the vocabulary"},
    {"E", "", "experts of a layer"}, {"da", "", "width of attention"},
};
constexpr Row kCountRows[] = {
    {Layout, "Ψ_attention", "", "L·2·h·da·(1 + g/a)", "", "queries, keys, values, output", ""},
    {Layout, "Ψ_mlp", "", "L·w·h·f·E", "", "MLPs, all experts", ""},
    {Layout, "Ψ_router", "E=1", "0", "", "routers", ""},
    {Layout, "Ψ_router", "", "L·h·E", "", "routers", ""},
    {Layout, "Ψ_rest", "", "2·V·h + (2·L + 1)·h", "", "embedding, output layer, norms", ""},
    {Layout, "Ψe", "E=1", "0", "", "parameters in experts", ""},
    {Layout, "Ψe", "", "Ψ_mlp", "", "parameters in experts", ""},
    {Layout, "Ψ", "", "Ψ_attention + Ψ_mlp + Ψ_router + Ψ_rest", "", "parameters", ""},
};

// 12·L·h² parameters with h = 128·L, the proportion of GPT-3; L a multiple of 8, which divides well.
constexpr Input kGuessInputs[] = {{"Ψ", "", "parameters"}};
constexpr Row kGuessRows[] = {
    {Layout, "L", "", "max(8, 8·floor(cbrt(Ψ/(12·128·128))/8 + 0.5))", "", "layers", "Brown 2020, table 2.1"},
    {Layout, "h", "", "128·L", "", "hidden size", "Brown 2020, table 2.1"},
    {Layout, "a", "", "h/128", "", "attention heads", "Brown 2020, table 2.1"},
    {Layout, "g", "", "a", "", "key-value heads", ""},
    {Layout, "f", "", "4·h", "", "width of the MLP", "Brown 2020, table 2.1"},
    {Layout, "w", "", "2", "", "matrices of an MLP", "Brown 2020, table 2.1"},
    {Layout, "da", "", "h", "", "width of attention", "Brown 2020, table 2.1"},
    {Layout, "kv", "", "2·h", "", "elements of keys and values", "Brown 2020, table 2.1"},
};

constexpr Input kRingInputs[] = {{"n", "", "ranks"}, {"S", "B", "bytes"}};
constexpr Row kRingRows[] = {
    {Volume, "steps", "", "2·(n − 1)", "", "steps", "Patarasuk 2009"},
    {Volume, "chunk", "", "S/n", "B", "bytes of a chunk", "Patarasuk 2009"},
    {Volume, "ring_sent", "", "2·(n − 1)/n·S", "B", "sent by each rank", "Patarasuk 2009"},
    {Volume, "root_moved", "", "2·(n − 1)·S", "B", "through the root of a parameter server", ""},
};

constexpr Source kSources[] = {
    {"Rajbhandari 2020", "Rajbhandari, Rasley, Ruwase, He: ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, SC20",
     "https://arxiv.org/abs/1910.02054"},
    {"Korthikanti 2022", "Korthikanti, Casper, Lym, McAfee, Andersch, Shoeybi, Catanzaro: Reducing Activation Recomputation in Large Transformer Models",
     "https://arxiv.org/abs/2205.05198"},
    {"Narayanan 2021", "Narayanan et al.: Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM, SC21",
     "https://arxiv.org/abs/2104.04473"},
    {"Shoeybi 2019", "Shoeybi et al.: Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism",
     "https://arxiv.org/abs/1909.08053"},
    {"Huang 2019", "Huang et al.: GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism, NeurIPS 2019",
     "https://arxiv.org/abs/1811.06965"},
    {"Qi 2023", "Qi, Wan, Huang, Lin: Zero Bubble Pipeline Parallelism", "https://arxiv.org/abs/2401.10241"},
    {"Liu 2023", "Liu, Zaharia, Abbeel: Ring Attention with Blockwise Transformers for Near-Infinite Context",
     "https://arxiv.org/abs/2310.01889"},
    {"Lepikhin 2020", "Lepikhin et al.: GShard: Scaling Giant Models with Conditional Computation and Automatic Sharding",
     "https://arxiv.org/abs/2006.16668"},
    {"Li 2020", "Li et al.: PyTorch Distributed: Experiences on Accelerating Data Parallel Training, VLDB 2020",
     "https://arxiv.org/abs/2006.15704"},
    {"Chowdhery 2022", "Chowdhery et al.: PaLM: Scaling Language Modeling with Pathways", "https://arxiv.org/abs/2204.02311"},
    {"Brown 2020", "Brown et al.: Language Models are Few-Shot Learners", "https://arxiv.org/abs/2005.14165"},
    {"Patarasuk 2009", "Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations, JPDC 69(2)",
     "https://doi.org/10.1016/j.jpdc.2008.09.002"},
    {"Hockney 1994", "Hockney: The communication challenge for MPP: Intel Paragon and Meiko CS-2, Parallel Computing 20(3)",
     "https://doi.org/10.1016/S0167-8191(06)80021-9"},
    {"Dao 2022", "Dao, Fu, Ermon, Rudra, Ré: FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness, NeurIPS 2022",
     "https://arxiv.org/abs/2205.14135"},
    {"Dao 2023", "Dao: FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning (50 to 73 % of the peak on A100)",
     "https://arxiv.org/abs/2307.08691"},
    {"DeepSeek 2024", "DeepSeek-AI: DeepSeek-V3 Technical Report", "https://arxiv.org/abs/2412.19437"},
    {"Bekman 2026", "Bekman: Machine Learning Engineering, Maximum Achievable Matmul FLOPS comparison table",
     "https://github.com/stas00/ml-engineering/tree/master/compute/accelerator"},
    {"Hoffmann 2022", "Hoffmann et al.: Training Compute-Optimal Large Language Models", "https://arxiv.org/abs/2203.15556"},
    {"Young 1974", "Young: A first order approximation to the optimum checkpoint interval, CACM 17(9)", "https://doi.org/10.1145/361147.361115"},
    {"Daly 2006", "Daly: A higher order estimate of the optimum checkpoint interval for restart dumps, FGCS 22(3)",
     "https://doi.org/10.1016/j.future.2004.11.016"},
    {"Grattafiori 2024", "Grattafiori et al.: The Llama 3 Herd of Models", "https://arxiv.org/abs/2407.21783"},
    {"Smith 2022", "Smith et al.: Using DeepSpeed and Megatron to Train Megatron-Turing NLG 530B", "https://arxiv.org/abs/2201.11990"},
    {"Le Scao 2022", "Le Scao et al.: BLOOM: A 176B-Parameter Open-Access Multilingual Language Model", "https://arxiv.org/abs/2211.05100"},
    {"Zhang 2022", "Zhang et al.: OPT: Open Pre-trained Transformer Language Models", "https://arxiv.org/abs/2205.01068"},
    {"Patterson 2021", "Patterson et al.: Carbon Emissions and Large Neural Network Training", "https://arxiv.org/abs/2104.10350"},
    {"DeepSeek 2025", "Zhao et al.: Insights into DeepSeek-V3: Scaling Challenges and Reflections on Hardware for AI Architectures, ISCA 2025",
     "https://arxiv.org/abs/2505.09343"},
    {"DeepGEMM", "DeepSeek-AI: DeepGEMM, README of February 2025, grouped products", "https://github.com/deepseek-ai/DeepGEMM"},
    {"Isaev 2023", "Isaev, McDonald, Dennison, Vuduc: Calculon: a methodology and tool for high-level co-design of systems and large language models, SC23",
     "https://github.com/calculon-ai/calculon"},
    {"Megatron Core", "NVIDIA: Megatron Core, --recompute-granularity selective, --recompute-modules", "https://github.com/NVIDIA/Megatron-LM"},
    {"NCCL tuning.cc", "NCCL, src/graph/tuning.cc: latency of a hop of the ring (Simple protocol): NVLink 3.4 µs, PCI 5.7 µs, network 14 µs",
     "https://github.com/NVIDIA/nccl"},
};
// clang-format on

}  // namespace

const Sheet& count_sheet() {
  static const Sheet kSheet(kCountInputs, kCountRows);
  return kSheet;
}

const Sheet& guess_sheet() {
  static const Sheet kSheet(kGuessInputs, kGuessRows);
  return kSheet;
}

const Sheet& ring_sheet() {
  static const Sheet kSheet(kRingInputs, kRingRows);
  return kSheet;
}

std::span<const Source> sources() { return kSources; }

}  // namespace tutti::train::planner
