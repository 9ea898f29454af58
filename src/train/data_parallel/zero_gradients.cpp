// ZeRO's two ways of holding gradients.
#include <deque>

#include "train/data_parallel/zero.hpp"

namespace tutti::train {
namespace {

/// What both do: a unit's gradients are reduced and scattered on a stream, in place: each rank's piece of the unit's
/// buffer becomes the average.
class Scattered : public ZeroGradients {
 public:
  explicit Scattered(ZeroState& state) : state_(state) {}
  void start_step() override { busy_ = waited_ = 0; }
  DataParallel::Overlap overlap() const override { return {busy_, waited_}; }

 protected:
  void scatter(size_t unit, Span gradients) {
    state_.device().order_before(stream_);
    stream_.launch([this] { started_ = now(); });
    for (const Shard& shard : state_.shards[unit]) {
      shard.comm->carries({.unit = static_cast<int>(unit)});
      shard.comm->reduce_scatter_v(Purpose::Gradients, shard.whole(gradients), shard.piece(gradients), shard.counts,
                                   Op::Avg, stream_);
    }
    stream_.launch([this] { busy_ += now() - started_; });
  }
  template <class Waiting>
  void wait(Waiting&& waiting) {
    const double start = now();
    waiting();
    const double end = now();
    waited_ += end - start;
    state_.groups.dense.waited(Purpose::Gradients, start, end);
  }
  ZeroState& state_;
  Stream stream_;

 private:
  double started_ = 0, busy_ = 0;  // written by the stream
  double waited_ = 0;
};

/// Stage 1: all gradients, whole. They are reduced and scattered once a step. All ranks do so in reverse order of the
/// units, whatever units a rank has used.
class WholeGradients final : public Scattered {
 public:
  using Scattered::Scattered;
  ~WholeGradients() override { (void)tuttiStreamSynchronize(stream_); }

  void attach() override { memory_ = state_.hold_whole(Kind::Gradients, &UnitState::gradients, &Shard::gradients); }
  void start_step() override {
    Scattered::start_step();
    state_.device().zero(memory_.span().data, memory_.bytes());
    ready_.assign(state_.units.size(), false);
    left_ = ready_.size();
  }
  void needed(size_t /*unit*/) override {}
  void ready(size_t unit, bool last) override {
    if (last) ready_[unit] = true;
    while (left_ > 0 && ready_[left_ - 1]) scatter_next();
  }
  void finish() override {
    while (left_ > 0) scatter_next();
    wait([&] { stream_.synchronize(); });
  }

 private:
  void scatter_next() {
    --left_;
    scatter(left_, state_.units[left_].gradients);
  }
  Buffer memory_;
  std::vector<bool> ready_;  // [unit]
  size_t left_ = 0;          // units [0, left_) are still to be scattered
};

/// Stages 2 and 3: this rank's pieces alone. A unit's whole gradients are held, as a buffer, from its backward pass
/// until they are scattered: two units' at a time. Each micro-batch is scattered by itself and added to the pieces, so
/// all replicas of a unit must run it equally often in a step.
class ShardedGradients final : public Scattered {
 public:
  using Scattered::Scattered;
  ~ShardedGradients() override { (void)tuttiStreamSynchronize(stream_); }

  void attach() override {
    whole_.resize(state_.units.size());
    memory_ = state_.hold_pieces(Kind::Gradients, &Shard::gradients);
  }
  void start_step() override {
    Scattered::start_step();
    if (memory_.count() > 0) state_.device().zero(memory_.span().data, memory_.bytes());
  }
  void needed(size_t unit) override {
    if (whole_[unit].count() > 0) return;
    while (under_way_.size() > 1) retire();
    UnitState& of = state_.units[unit];
    whole_[unit] = state_.ledger.allocate(Kind::Buffers, of.layout->count(), state_.options.weights, true);
    of.gradients = whole_[unit].span();
    state_.device().zero(of.gradients.data, of.gradients.bytes());
  }
  void ready(size_t unit, bool /*last*/) override {
    scatter(unit, whole_[unit].span());
    under_way_.push_back({unit, std::move(whole_[unit]), {}});
    under_way_.back().done.record(stream_);
    whole_[unit] = {};
    state_.units[unit].gradients = {};
  }
  void finish() override {
    while (!under_way_.empty()) retire();
  }

 private:
  struct UnderWay {
    size_t unit;
    Buffer whole;
    Event done;
  };
  void retire() {
    const UnderWay& oldest = under_way_.front();
    wait([&] { oldest.done.synchronize(); });
    for (Shard& shard : state_.shards[oldest.unit])
      state_.device().add(shard.gradients, shard.piece(oldest.whole.span()));
    under_way_.pop_front();
  }
  Buffer memory_;
  std::vector<Buffer> whole_;  // [unit]; empty: not held
  std::deque<UnderWay> under_way_;
};

}  // namespace

std::unique_ptr<ZeroGradients> make_whole_gradients(ZeroState& state) {
  return std::make_unique<WholeGradients>(state);
}
std::unique_ptr<ZeroGradients> make_sharded_gradients(ZeroState& state) {
  return std::make_unique<ShardedGradients>(state);
}

}  // namespace tutti::train
