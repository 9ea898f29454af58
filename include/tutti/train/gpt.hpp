// The model: a byte-level GPT (Radford et al., 2019) with pre-norm blocks and an untied head.
//
//   embedding   x = token[t] + position[p]
//   block       h = x + proj(attention(qkv(norm1(x))));  y = h + mlp(norm2(h))
//   head        cross-entropy of norm(x) · Wᵀ
#pragma once

#include <cmath>
#include <functional>

#include "tutti/train/attention.hpp"
#include "tutti/train/parallel.hpp"

namespace tutti::train {

struct GptConfig {
  size_t layers = 4, width = 128, heads = 4;
  size_t length = 128;      ///< of a sequence, in tokens: the whole, under context parallelism
  size_t vocabulary = 256;  ///< bytes
  size_t head_width() const { return width / heads; }
  size_t hidden() const { return 4 * width; }
  /// Each block adds two terms to the residual stream: GPT-2 scales both, so that depth does not add variance.
  Deviations deviations() const {
    constexpr float kInner = 0.02f;
    return {kInner, kInner / std::sqrt(2 * static_cast<float>(layers))};
  }
};

/// Throws Error(InvalidArgument), which says what must divide what, unless the model can be made and split over `tp`
/// tensor-parallel ranks.
void check_config(const GptConfig& config, size_t tp);

/// Which parts the blocks are made of. Empty functions: the causal attention and the MLP.
struct GptParts {
  /// Called once for each block, with this rank's heads.
  std::function<std::unique_ptr<Attention>(size_t heads, size_t head_width)> attention;
  /// The feed-forward layer of block `index`, from normed tokens to what is added to them: an MLP, or a mixture of
  /// experts. Adds its parameters, whose names begin with `prefix`, to the block's layout.
  std::function<std::unique_ptr<Layer>(Layout& layout, const std::string& prefix, size_t index)> feed_forward;
};

std::unique_ptr<Unit> make_embedding(const GptConfig& config, const ParallelContext& parallel);
std::unique_ptr<Unit> make_block(const GptConfig& config, const ParallelContext& parallel, size_t index,
                                 const GptParts& parts);
std::unique_ptr<Unit> make_head(const GptConfig& config, const ParallelContext& parallel);

/// All units in order: the embedding, the blocks, the head. `parallel` is copied; what it refers to must outlast them.
Model make_gpt(const GptConfig& config, const ParallelContext& parallel = {}, const GptParts& parts = {});

}  // namespace tutti::train
