#include <fmt/format.h>

#include "train/core/clock.hpp"
#include "tutti/train/pipeline.hpp"

namespace tutti::train {
namespace {

/// Receives of each direction that are posted before the schedule needs them.
constexpr size_t kEarly = 1;

}  // namespace

PipelineBoundary::PipelineBoundary(Collectives& pp, const PipelineShape& shape, Ledger& ledger, Counters& counters)
    : shape_(shape), ledger_(ledger), rank_(pp.rank()), channels_(4) {
  if (shape.ranks != pp.size() || shape.ranks < 2) {
    throw Error(Code::InvalidArgument,
                fmt::format("a pipeline of {} ranks was asked for on a pp axis of {}; it takes 2 or more", shape.ranks,
                            pp.size()));
  }
  connect(pp, counters);
}

/// Edge e leads from rank e to rank (e + 1) mod p; the last, back to rank 0, is for interleaved schedules. A rank takes
/// part in two edges. Those of one colour touch no rank twice, so one split makes all of them.
void PipelineBoundary::connect(Collectives& pp, Counters& counters) {
  const int p = shape_.ranks, edges = shape_.chunks > 1 ? p : p - 1;
  const auto colour_of = [&](int edge) { return p % 2 == 1 && edge == p - 1 ? 2 : edge % 2; };
  for (int colour = 0; colour < 3; ++colour) {
    int mine = TUTTI_NO_COLOUR;
    for (const int edge : {rank_, (rank_ + p - 1) % p}) {
      if (edge < edges && colour_of(edge) == colour) mine = edge;
    }
    const bool upper = mine == rank_;  // this rank is where the edge begins
    for (const Direction direction : {upper ? ForwardOut : ForwardIn, upper ? BackwardIn : BackwardOut}) {
      Communicator pair = pp.communicator().split(mine, upper ? 0 : 1);
      const bool forward = direction == ForwardIn || direction == ForwardOut;
      const char* const name = forward ? "activations" : "gradients";
      if (!pair.empty()) channels_[direction].comm = Collectives(std::move(pair), counters, name);
    }
  }
}

PipelineBoundary::~PipelineBoundary() {
  if (!running_) return;
  for (Channel& channel : channels_) {
    if (!channel.comm.absent()) tuttiCommAbort(channel.comm.communicator().handle());
  }
  for (Channel& channel : channels_) tuttiStreamSynchronize(channel.stream);  // it uses the messages' memory
}

void PipelineBoundary::start_step(const Schedule& schedule, const Model& units, std::span<const Chunk> chunks,
                                  std::span<const MicroBatch> batches) {
  running_ = true;
  last_wait_ended_ = 0;
  for (Channel& channel : channels_) {
    channel.order.clear();
    channel.posted = 0;
  }
  for (const Action& action : schedule) {
    const Chunk& chunk = chunks[static_cast<size_t>(action.chunk)];
    const size_t tokens = batches[static_cast<size_t>(action.micro_batch)].tokens_count();
    if (action.what == Action::What::Forward && has_before(action)) {
      channels_[ForwardIn].order.emplace_back(action, units[chunk.first]->input_count(tokens));
    }
    const bool backward = action.what == Action::What::Backward || action.what == Action::What::BackwardInput;
    if (backward && has_after(action)) {
      channels_[BackwardIn].order.emplace_back(action, units[chunk.last - 1]->output_count(tokens));
    }
  }
  post(ForwardIn);
}

void PipelineBoundary::post(Direction direction) {
  Channel& channel = channels_[direction];
  while (channel.posted < channel.order.size() && channel.messages.size() < kEarly) {
    const auto& [action, count] = channel.order[channel.posted++];
    Message message{std::make_shared<Buffer>(ledger_.allocate(Kind::Activations, count, DType::F32, true)), {}};
    ledger_.device().order_before(channel.stream);
    channel.comm.carries({.chunk = action.chunk, .micro_batch = action.micro_batch});
    channel.comm.recv(Purpose::PipelineAxis, message.tensor->span(), 1 - channel.comm.rank(), channel.stream);
    message.arrived.record(channel.stream);
    channel.messages.push_back(std::move(message));
  }
}

Tensor PipelineBoundary::receive(Direction direction) {
  Channel& channel = channels_[direction];
  post(direction);
  const double start = now();
  channel.messages.front().arrived.synchronize();
  last_wait_ended_ = now();
  channel.comm.waited(Purpose::PipelineAxis, start, last_wait_ended_);
  Tensor tensor = std::move(channel.messages.front().tensor);
  channel.messages.pop_front();
  post(direction);
  return tensor;
}

void PipelineBoundary::send(Direction direction, const Action& action, const Tensor& tensor) {
  Channel& channel = channels_[direction];
  while (!channel.messages.empty() && channel.messages.front().arrived.done()) channel.messages.pop_front();
  Message message{tensor, {}};
  ledger_.device().order_before(channel.stream);
  channel.comm.carries({.chunk = action.chunk, .micro_batch = action.micro_batch});
  channel.comm.send(Purpose::PipelineAxis, tensor->span(), 1 - channel.comm.rank(), channel.stream);
  message.arrived.record(channel.stream);
  channel.messages.push_back(std::move(message));
}

Tensor PipelineBoundary::receive_forward(const Action& action) {
  return has_before(action) ? receive(ForwardIn) : nullptr;
}

void PipelineBoundary::send_forward(const Action& action, const Tensor& y) {
  if (has_after(action)) send(ForwardOut, action, y);
}

Tensor PipelineBoundary::receive_backward(const Action& action) {
  return has_after(action) ? receive(BackwardIn) : nullptr;
}

void PipelineBoundary::send_backward(const Action& action, const Tensor& dx) {
  if (has_before(action)) send(BackwardOut, action, dx);
}

uint64_t PipelineBoundary::sent() const {
  uint64_t bytes = 0;
  for (const Channel& channel : channels_) bytes += channel.comm.sent();
  return bytes;
}

double PipelineBoundary::sent_by_formula() const {
  double bytes = 0;
  for (const Channel& channel : channels_) bytes += channel.comm.sent_by_formula();
  return bytes;
}

void PipelineBoundary::finish() {
  for (Channel& channel : channels_) {
    const double start = now();
    channel.stream.synchronize();
    channel.comm.waited(Purpose::PipelineAxis, start, now());
    channel.messages.clear();
  }
  running_ = false;
}

}  // namespace tutti::train
