#include "train/data_parallel/zero.hpp"

#include <algorithm>

#include "train/data_parallel/replicated.hpp"

namespace tutti::train {
namespace {

class Zero final : public DataParallel {
 public:
  Zero(const DataParallelOptions& options, Ledger& ledger, const ReplicaGroups& groups)
      : state_{options, ledger, groups, {}, {}} {
    weights_ = options.mode == DataParallelMode::Zero3 ? make_sharded_weights(state_) : make_whole_weights(state_);
    gradients_ =
        options.mode == DataParallelMode::Zero1 ? make_whole_gradients(state_) : make_sharded_gradients(state_);
  }

  void attach(std::span<UnitState> units) override {
    state_.units = units;
    for (size_t unit = 0; unit < units.size(); ++unit) {
      auto& shards = state_.shards.emplace_back();
      for (Run& run : runs_of(unit, *units[unit].layout, state_.groups)) shards.push_back({std::move(run), {}, {}, {}});
    }
    weights_->attach();
    gradients_->attach();
    state_.each_shard([&](Shard& shard) { shard.adam = Adam(state_.ledger, shard.weights); });
  }

  void load(size_t unit, std::span<const float> values) override {
    const Buffer wide = state_.ledger.allocate(Kind::Buffers, values.size(), DType::F32, true);
    device().upload(wide.f32(), values.data(), values.size_bytes());
    for (Shard& shard : state_.shards[unit]) {
      shard.comm->broadcast(Purpose::Setup, shard.whole(wide.span()), 0);
      device().convert(shard.master(), shard.piece(wide.span()));
      update_weights(shard);
    }
    weights_->changed(unit, Purpose::Setup);
  }

  void read(size_t unit, std::span<float> values) override {
    const Buffer wide = state_.ledger.allocate(Kind::Buffers, values.size(), DType::F32, true);
    Stream stream;
    for (const Shard& shard : state_.shards[unit])
      gather(device(), shard, Purpose::Setup, shard.master(), shard.whole(wide.span()), stream);
    stream.synchronize();
    device().download(values.data(), wide.f32(), values.size_bytes());
  }

  void broadcast_parameters() override {}  // load() has done it: no rank holds all

  std::vector<StatePiece> state() override {
    weights_->settle();  // the caller may write the pieces
    std::vector<StatePiece> pieces;
    state_.each_shard([&](Shard& shard) {
      pieces.push_back({shard.unit, shard.piece_first, shard.master(), shard.adam.moment1(), shard.adam.moment2(),
                        shard.piece_first, shard.piece_count()});
    });
    return pieces;
  }

  void state_replaced() override {
    state_.each_shard([&](Shard& shard) { update_weights(shard); });
    for (size_t unit = 0; unit < state_.units.size(); ++unit) weights_->changed(unit, Purpose::Setup);
  }

  void start_step() override { gradients_->start_step(); }
  void parameters_needed(size_t unit, Pass pass) override { weights_->needed(unit, pass); }
  void parameters_next(size_t unit) override { weights_->next(unit); }
  void parameters_done(size_t unit, Pass pass) override { weights_->done(unit, pass); }
  void gradients_needed(size_t unit) override { gradients_->needed(unit); }
  void gradients_ready(size_t unit, bool last) override { gradients_->ready(unit, last); }
  void finish_backward() override { gradients_->finish(); }
  Overlap overlap() const override { return gradients_->overlap(); }

  double square_sum() override {
    double dense = 0, experts = 0;
    bool have_experts = false;
    state_.each_shard([&](Shard& shard) {
      const bool expert = shard.comm == &state_.groups.experts;
      have_experts |= expert;
      (expert ? experts : dense) += square_sum_of(shard);
    });
    dense = state_.groups.dense.sum(Purpose::Norm, dense);
    if (state_.groups.ep_rank != 0) dense = 0;  // expert-parallel ranks share them, and add theirs
    return have_experts ? dense + state_.groups.experts.sum(Purpose::Norm, experts) : dense;
  }

  void step(const AdamStep& step) override {
    for (size_t unit = 0; unit < state_.units.size(); ++unit) {
      for (Shard& shard : state_.shards[unit]) shard.adam.step(device(), step, shard.weights, shard.gradients);
      weights_->changed(unit, Purpose::Parameters);
    }
  }

 private:
  Device& device() const { return state_.device(); }

  void update_weights(Shard& shard) {
    if (!shard.adam.master().empty()) device().convert(shard.weights, shard.adam.master());
  }

  double square_sum_of(const Shard& shard) const {
    double sum = 0;
    const size_t first = shard.piece_first, last = first + shard.piece_count();
    for (const Parameter& p : state_.units[shard.unit].layout->parameters()) {
      const size_t from = std::max(first, p.offset), to = std::min(last, p.offset + p.count);
      if (from >= to || (state_.groups.tp_rank != 0 && !p.sharded())) continue;
      sum += device().sum_of_squares(shard.gradients.part(from - first, to - from));
    }
    return sum;
  }

  ZeroState state_;
  std::unique_ptr<ZeroWeights> weights_;
  std::unique_ptr<ZeroGradients> gradients_;
};

}  // namespace

Buffer ZeroState::hold_whole(Kind kind, Span UnitState::*of_unit, Span Shard::*of_shard) {
  size_t count = 0, first = 0;
  for (const UnitState& unit : units) count += unit.layout->count();
  Buffer memory = ledger.allocate(kind, count, options.weights, true);
  for (size_t unit = 0; unit < units.size(); ++unit) {
    const Span whole = memory.span().part(first, units[unit].layout->count());
    first += whole.count;
    units[unit].*of_unit = whole;
    for (Shard& shard : shards[unit]) shard.*of_shard = shard.piece(whole);
  }
  return memory;
}

Buffer ZeroState::hold_pieces(Kind kind, Span Shard::*of_shard) {
  size_t count = 0, first = 0;
  each_shard([&](Shard& shard) { count += shard.piece_count(); });
  Buffer memory = ledger.allocate(kind, count, options.weights, true);
  each_shard([&](Shard& shard) {
    shard.*of_shard = memory.span().part(first, shard.piece_count());
    first += shard.piece_count();
  });
  return memory;
}

StateBytes state_bytes(DataParallelMode mode, DType weights, double parameters, int replicas) {
  const auto width = static_cast<double>(size_of(weights));
  const auto share = [&](DataParallelMode from) { return mode >= from ? 1.0 / replicas : 1.0; };
  return {.weights = width * parameters * share(DataParallelMode::Zero3),
          .gradients = width * parameters * share(DataParallelMode::Zero2),
          .optimizer = (weights == DType::F32 ? 8 : 12) * parameters * share(DataParallelMode::Zero1)};
}

std::unique_ptr<DataParallel> make_zero(const DataParallelOptions& options, Ledger& ledger,
                                        const ReplicaGroups& groups) {
  return std::make_unique<Zero>(options, ledger, groups);
}

}  // namespace tutti::train
