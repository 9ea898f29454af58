// Distributed data parallel: every rank holds the whole model and averages gradients by all-reduce, bucket by bucket,
// while the backward pass is still computing the gradients of earlier units.
//
// Gradients become ready in the reverse order of use. They are cut in that order into buckets of at most 25 MiB (the
// first 1 MiB, so that the wire is busy early), at parameters' borders. Experts are averaged over fewer ranks and have
// buckets of their own. A bucket is launched on the strategy's stream when all units that it touches are ready and all
// buckets before it are launched: so all ranks launch the same calls in the same order, also where a rank did not use a
// unit.
//
// Per step and rank: 2(n−1)/n · Ψ elements sent; 16Ψ bytes held. Buckets that cannot be sent as they lie are copied: in
// bf16 those of f32 gradients, and those of several pieces.
// Source: Li et al., PyTorch Distributed, VLDB 2020, §3.2 and §4.2.

#include <algorithm>
#include <optional>
#include <vector>

#include "train/core/clock.hpp"
#include "train/data_parallel/replicated.hpp"

namespace tutti::train {
namespace {

/// Elements of the flat gradients.
struct Piece {
  size_t first = 0, count = 0;
};

struct Bucket {
  std::vector<Piece> pieces;  // in descending order; several where experts lie between dense parameters
  size_t count = 0;
  size_t first_unit = 0, last_unit = 0;  // that it touches, both included
  Collectives* comm = nullptr;
  Span wire;                      // of the communication's type, piece after piece; empty: the gradients themselves
  double started = 0, ended = 0;  // written by the stream
};

class Ddp final : public Replicated {
 public:
  using Replicated::Replicated;

  void attach(std::span<UnitState> units) override {
    Replicated::attach(units);
    cut();
    if (groups_.dense.absent()) return;
    stream_.emplace();
    const bool narrow = size_of(options_.communication) < size_of(options_.weights);
    const auto copied = [&](const Bucket& bucket) {
      return !bucket.comm->absent() && (narrow || bucket.pieces.size() > 1);
    };
    size_t count = 0;
    for (const Bucket& bucket : buckets_) count += copied(bucket) ? bucket.count : 0;
    wire_ = ledger_.allocate(Kind::Buffers, count, narrow ? options_.communication : options_.weights, true);
    for (Bucket& bucket : buckets_) {
      if (copied(bucket)) bucket.wire = wire_.span().part(count -= bucket.count, bucket.count);
    }
  }

  void broadcast_parameters() override {
    Replicated::broadcast_parameters();
    if (!adam_.master().empty()) broadcast(adam_.master());
  }

  void start_step() override {
    Replicated::start_step();
    ready_.assign(units_.size(), false);
    launched_ = 0;
    waited_ = 0;
  }

  void gradients_ready(size_t unit, bool last) override {
    if (!last || !stream_) return;
    ready_[unit] = true;
    while (launched_ < buckets_.size() && is_ready(buckets_[launched_])) launch(buckets_[launched_++]);
  }

  void finish_backward() override {
    if (!stream_) return;
    while (launched_ < buckets_.size()) launch(buckets_[launched_++]);
    const double start = now();
    stream_->synchronize();
    const double end = now();
    waited_ = end - start;
    groups_.dense.waited(Purpose::Gradients, start, end);
    for (const Bucket& bucket : buckets_) {
      each_copy(bucket, [&](Span gradients, Span wire) { device().convert(gradients, wire); });
    }
  }

  Overlap overlap() const override {
    double busy = 0;
    for (const Bucket& bucket : buckets_) busy += bucket.ended - bucket.started;
    return {busy, waited_};
  }

 private:
  void cut() {
    for (Collectives* comm : {&groups_.dense, &groups_.experts}) cut(comm);
    // The order of launch: by the last unit whose gradients a bucket waits for.
    std::stable_sort(buckets_.begin(), buckets_.end(),
                     [](const Bucket& a, const Bucket& b) { return a.first_unit > b.first_unit; });
  }

  /// The buckets of dense parameters, or of experts.
  void cut(Collectives* comm) {
    size_t limit = options_.first_bucket;
    Bucket* bucket = nullptr;
    for (size_t unit = units_.size(); unit-- > 0;) {
      const auto parameters = units_[unit].layout->parameters();
      for (size_t i = parameters.size(); i-- > 0;) {
        const Parameter& p = parameters[i];
        if (comm != (p.expert ? &groups_.experts : &groups_.dense)) continue;
        if (bucket == nullptr || (bucket->count + p.count) * size_of(options_.weights) > limit) {
          if (bucket != nullptr) limit = options_.bucket;
          bucket = &buckets_.emplace_back(Bucket{.last_unit = unit, .comm = comm});
        }
        bucket->first_unit = unit;
        bucket->count += p.count;
        const size_t first = first_[unit] + p.offset;
        if (bucket->pieces.empty() || bucket->pieces.back().first != first + p.count) {
          bucket->pieces.push_back({first, p.count});
        } else {
          bucket->pieces.back() = {first, bucket->pieces.back().count + p.count};
        }
      }
    }
  }

  /// Calls function(piece of the gradients, its place on the wire).
  template <class Function>
  void each_copy(const Bucket& bucket, Function function) {
    if (bucket.wire.empty()) return;
    size_t at = 0;
    for (const Piece& piece : bucket.pieces) {
      function(gradients_.span().part(piece.first, piece.count), bucket.wire.part(at, piece.count));
      at += piece.count;
    }
  }

  bool is_ready(const Bucket& bucket) const {
    for (size_t unit = bucket.first_unit; unit <= bucket.last_unit; ++unit) {
      if (!ready_[unit]) return false;
    }
    return true;
  }

  void launch(Bucket& bucket) {
    if (bucket.comm->absent()) return;
    each_copy(bucket, [&](Span gradients, Span wire) { device().convert(wire, gradients); });
    const Span data = bucket.wire.empty() ? gradients_.span().part(bucket.pieces[0].first, bucket.count) : bucket.wire;
    device().order_before(*stream_);
    stream_->launch([&bucket] { bucket.started = now(); });
    bucket.comm->carries({.bucket = static_cast<int>(&bucket - buckets_.data())});
    bucket.comm->all_reduce(Purpose::Gradients, data, Op::Avg, *stream_);
    stream_->launch([&bucket] { bucket.ended = now(); });
  }

  std::vector<Bucket> buckets_;  // in the order of launch
  size_t launched_ = 0;
  std::vector<bool> ready_;  // [unit]
  Buffer wire_;
  std::optional<Stream> stream_;  // none for a single replica. Destroyed, and so drained, before the memory it uses
  double waited_ = 0;
};

}  // namespace

std::unique_ptr<DataParallel> make_ddp(const DataParallelOptions& options, Ledger& ledger,
                                       const ReplicaGroups& groups) {
  return std::make_unique<Ddp>(options, ledger, groups);
}

}  // namespace tutti::train
