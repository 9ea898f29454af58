// Writes a small GPT, a batch, its loss and the gradients of all parameters as JSON: what gradients_test.py compares
// with PyTorch's.
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>

#include "tutti/train/gpt.hpp"

int main() try {
  using namespace tutti::train;  // NOLINT: a program
  const GptConfig config{.layers = 3, .width = 32, .heads = 4, .length = 24, .vocabulary = 50};
  constexpr size_t kSequences = 5;
  std::mt19937 random(11);
  std::vector<int32_t> tokens, targets, positions;
  for (size_t i = 0; i < kSequences * config.length; ++i) {
    tokens.push_back(static_cast<int32_t>(random() % config.vocabulary));
    targets.push_back(static_cast<int32_t>(random() % config.vocabulary));
    positions.push_back(static_cast<int32_t>(i % config.length));
  }
  double loss = 0;
  const MicroBatch batch{kSequences, config.length, tokens.data(), positions.data(), targets.data(), &loss};
  const std::unique_ptr<Device> device = make_host_device();
  Ledger ledger(*device);
  const Model units = make_gpt(config);
  std::vector<std::vector<float>> weights;
  std::normal_distribution<float> noise(0, 0.2f);  // so that biases are not zero, and attention is not even
  for (const auto& unit : units) {
    weights.push_back(initial_values(unit->layout(), 3));
    for (float& value : weights.back()) value += noise(random);
  }
  std::vector<std::unique_ptr<Record>> records(units.size());
  Tensor x;
  for (size_t i = 0; i < units.size(); ++i) x = units[i]->forward({ledger, batch, weights[i].data()}, x, records[i]);
  nlohmann::json parameters = nlohmann::json::object();
  Tensor dy;
  for (size_t i = units.size(); i-- > 0;) {
    const Call call{ledger, batch, weights[i].data()};
    std::vector<float> gradients(weights[i].size());
    dy = units[i]->backward_input(call, *records[i], dy);
    units[i]->backward_weight(call, *records[i], gradients.data());
    for (const Parameter& p : units[i]->layout().parameters()) {
      const auto part = [&](const std::vector<float>& of) {
        const float* const first = of.data() + p.offset;
        return std::vector<float>(first, first + p.count);
      };
      parameters[p.name] = {{"value", part(weights[i])}, {"gradient", part(gradients)}};
    }
  }
  const nlohmann::json all{
      {"layers", config.layers},         {"width", config.width}, {"heads", config.heads}, {"length", config.length},
      {"vocabulary", config.vocabulary}, {"tokens", tokens},      {"targets", targets},    {"loss", loss},
      {"parameters", parameters}};
  std::puts(all.dump().c_str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
