// Ring attention. Each rank keeps its queries. Keys and values go round the ring: in each of n steps a rank attends to
// those it holds, while it sends them on and receives the next. Attention over one block of keys after another is
// joined by the logarithm of the sum of exponentials of each query's scores (online softmax), so no rank ever has more
// than a block of scores.
//
// Causal balance: the sequence has 2n chunks, and rank r has the r-th and the (2n−1−r)-th. Of the four pairs of a
// rank's query chunks and another's key chunks, two are wholly in the past and two wholly in the future, for every
// pair of ranks. So every step costs every rank the same.
//
// Backward computes the scores again. The gradients of keys and values follow them, one step later, and are home after
// n steps; what a rank adds to its own it keeps. Per rank, in elements of its own tokens × width: forward sends 2(n−1),
// backward 4(n−1).
// Source: Liu, Zaharia & Abbeel, Ring attention with blockwise transformers, 2023; zig-zag: Zhu, ring-flash-attention.
#include <cmath>
#include <limits>

#include "train/core/clock.hpp"
#include "tutti/train/attention.hpp"
#include "tutti/train/parallel.hpp"

namespace tutti::train {
namespace {

struct RingRecord : Record {
  Tensor out, log_sum;  // log_sum: sequences × heads × length
};

class RingAttention final : public Attention {
 public:
  RingAttention(size_t heads, size_t width, Collectives& cp, Stream& stream)
      : heads_(heads), width_(width), row_(heads * width), cp_(cp), stream_(stream) {}

  Tensor forward(const Call& call, const Tensor& qkv, std::unique_ptr<Record>& record) override {
    check_divides("2", 2, "the length of a rank's part of a sequence", call.batch.length);
    auto kept = std::make_unique<RingRecord>();
    kept->out = call.make(call.batch.tokens_count() * row_);
    kept->log_sum = call.make(call.batch.tokens_count() * heads_);
    call.device().zero(kept->out->f32(), kept->out->bytes());
    call.device().fill(kept->log_sum->span(), -std::numeric_limits<float>::infinity());
    Scratch scratch(call, *this);
    Tensor keys = keys_of(call, *qkv), next;
    for (int step = 0; step < cp_.size(); ++step) {
      const bool more = step + 1 < cp_.size();
      if (more) exchange(call, {{&keys, &next}});
      each_block(call, step, [&](const Block& block) { attend(call, block, *qkv, *keys, *kept, scratch); });
      if (more) wait();
      keys = std::move(next);
    }
    Tensor out = kept->out;
    record = std::move(kept);
    return out;
  }

  Tensor backward(const Call& call, Record& record, const Tensor& qkv, const Tensor& d_out) override {
    const auto& kept = static_cast<RingRecord&>(record);
    Tensor d_qkv = call.make(qkv->count());
    call.device().zero(d_qkv->f32(), d_qkv->bytes());
    Scratch scratch(call, *this);
    scratch.along = output_dots(call, *kept.out, *d_out);
    Tensor keys = keys_of(call, *qkv), next;
    Tensor own, done, arriving;  // gradients: of this rank's keys; of the keys of the step before
    for (int step = 0; step < cp_.size(); ++step) {
      std::vector<Pass> passes;
      if (step + 1 < cp_.size()) passes.push_back({&keys, &next});
      if (step > 1) passes.push_back({&done, &arriving});
      exchange(call, passes);
      const Tensor d_keys = call.make(keys->count());
      call.device().zero(d_keys->f32(), d_keys->bytes());
      const Gradients gradients{*d_out, *d_qkv, *d_keys};
      each_block(call, step, [&](const Block& block) { back(call, block, *qkv, *keys, kept, gradients, scratch); });
      if (!passes.empty()) wait();
      if (step > 1) call.device().add(d_keys->span(), arriving->span());
      (step == 0 ? own : done) = d_keys;
      keys = std::move(next);
    }
    if (!cp_.absent()) {
      exchange(call, {{&done, &arriving}});
      wait();
      call.device().add(own->span(), arriving->span());
    }
    const size_t tokens = call.batch.tokens_count();
    call.device().copy_rows({tokens, 2 * row_}, {own->f32(), 2 * row_}, {d_qkv->f32() + row_, 3 * row_});
    return d_qkv;
  }

 private:
  /// One head of a sequence: a chunk of its queries and a chunk of keys that they attend to.
  struct Block {
    size_t query, key;  // the first row of each, in this rank's tokens
    size_t head;        // the first column of it
    size_t log_sum;     // the first query's place in log_sum
    bool causal;        // the same chunk; else the keys are all before
  };
  struct Pass {
    Tensor *out, *in;
  };
  struct Gradients {
    const Buffer& out;
    Buffer &qkv, &keys;
  };
  struct Scratch {
    Scratch(const Call& call, const RingAttention& of)
        : half(call.batch.length / 2),
          scores(call.make(half * half)),
          d_scores(call.make(half * half)),
          out(call.make(half * of.width_)),
          log_sum(call.make(half)) {}
    size_t half;
    Tensor scores, d_scores, out, log_sum, along;
  };

  /// Keys and values without queries: tokens × 2 × heads × width.
  Tensor keys_of(const Call& call, const Buffer& qkv) const {
    const size_t tokens = call.batch.tokens_count();
    Tensor keys = call.make(tokens * 2 * row_);
    call.device().copy_rows({tokens, 2 * row_}, {qkv.f32() + row_, 3 * row_}, {keys->f32(), 2 * row_});
    return keys;
  }

  /// All passes to the next rank, and from the one before, in one group: it runs until wait().
  void exchange(const Call& call, const std::vector<Pass>& passes) const {
    if (passes.empty()) return;
    const int next = (cp_.rank() + 1) % cp_.size(), before = (cp_.rank() + cp_.size() - 1) % cp_.size();
    for (const Pass& pass : passes) *pass.in = call.make((*pass.out)->count());
    call.device().order_before(stream_);
    std::vector<std::pair<Span, Span>> pairs;
    for (const Pass& pass : passes) pairs.emplace_back((*pass.out)->span(), (*pass.in)->span());
    cp_.send_and_recv(Purpose::ContextAxis, pairs, next, before, stream_);
  }
  void wait() const {
    const double start = now();
    stream_.synchronize();
    cp_.waited(Purpose::ContextAxis, start, now());
  }

  /// Calls function(block) for all that this rank's queries attend to in the keys that it has in this step.
  template <class Function>
  void each_block(const Call& call, int step, Function function) const {
    const int n = cp_.size(), source = (cp_.rank() + n - step) % n;
    const size_t length = call.batch.length, half = length / 2;
    const int queries[] = {cp_.rank(), 2 * n - 1 - cp_.rank()}, keys[] = {source, 2 * n - 1 - source};  // chunks
    for (size_t i = 0; i < call.batch.sequences * heads_ * 4; ++i) {
      const size_t query = i % 2, key = i / 2 % 2, head = i / 4 % heads_, sequence = i / 4 / heads_;
      if (keys[key] > queries[query]) continue;
      function(Block{.query = sequence * length + query * half,
                     .key = sequence * length + key * half,
                     .head = head * width_,
                     .log_sum = (sequence * heads_ + head) * length + query * half,
                     .causal = keys[key] == queries[query]});
    }
  }

  /// The block's part of queries (in q, k and v), of keys (and values), of values, and of outputs.
  Matrix queries_of(const Block& block, const Buffer& qkv) const {
    return {qkv.f32() + block.query * 3 * row_ + block.head, 3 * row_};
  }
  Matrix keys_of(const Block& block, const Buffer& keys) const {
    return {keys.f32() + block.key * 2 * row_ + block.head, 2 * row_};
  }
  Matrix values_of(const Block& block, const Buffer& keys) const {
    return {keys_of(block, keys).data + row_, 2 * row_};
  }
  Matrix outputs_of(const Block& block, const Buffer& out) const {
    return {out.f32() + block.query * row_ + block.head, row_};
  }

  void scores(const Call& call, const Block& block, const Buffer& qkv, const Buffer& keys, const Scratch& s) const {
    const Matrix q = queries_of(block, qkv), k = keys_of(block, keys), p{s.scores->f32(), s.half};
    call.device().gemm({.transpose_b = true, .m = s.half, .n = s.half, .k = width_, .a = q, .b = k, .c = p});
  }

  void attend(const Call& call, const Block& block, const Buffer& qkv, const Buffer& keys, const RingRecord& kept,
              const Scratch& s) const {
    scores(call, block, qkv, keys, s);
    call.device().softmax({s.half, s.half}, factor(), block.causal, s.scores->f32(), s.log_sum->f32());
    const Matrix p{s.scores->f32(), s.half}, v = values_of(block, keys), out{s.out->f32(), width_};
    call.device().gemm({.m = s.half, .n = width_, .k = s.half, .a = p, .b = v, .c = out});
    call.device().merge_attention({s.half, width_}, out.data, s.log_sum->f32(), outputs_of(block, *kept.out),
                                  kept.log_sum->f32() + block.log_sum);
  }

  void back(const Call& call, const Block& block, const Buffer& qkv, const Buffer& keys, const RingRecord& kept,
            const Gradients& gradients, const Scratch& s) const {
    Device& device = call.device();
    const size_t t = s.half;
    const Matrix q = queries_of(block, qkv), k = keys_of(block, keys), v = values_of(block, keys);
    const Matrix dq = queries_of(block, gradients.qkv), dk = keys_of(block, gradients.keys);
    const Matrix dv = values_of(block, gradients.keys), d_out = outputs_of(block, gradients.out);
    const Matrix p{s.scores->f32(), t}, ds{s.d_scores->f32(), t};
    scores(call, block, qkv, keys, s);
    device.softmax_again({t, t}, factor(), block.causal, kept.log_sum->f32() + block.log_sum, p.data);
    device.gemm({.transpose_a = true, .m = t, .n = width_, .k = t, .a = p, .b = d_out, .c = dv, .beta = 1});
    device.gemm({.transpose_b = true, .m = t, .n = t, .k = width_, .a = d_out, .b = v, .c = ds});
    device.softmax_backward({t, t}, factor(), p.data, s.along->f32() + block.log_sum, ds.data);
    device.gemm({.m = t, .n = width_, .k = t, .a = ds, .b = k, .c = dq, .beta = 1});
    device.gemm({.transpose_a = true, .m = t, .n = width_, .k = t, .a = ds, .b = q, .c = dk, .beta = 1});
  }

  /// Σ out · d_out of each query: what softmax_backward needs of the whole row. In log_sum's order.
  Tensor output_dots(const Call& call, const Buffer& out, const Buffer& d_out) const {
    const size_t tokens = call.batch.tokens_count(), length = call.batch.length;
    const Tensor by_token = call.make(tokens * heads_);
    Tensor by_head = call.make(tokens * heads_);
    call.device().row_dots({tokens * heads_, width_}, out.f32(), d_out.f32(), by_token->f32());
    for (size_t i = 0; i < call.batch.sequences * heads_; ++i) {
      const size_t sequence = i / heads_, head = i % heads_;
      call.device().copy_rows({length, 1}, {by_token->f32() + sequence * length * heads_ + head, heads_},
                              {by_head->f32() + i * length, 1});
    }
    return by_head;
  }

  float factor() const { return 1 / std::sqrt(static_cast<float>(width_)); }

  size_t heads_, width_, row_;
  Collectives& cp_;
  Stream& stream_;
};

}  // namespace

std::unique_ptr<Attention> make_ring_attention(size_t heads, size_t head_width, Collectives& cp, Stream& stream) {
  return std::make_unique<RingAttention>(heads, head_width, cp, stream);
}

}  // namespace tutti::train
