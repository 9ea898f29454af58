// The model: a byte-level GPT (Radford et al., 2019) with pre-norm blocks and an untied head.
//
//   embedding   x = token[t] + position[p]
//   block       h = x + proj(attention(qkv(norm1(x))));  y = h + mlp(norm2(h))
//   head        cross-entropy of norm(x) · Wᵀ
#pragma once

#include <functional>

#include "tutti/train/parallel.hpp"

namespace tutti::train {

struct GptConfig {
  size_t layers = 4, width = 128, heads = 4;
  size_t length = 128;      ///< of a sequence, in tokens: the whole, under context parallelism
  size_t vocabulary = 256;  ///< bytes
  size_t head_width() const { return width / heads; }
  size_t hidden() const { return 4 * width; }
};

/// Throws Error(InvalidArgument), which says what must divide what, unless the model can be made and split so.
void check_config(const GptConfig& config, const ParallelContext& parallel);

/// Attention without its projections, a seam for context parallelism: from q, k, v (rows × 3 × heads × head width, of
/// this rank's heads and part of the sequence) to the heads' outputs (rows × heads × head width). No parameters.
class Attention {
 public:
  virtual ~Attention() = default;
  virtual Tensor forward(const Call& call, const Tensor& qkv, std::unique_ptr<Record>& record) = 0;
  /// d_qkv.
  virtual Tensor backward(const Call& call, Record& record, const Tensor& qkv, const Tensor& d_out) = 0;
};

/// Causal attention over the whole sequence on this rank. `heads`: of this rank.
std::unique_ptr<Attention> make_causal_attention(size_t heads, size_t head_width);

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
