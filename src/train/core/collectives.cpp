#include "tutti/train/collectives.hpp"

#include <algorithm>

#include "train/core/clock.hpp"

namespace tutti::train {
namespace {

tuttiDataType_t type_of(Span span) { return static_cast<tuttiDataType_t>(span.type); }

/// Equal pieces: the calls for these have faster algorithms than those for any pieces.
bool even(std::span<const size_t> counts) {
  return std::all_of(counts.begin(), counts.end(), [&](size_t count) { return count == counts[0]; });
}

}  // namespace

const char* name_of(Purpose purpose) {
  constexpr const char* kNames[kPurposes] = {"setup",  "gradients", "parameters", "norm",   "loss",
                                             "tensor", "sequence",  "context",    "expert", "pipeline"};
  return kNames[static_cast<size_t>(purpose)];
}

Collectives::Collectives(Communicator comm, Counters& counters)
    : comm_(std::move(comm)), counters_(&counters), rank_(comm_->rank()), size_(comm_->size()) {}

Communicator& Collectives::communicator() {
  if (!comm_) throw Error(Code::InvalidUsage, "this axis of the mesh has one rank, and no communicator");
  return *comm_;
}

/// Counts one call; where it blocks, the time from here to the end of the scope is what the rank waited.
class Collectives::Counted {
 public:
  Counted(Collectives& of, Purpose purpose, size_t elements, double sent, double received, tuttiStream_t stream)
      : count_((*of.counters_)[purpose]), blocks_(stream == nullptr), start_(blocks_ ? now() : 0) {
    ++count_.calls;
    count_.elements += elements;
    count_.sent += sent;
    count_.received += received;
    of.formula_ += sent;
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() {
    if (blocks_) count_.waited += now() - start_;
  }

 private:
  Count& count_;
  bool blocks_;
  double start_;
};

void Collectives::all_reduce(Purpose purpose, Span data, Op op, tuttiStream_t stream) {
  if (absent()) return;
  const double bytes = 2 * others() * static_cast<double>(data.bytes());
  const Counted counted(*this, purpose, data.count, bytes, bytes, stream);
  check(
      tuttiAllReduce(data.data, data.data, data.count, type_of(data), static_cast<tuttiRedOp_t>(op), handle(), stream));
}

void Collectives::all_gather(Purpose purpose, Span mine, Span all, tuttiStream_t stream) {
  if (absent()) return;
  const double bytes = others() * static_cast<double>(all.bytes());
  const Counted counted(*this, purpose, all.count, bytes, bytes, stream);
  check(tuttiAllGather(mine.data, all.data, mine.count, type_of(mine), handle(), stream));
}

void Collectives::reduce_scatter(Purpose purpose, Span all, Span mine, Op op, tuttiStream_t stream) {
  if (absent()) return;
  const double bytes = others() * static_cast<double>(all.bytes());
  const Counted counted(*this, purpose, all.count, bytes, bytes, stream);
  check(tuttiReduceScatter(all.data, mine.data, mine.count, type_of(all), static_cast<tuttiRedOp_t>(op), handle(),
                           stream));
}

void Collectives::all_gather_v(Purpose purpose, Span mine, Span all, std::span<const size_t> counts,
                               tuttiStream_t stream) {
  if (absent()) return;
  if (even(counts)) return all_gather(purpose, mine, all, stream);
  // A ring: every block but the next rank's passes on from here, and every block but this rank's comes here.
  const size_t next = counts[static_cast<size_t>((rank_ + 1) % size_)];
  const Counted counted(*this, purpose, all.count, static_cast<double>((all.count - next) * size_of(all.type)),
                        static_cast<double>((all.count - mine.count) * size_of(all.type)), stream);
  check(tuttiAllGatherV(mine.data, mine.count, all.data, counts.data(), nullptr, type_of(all), handle(), stream));
}

void Collectives::reduce_scatter_v(Purpose purpose, Span all, Span mine, std::span<const size_t> counts, Op op,
                                   tuttiStream_t stream) {
  if (absent()) return;
  if (even(counts)) return reduce_scatter(purpose, all, mine, op, stream);
  const size_t before = counts[static_cast<size_t>((rank_ + size_ - 1) % size_)];
  const Counted counted(*this, purpose, all.count, static_cast<double>((all.count - mine.count) * size_of(all.type)),
                        static_cast<double>((all.count - before) * size_of(all.type)), stream);
  check(tuttiReduceScatterV(all.data, mine.data, counts.data(), type_of(all), static_cast<tuttiRedOp_t>(op), handle(),
                            stream));
}

void Collectives::all_to_all(Purpose purpose, Span in, Span out, tuttiStream_t stream) {
  if (absent()) return;
  const double bytes = others() * static_cast<double>(in.bytes());
  const Counted counted(*this, purpose, in.count, bytes, bytes, stream);
  check(tuttiAllToAll(in.data, out.data, in.count / static_cast<size_t>(size_), type_of(in), handle(), stream));
}

void Collectives::all_to_all_v(Purpose purpose, Span in, std::span<const size_t> in_counts, Span out,
                               std::span<const size_t> out_counts, tuttiStream_t stream) {
  if (absent()) return;
  const auto me = static_cast<size_t>(rank_);
  const Counted counted(*this, purpose, in.count, static_cast<double>((in.count - in_counts[me]) * size_of(in.type)),
                        static_cast<double>((out.count - out_counts[me]) * size_of(out.type)), stream);
  check(tuttiAllToAllV(in.data, in_counts.data(), nullptr, out.data, out_counts.data(), nullptr, type_of(in), handle(),
                       stream));
}

void Collectives::broadcast(Purpose purpose, Span data, int root, tuttiStream_t stream) {
  if (absent()) return;
  const auto bytes = static_cast<double>(data.bytes());
  const bool last = (rank_ + 1) % size_ == root;  // of the chain
  const Counted counted(*this, purpose, data.count, last ? 0 : bytes, rank_ == root ? 0 : bytes, stream);
  check(tuttiBroadcast(data.data, data.data, data.count, type_of(data), root, handle(), stream));
}

void Collectives::send(Purpose purpose, Span data, int peer, tuttiStream_t stream) {
  const Counted counted(*this, purpose, data.count, static_cast<double>(data.bytes()), 0, stream);
  check(tuttiSend(data.data, data.count, type_of(data), peer, handle(), stream));
}

void Collectives::recv(Purpose purpose, Span data, int peer, tuttiStream_t stream) {
  const Counted counted(*this, purpose, data.count, 0, static_cast<double>(data.bytes()), stream);
  check(tuttiRecv(data.data, data.count, type_of(data), peer, handle(), stream));
}

double Collectives::sum(Purpose purpose, double value) {
  all_reduce(purpose, {&value, 1, DType::F64}, Op::Sum);
  return value;
}

double Counters::waited() const {
  double sum = 0;
  for (const Count& count : counts_) sum += count.waited;
  return sum;
}

}  // namespace tutti::train
