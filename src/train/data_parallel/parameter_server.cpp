// Parameter server: the contrast to DDP. Rank 0 alone optimizes: it receives every other rank's gradients, steps, and
// sends the new weights to every other rank.
//
// Per step the server receives (n−1) · Ψ elements and sends (n−1) · Ψ, where each of DDP's ranks sends and
// receives 2(n−1)/n · Ψ: its link is the bottleneck as n grows. Nothing overlaps with the backward pass.
// Source: Li et al., Scaling distributed machine learning with the parameter server, OSDI 2014.
#include "train/data_parallel/replicated.hpp"

namespace tutti::train {
namespace {

constexpr int kServer = 0;

class ParameterServer final : public Replicated {
 public:
  using Replicated::Replicated;

  void attach(std::span<UnitState> units) override {
    Replicated::attach(units);
    if (serves() && !group().absent())
      received_ = ledger_.allocate(Kind::Buffers, gradients_.count(), gradients_.span().type, true);
  }
  void gradients_ready(size_t /*unit*/, bool /*last*/) override {}

  void finish_backward() override {
    if (!serves()) return group().send(Purpose::Gradients, gradients_.span(), kServer);
    for (int peer = 1; peer < group().size(); ++peer) {
      group().recv(Purpose::Gradients, received_.span(), peer);
      device().add(gradients_.span(), received_.span());
    }
    device().scale(gradients_.span(), 1 / static_cast<float>(group().size()));
  }

  std::vector<StatePiece> state() override {
    std::vector<StatePiece> pieces = Replicated::state();
    for (StatePiece& piece : pieces) {  // there is no replica to share the work with
      piece.saved_first = piece.first;
      piece.saved_count = piece.count();
    }
    return pieces;
  }

  double square_sum() override { return group().sum(Purpose::Norm, serves() ? Replicated::square_sum() : 0); }

  void step(const AdamStep& step) override {
    if (!serves()) return group().recv(Purpose::Parameters, weights_.span(), kServer);
    Replicated::step(step);
    for (int peer = 1; peer < group().size(); ++peer) group().send(Purpose::Parameters, weights_.span(), peer);
  }

 protected:
  bool optimizes() const override { return serves(); }

 private:
  Collectives& group() const { return groups_.dense; }
  bool serves() const { return groups_.dense.rank() == kServer; }

  Buffer received_;
};

}  // namespace

std::unique_ptr<DataParallel> make_parameter_server(const DataParallelOptions& options, Ledger& ledger,
                                                    const ReplicaGroups& groups) {
  return std::make_unique<ParameterServer>(options, ledger, groups);
}

}  // namespace tutti::train
