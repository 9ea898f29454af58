// The trainer's statistics of experts. A rank has the loads of its own stage's layers alone: they are gathered over the
// pipeline.
#include <algorithm>

#include "tutti/train/trainer.hpp"

namespace tutti::train {

/// Over all stages: a rank has the loads of its own layers alone.
void Trainer::report_experts(StepReport& report) {
  if (options_.moe.experts == 0) return;
  for (const auto& load : expert_loads_) {
    report.balance += load->balance / static_cast<double>(load->calls * options_.model.layers);
    report.imbalance = std::max(report.imbalance, load->imbalance());
  }
  report.balance = mesh_.pp().sum(Purpose::Loss, report.balance);
  mesh_.pp().all_reduce(Purpose::Loss, {&report.imbalance, 1, DType::F64}, Op::Max);
}

std::vector<ExpertLoad> Trainer::expert_loads() {
  const size_t experts = options_.moe.experts, layers = experts == 0 ? 0 : options_.model.layers, row = experts + 3;
  std::vector<double> all(layers * row);  // of each layer: pairs of each expert, dropped, balance, calls
  for (const auto& load : expert_loads_) {
    double* const to = all.data() + load->block * row;
    std::copy(load->chosen.begin(), load->chosen.end(), to);
    to[experts] = load->dropped;
    to[experts + 1] = load->balance;
    to[experts + 2] = static_cast<double>(load->calls);
  }
  if (layers > 0) mesh_.pp().all_reduce(Purpose::Loss, {all.data(), all.size(), DType::F64}, Op::Sum);
  std::vector<ExpertLoad> loads(layers);
  for (size_t i = 0; i < layers; ++i) {
    const double* const from = all.data() + i * row;
    loads[i] = {.name = "block." + std::to_string(i) + ".mlp",
                .block = i,
                .chosen = {from, from + experts},
                .dropped = from[experts],
                .balance = from[experts + 1],
                .calls = static_cast<size_t>(from[experts + 2])};
  }
  return loads;
}

}  // namespace tutti::train
