// Distributed data parallel: every rank holds the whole model and averages gradients by all-reduce, bucket by bucket,
// while the backward pass is still computing the gradients of earlier units.
//
// Gradients become ready in the reverse order of use. They are cut in that order into buckets: contiguous spans of the
// flat gradients, at most 25 MiB (the first 1 MiB, so that the wire is busy early), at parameters' borders. A bucket is
// launched on its own stream when all units that it touches are ready and all buckets before it are launched: so all
// ranks launch the same calls in the same order, also where a rank did not use a unit.
//
// Per step and rank: 2(n−1)/n · Ψ elements sent; 16Ψ bytes held, 2Ψ more for bf16 buckets of f32 gradients.
// Source: Li et al., PyTorch Distributed, VLDB 2020, §3.2 and §4.2.

#include "train/core/clock.hpp"
#include "train/data_parallel/replicated.hpp"

namespace tutti::train {
namespace {

struct Bucket {
  size_t first = 0, count = 0;           // elements of the flat gradients
  size_t first_unit = 0, last_unit = 0;  // that it touches, both included
  Collectives* comm = nullptr;
  Span wire;                      // of the communication's type; empty: the gradients themselves
  double started = 0, ended = 0;  // written by the stream
};

class Ddp final : public Replicated {
 public:
  using Replicated::Replicated;

  void attach(std::span<UnitState> units) override {
    Replicated::attach(units);
    cut();
    const bool narrow = size_of(options_.communication) < size_of(options_.weights);
    if (!narrow || groups_.dense.absent()) return;
    wire_ = ledger_.allocate(Kind::Buffers, gradients_.count(), options_.communication, true);
    for (Bucket& bucket : buckets_) bucket.wire = wire_.span().part(bucket.first, bucket.count);
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
    if (!last) return;
    ready_[unit] = true;
    while (launched_ < buckets_.size() && is_ready(buckets_[launched_])) launch(buckets_[launched_++]);
  }

  void finish_backward() override {
    while (launched_ < buckets_.size()) launch(buckets_[launched_++]);
    const double start = now();
    stream_.synchronize();
    waited_ = now() - start;
    groups_.dense.waited(Purpose::Gradients, waited_);
    for (const Bucket& bucket : buckets_) {
      if (!bucket.wire.empty()) device().convert(gradients_.span().part(bucket.first, bucket.count), bucket.wire);
    }
  }

  Overlap overlap() const override {
    double busy = 0;
    for (const Bucket& bucket : buckets_) busy += bucket.ended - bucket.started;
    return {busy, waited_};
  }

 private:
  void cut() {
    size_t limit = options_.first_bucket;
    for (size_t unit = units_.size(); unit-- > 0;) {
      const auto parameters = units_[unit].layout->parameters();
      for (size_t i = parameters.size(); i-- > 0;) {
        const Parameter& p = parameters[i];
        Collectives* const comm = p.expert ? &groups_.experts : &groups_.dense;
        const bool fits = !buckets_.empty() && buckets_.back().comm == comm &&
                          (buckets_.back().count + p.count) * size_of(options_.weights) <= limit;
        if (!fits) {
          if (!buckets_.empty()) limit = options_.bucket;
          buckets_.push_back({.first_unit = unit, .last_unit = unit, .comm = comm});
        }
        Bucket& bucket = buckets_.back();
        bucket.first = first_[unit] + p.offset;
        bucket.count += p.count;
        bucket.first_unit = unit;
      }
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
    Span data = gradients_.span().part(bucket.first, bucket.count);
    if (!bucket.wire.empty()) {
      device().convert(bucket.wire, data);
      data = bucket.wire;
    }
    device().order_before(stream_);
    stream_.launch([&bucket] { bucket.started = now(); });
    bucket.comm->all_reduce(Purpose::Gradients, data, Op::Avg, stream_);
    stream_.launch([&bucket] { bucket.ended = now(); });
  }

  std::vector<Bucket> buckets_;  // in the order of launch
  size_t launched_ = 0;
  std::vector<bool> ready_;  // [unit]
  Buffer wire_;
  Stream stream_;  // destroyed, and so drained, before the memory it uses
  double waited_ = 0;
};

}  // namespace

std::unique_ptr<DataParallel> make_ddp(const DataParallelOptions& options, Ledger& ledger,
                                       const ReplicaGroups& groups) {
  return std::make_unique<Ddp>(options, ledger, groups);
}

}  // namespace tutti::train
