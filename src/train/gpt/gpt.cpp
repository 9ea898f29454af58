#include "tutti/train/gpt.hpp"

#include <fmt/format.h>

namespace tutti::train {
namespace {

void must_divide(const char* part, size_t by, const char* whole, size_t of) {
  if (by != 0 && of % by == 0) return;
  throw Error(Code::InvalidArgument, fmt::format("{} ({}) does not divide {} ({})", part, by, whole, of));
}

}  // namespace

void check_config(const GptConfig& config, const ParallelContext& parallel) {
  if (config.layers == 0 || config.width == 0 || config.length == 0 || config.vocabulary == 0) {
    throw Error(Code::InvalidArgument, fmt::format("a model of {} layers, width {}, length {} and {} tokens is empty",
                                                   config.layers, config.width, config.length, config.vocabulary));
  }
  must_divide("the number of heads", config.heads, "the width", config.width);
  must_divide("tp", parallel.tp_size(), "the number of heads", config.heads);
}

Model make_gpt(const GptConfig& config, const ParallelContext& parallel, const GptParts& parts) {
  check_config(config, parallel);
  Model units;
  units.push_back(make_embedding(config, parallel));
  for (size_t i = 0; i < config.layers; ++i) units.push_back(make_block(config, parallel, i, parts));
  units.push_back(make_head(config, parallel));
  return units;
}

}  // namespace tutti::train
