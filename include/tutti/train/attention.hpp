// Causal attention without its projections, and context parallelism: attention of sequences that are spread over ranks.
//
//   make_causal_attention    the whole sequence on this rank
//   make_ring_attention      each rank has two chunks of it; keys and values go round a ring of ranks
//   make_ulysses_attention   each rank has one chunk; an all-to-all exchanges chunks for heads, and another back
//
// What they need of a Call: the ledger, and the batch's number of sequences and length on this rank.
#pragma once

#include <memory>
#include <vector>

#include "tutti/train/collectives.hpp"
#include "tutti/train/unit.hpp"

namespace tutti::train {

/// From q, k and v (tokens of this rank × 3 × heads × head width) to the heads' outputs (tokens × heads × head width).
/// No parameters.
class Attention {
 public:
  virtual ~Attention() = default;
  virtual Tensor forward(const Call& call, const Tensor& qkv, std::unique_ptr<Record>& record) = 0;
  /// d_qkv.
  virtual Tensor backward(const Call& call, Record& record, const Tensor& qkv, const Tensor& d_out) = 0;
};

/// Over the whole sequence on this rank. `heads`: of this rank. Keeps the softmax: heads × length² a sequence.
std::unique_ptr<Attention> make_causal_attention(size_t heads, size_t head_width);

/// How context parallelism attends to what other ranks have.
enum class ContextMode : uint8_t { Ring, Ulysses };

/// The positions in a sequence of `length` tokens that rank `rank` of `ranks` has, in its order. Ulysses: the r-th of n
/// chunks. Ring: of 2n chunks the r-th and the (2n−1−r)-th, a zig-zag, so that all ranks have equal work although
/// early tokens attend to fewer. Throws Error(InvalidArgument) unless the chunks are equal.
std::vector<int32_t> context_positions(ContextMode mode, size_t length, int rank, int ranks);

/// Ring attention. Sends and receives go over `stream` while this thread computes; layers may share it. Each rank sends
/// (n−1) · 2 · tokens · width elements forward and twice as many backward, with its own tokens. Keeps the
/// output and one number for each token and head.
std::unique_ptr<Attention> make_ring_attention(size_t heads, size_t head_width, Collectives& cp, Stream& stream);

/// Ulysses. Each rank sends (n−1)/n · 4 · tokens · width elements forward and as many backward, with its own tokens.
/// Throws Error(InvalidArgument) unless n divides `heads`. Keeps q, k and v, and the softmax, of its heads.
std::unique_ptr<Attention> make_ulysses_attention(size_t heads, size_t head_width, Collectives& cp);

}  // namespace tutti::train
