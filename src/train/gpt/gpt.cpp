#include "tutti/train/gpt.hpp"

#include <fmt/format.h>

namespace tutti::train {

void check_config(const GptConfig& config, size_t tp) {
  if (config.layers == 0 || config.width == 0 || config.length == 0 || config.vocabulary == 0) {
    throw Error(Code::InvalidArgument, fmt::format("a model of {} layers, width {}, length {} and {} tokens is empty",
                                                   config.layers, config.width, config.length, config.vocabulary));
  }
  check_divides("the number of heads", config.heads, "the width", config.width);
  check_divides("tp", tp, "the number of heads", config.heads);
  if (config.vocabulary < tp) {  // uneven pieces are fine
    throw Error(Code::InvalidArgument,
                fmt::format("tp ({}) is more than the vocabulary has entries ({})", tp, config.vocabulary));
  }
}

Model make_gpt(const GptConfig& config, const ParallelContext& parallel, const GptParts& parts) {
  check_config(config, parallel.tp_size());
  Model units;
  units.push_back(make_embedding(config, parallel));
  for (size_t i = 0; i < config.layers; ++i) units.push_back(make_block(config, parallel, i, parts));
  units.push_back(make_head(config, parallel));
  return units;
}

}  // namespace tutti::train
