#include "train/data_parallel/replicated.hpp"

namespace tutti::train {

void Replicated::attach(std::span<UnitState> units) {
  units_ = units;
  size_t count = 0;
  for (const UnitState& unit : units) {
    first_.push_back(count);
    count += unit.layout->count();
  }
  weights_ = ledger_.allocate(Kind::Weights, count, options_.weights, true);
  gradients_ = ledger_.allocate(Kind::Gradients, count, options_.weights, true);
  device().zero(weights_.span().data, weights_.bytes());
  for (size_t i = 0; i < units.size(); ++i) {
    units[i].weights = weights_.span().part(first_[i], units[i].layout->count());
    units[i].gradients = gradients_.span().part(first_[i], units[i].layout->count());
  }
  if (optimizes()) adam_ = Adam(ledger_, weights_.span());
}

void Replicated::load(size_t unit, std::span<const float> values) {
  if (optimizes()) return adam_.load(device(), first_[unit], values, weights_.span());
  Buffer wide = ledger_.allocate(Kind::Buffers, values.size());
  device().upload(wide.f32(), values.data(), values.size_bytes());
  device().convert(units_[unit].weights, wide.span());
}

void Replicated::read(size_t unit, std::span<float> values) {
  if (optimizes()) return adam_.read(device(), first_[unit], values, weights_.span());
  Buffer wide = ledger_.allocate(Kind::Buffers, values.size());
  device().convert(wide.span(), units_[unit].weights);
  device().download(values.data(), wide.f32(), values.size_bytes());
}

void Replicated::broadcast_parameters() { broadcast(weights_.span()); }

void Replicated::broadcast(Span flat) {
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    for (const Parameter& p : units_[unit].layout->parameters()) {
      Collectives& comm = p.expert ? groups_.experts : groups_.dense;
      comm.broadcast(Purpose::Setup, flat.part(first_[unit] + p.offset, p.count), 0);
    }
  }
}

void Replicated::start_step() { device().zero(gradients_.span().data, gradients_.bytes()); }

double Replicated::square_sum() {
  double sum = 0;
  for (const UnitState& unit : units_)
    sum += train::square_sum(device(), *unit.layout, unit.gradients, groups_.tp_rank);
  return sum;
}

void Replicated::step(const AdamStep& step) { adam_.step(device(), step, weights_.span(), gradients_.span()); }

double square_sum(Device& device, const Layout& layout, Span gradients, int tp_rank) {
  double sum = 0;
  for (const Parameter& p : layout.parameters()) {
    if (tp_rank == 0 || p.sharded()) sum += device.sum_of_squares(gradients.part(p.offset, p.count));
  }
  return sum;
}

std::unique_ptr<DataParallel> make_data_parallel(const DataParallelOptions& options, Ledger& ledger,
                                                 const ReplicaGroups& groups) {
  switch (options.mode) {
    case DataParallelMode::Ddp:
      return make_ddp(options, ledger, groups);
    case DataParallelMode::ParameterServer:
      return make_parameter_server(options, ledger, groups);
  }
  throw Error(Code::InvalidArgument, "there is no such mode of data parallelism");
}

}  // namespace tutti::train
