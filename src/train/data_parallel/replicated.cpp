#include "train/data_parallel/replicated.hpp"

#include <fmt/format.h>

#include "train/data_parallel/partition.hpp"

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
    sum += train::square_sum(device(), *unit.layout, unit.gradients, groups_.tp_rank, groups_.ep_rank);
  return sum;
}

void Replicated::step(const AdamStep& step) { adam_.step(device(), step, weights_.span(), gradients_.span()); }

std::vector<StatePiece> Replicated::state() {
  std::vector<StatePiece> pieces;
  if (!optimizes()) return pieces;
  const Span master = adam_.master().empty() ? weights_.span() : adam_.master();
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    for (const Run& run : runs_of(unit, *units_[unit].layout, groups_)) {
      const auto part = [&](Span all) { return all.part(first_[unit] + run.first, run.count); };
      pieces.push_back({.unit = unit,
                        .first = run.first,
                        .master = part(master),
                        .moment1 = part(adam_.moment1()),
                        .moment2 = part(adam_.moment2()),
                        .saved_first = run.piece_first,
                        .saved_count = run.piece_count()});
    }
  }
  return pieces;
}

void Replicated::state_replaced() {
  if (optimizes() && !adam_.master().empty()) device().convert(weights_.span(), adam_.master());
  broadcast_parameters();
}

double square_sum(Device& device, const Layout& layout, Span gradients, int tp_rank, int ep_rank) {
  double sum = 0;
  for (const Parameter& p : layout.parameters()) {
    const bool counts = (tp_rank == 0 || p.sharded()) && (ep_rank == 0 || p.expert);
    if (counts) sum += device.sum_of_squares(gradients.part(p.offset, p.count));
  }
  return sum;
}

std::string objection(const DataParallelOptions& options, bool spread) {
  const auto known = [](DType type) { return type == DType::F32 || type == DType::BF16; };
  if (!known(options.weights) || !known(options.communication)) {
    return fmt::format("weights are {} and gradients on the wire {}: both are f32 or bf16", name_of(options.weights),
                       name_of(options.communication));
  }
  const bool zero = options.mode >= DataParallelMode::Zero1;
  if (zero && size_of(options.communication) < size_of(options.weights)) {
    return "ZeRO sends gradients as it holds them: for bf16 on the wire, choose bf16 weights, or DDP";
  }
  if (options.mode == DataParallelMode::ParameterServer && spread) {
    return "the parameter server knows no expert parallelism: leave out ep, or use DDP";
  }
  return "";
}

std::unique_ptr<DataParallel> make_data_parallel(const DataParallelOptions& options, Ledger& ledger,
                                                 const ReplicaGroups& groups) {
  const std::string wrong = objection(options, groups.experts.size() != groups.dense.size());
  if (!wrong.empty()) throw Error(Code::InvalidArgument, wrong);
  switch (options.mode) {
    case DataParallelMode::Ddp:
      return make_ddp(options, ledger, groups);
    case DataParallelMode::ParameterServer:
      return make_parameter_server(options, ledger, groups);
    case DataParallelMode::Zero1:
    case DataParallelMode::Zero2:
    case DataParallelMode::Zero3:
      if (groups.dense.absent()) return make_ddp(options, ledger, groups);  // nobody to share with: nothing is sharded
      return make_zero(options, ledger, groups);
  }
  throw Error(Code::InvalidArgument, "there is no such mode of data parallelism");
}

}  // namespace tutti::train
