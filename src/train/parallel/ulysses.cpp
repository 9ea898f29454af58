// Ulysses: before attention an all-to-all gives each rank the whole sequence of its share of the heads; after it
// another gives each rank all heads of its part of the sequence. Attention itself is the same as on one rank.
//
// The parts lie one after another: rank r has tokens [r·L/n, (r+1)·L/n) of each sequence. Each all-to-all divides the
// q, k and v (3 · tokens · width elements), or the outputs (1 ·), by destination: block d holds the heads of rank d.
// Source: Jacobs et al., DeepSpeed Ulysses, 2023, §3.
#include "tutti/train/attention.hpp"
#include "tutti/train/parallel.hpp"

namespace tutti::train {
namespace {

struct UlyssesRecord : Record {
  Tensor qkv;  // of this rank's heads, over the whole sequence
  std::unique_ptr<Record> attention;
};

class Ulysses final : public Attention {
 public:
  Ulysses(size_t heads, size_t width, Collectives& cp)
      : cp_(cp), ranks_(static_cast<size_t>(cp.size())), columns_(heads * width) {
    check_divides("cp", ranks_, "the heads of a rank", heads);
    attention_ = make_causal_attention(heads / ranks_, width);
  }

  Tensor forward(const Call& call, const Tensor& qkv, std::unique_ptr<Record>& record) override {
    auto kept = std::make_unique<UlyssesRecord>();
    const MicroBatch whole = whole_sequences(call);
    const Call inside{call.ledger, whole, call.weights};
    kept->qkv = to_heads(call, qkv, 3);
    const Tensor out = attention_->forward(inside, kept->qkv, kept->attention);
    record = std::move(kept);
    return to_sequence(call, out, 1);
  }

  Tensor backward(const Call& call, Record& record, const Tensor& /*qkv*/, const Tensor& d_out) override {
    auto& kept = static_cast<UlyssesRecord&>(record);
    const MicroBatch whole = whole_sequences(call);
    const Call inside{call.ledger, whole, call.weights};
    const Tensor d_qkv = attention_->backward(inside, *kept.attention, kept.qkv, to_heads(call, d_out, 1));
    return to_sequence(call, d_qkv, 3);
  }

 private:
  MicroBatch whole_sequences(const Call& call) const {
    MicroBatch whole = call.batch;
    whole.length *= ranks_;
    return whole;
  }

  // Three layouts, with `parts` 3 (q, k, v) or 1:
  //   mine    sequences × length × parts × all columns
  //   blocks  ranks × sequences × length × parts × columns of a rank: what an all-to-all exchanges
  //   heads   sequences × ranks · length × parts × columns of a rank
  Tensor to_heads(const Call& call, const Tensor& mine, size_t parts) const {
    const Tensor out = call.make(mine->count());
    columns(call, *mine, *out, parts, true);
    const Tensor blocks = exchanged(call, out);
    Tensor heads = call.make(mine->count());
    copy_sequences(call, *blocks, *heads, parts, true);
    return heads;
  }

  Tensor to_sequence(const Call& call, const Tensor& heads, size_t parts) const {
    const Tensor out = call.make(heads->count());
    copy_sequences(call, *out, *heads, parts, false);
    const Tensor blocks = exchanged(call, out);
    Tensor mine = call.make(heads->count());
    columns(call, *mine, *blocks, parts, false);
    return mine;
  }

  Tensor exchanged(const Call& call, const Tensor& out) const {
    if (cp_.absent()) return out;
    Tensor in = call.make(out->count());
    cp_.all_to_all(Purpose::ContextAxis, out->span(), in->span());
    return in;
  }

  /// From `mine` to `blocks`, or back.
  void columns(const Call& call, const Buffer& mine, const Buffer& blocks, size_t parts, bool to_blocks) const {
    const size_t tokens = call.batch.tokens_count(), share = columns_ / ranks_;
    for (size_t rank = 0; rank < ranks_; ++rank) {
      for (size_t part = 0; part < parts; ++part) {
        const Matrix one{mine.f32() + part * columns_ + rank * share, parts * columns_};
        const Matrix other{blocks.f32() + (rank * tokens * parts + part) * share, parts * share};
        call.device().copy_rows({tokens, share}, to_blocks ? one : other, to_blocks ? other : one);
      }
    }
  }

  /// From `blocks` to `heads`, or back.
  void copy_sequences(const Call& call, const Buffer& blocks, const Buffer& heads, size_t parts, bool to_heads) const {
    const size_t chunk = call.batch.length * parts * columns_ / ranks_;  // one rank's part of a sequence
    for (size_t rank = 0; rank < ranks_; ++rank) {
      const Matrix one{blocks.f32() + rank * call.batch.sequences * chunk, chunk};
      const Matrix other{heads.f32() + rank * chunk, ranks_ * chunk};
      call.device().copy_rows({call.batch.sequences, chunk}, to_heads ? one : other, to_heads ? other : one);
    }
  }

  Collectives& cp_;
  size_t ranks_, columns_;  // columns: of all heads, on this rank before the exchange
  std::unique_ptr<Attention> attention_;
};

}  // namespace

std::unique_ptr<Attention> make_ulysses_attention(size_t heads, size_t head_width, Collectives& cp) {
  return std::make_unique<Ulysses>(heads, head_width, cp);
}

}  // namespace tutti::train
