// ZeRO's two ways of holding weights.
#include "train/data_parallel/zero.hpp"

namespace tutti::train {
namespace {

/// What both do: the weights of a unit come by all-gather, on a stream.
class Gathered : public ZeroWeights {
 public:
  explicit Gathered(ZeroState& state) : state_(state) {}
  void attach() override { arrived_.resize(state_.units.size()); }
  void settle() override { stream_.synchronize(); }

 protected:
  /// Starts to gather a unit's weights into `all`.
  void fetch(size_t unit, Span all, Purpose purpose) {
    for (const Shard& shard : state_.shards[unit]) {
      shard.comm->carries({.unit = static_cast<int>(unit)});
      gather(state_.device(), shard, purpose, shard.weights, shard.whole(all), stream_);
    }
    arrived_[unit].record(stream_);
  }
  void await(size_t unit) {
    const double start = now();
    arrived_[unit].synchronize();
    state_.groups.dense.waited(Purpose::Parameters, start, now());
  }
  ZeroState& state_;
  Stream stream_;

 private:
  std::vector<Event> arrived_;  // [unit]
};

/// Stages 1 and 2: all weights, whole. After the optimizer's step each replica has the new values of its own pieces,
/// and the next forward pass computes its first units while the others' are still being gathered.
class WholeWeights final : public Gathered {
 public:
  using Gathered::Gathered;
  ~WholeWeights() override { (void)tuttiStreamSynchronize(stream_); }  // the memory is in use until then

  void attach() override {
    Gathered::attach();
    memory_ = state_.hold_whole(Kind::Weights, &UnitState::weights, &Shard::weights);
    state_.device().zero(memory_.span().data, memory_.bytes());
  }
  void needed(size_t unit, Pass /*pass*/) override { await(unit); }
  void next(size_t /*unit*/) override {}
  void done(size_t /*unit*/, Pass /*pass*/) override {}
  void changed(size_t unit, Purpose purpose) override { fetch(unit, state_.units[unit].weights, purpose); }

 private:
  Buffer memory_;
};

/// Stage 3: this rank's pieces alone. A unit is gathered while the one that the schedule has before it computes, and
/// released after it. So two units' weights are held at a time, as buffers. Each micro-batch gathers the weights
/// twice; without `reshard_after_forward` once: the forward pass then leaves all of them for the backward pass.
class ShardedWeights final : public Gathered {
 public:
  using Gathered::Gathered;
  ~ShardedWeights() override { (void)tuttiStreamSynchronize(stream_); }

  void attach() override {
    Gathered::attach();
    gathered_.resize(state_.units.size());
    memory_ = state_.hold_pieces(Kind::Weights, &Shard::weights);
    if (memory_.count() > 0) state_.device().zero(memory_.span().data, memory_.bytes());
  }
  void needed(size_t unit, Pass /*pass*/) override {
    hold(unit);
    await(unit);
    state_.units[unit].weights = gathered_[unit].span();
  }
  void next(size_t unit) override { hold(unit); }
  void done(size_t unit, Pass pass) override {
    if (pass == Pass::Backward || state_.options.reshard_after_forward) release(unit);
  }
  void changed(size_t unit, Purpose /*purpose*/) override {
    await(unit);
    release(unit);
  }

 private:
  void hold(size_t unit) {
    if (gathered_[unit].count() > 0) return;
    gathered_[unit] =
        state_.ledger.allocate(Kind::Buffers, state_.units[unit].layout->count(), state_.options.weights, true);
    fetch(unit, gathered_[unit].span(), Purpose::Parameters);
  }
  void release(size_t unit) {
    gathered_[unit] = {};
    state_.units[unit].weights = {};
  }
  Buffer memory_;
  std::vector<Buffer> gathered_;  // [unit]; empty: not held
};

}  // namespace

std::unique_ptr<ZeroWeights> make_whole_weights(ZeroState& state) { return std::make_unique<WholeWeights>(state); }
std::unique_ptr<ZeroWeights> make_sharded_weights(ZeroState& state) { return std::make_unique<ShardedWeights>(state); }

}  // namespace tutti::train
