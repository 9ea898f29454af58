#include "tutti/train/collectives.hpp"

#include <algorithm>

#include "train/core/clock.hpp"
#include "tutti/train/recorder.hpp"

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

Collectives::Collectives(Communicator comm, Counters& counters, const char* name)
    : comm_(std::move(comm)), counters_(&counters), name_(name), rank_(comm_->rank()), size_(comm_->size()) {}

Communicator& Collectives::communicator() {
  if (!comm_) throw Error(Code::InvalidUsage, "this axis of the mesh has one rank, and no communicator");
  return *comm_;
}

namespace {

/// What a call moves.
struct Moved {
  const char* collective;  // for traces
  Span data;               // the whole buffer that it divides among ranks, or the message
  double sent, received;   // bytes
};

}  // namespace

/// Counts one call, and tells the recorder of it; where it blocks, the time from here to the end of the scope is what
/// the rank waited.
class Collectives::Counted {
 public:
  Counted(Collectives& of, Purpose purpose, const Moved& moved, tuttiStream_t stream)
      : of_(of), count_((*of.counters_)[purpose]), stream_(stream), start_(stream == nullptr ? now() : 0) {
    ++count_.calls;
    count_.elements += moved.data.count;
    count_.sent += moved.sent;
    count_.received += moved.received;
    of.formula_ += moved.sent;
    if (!of.counters_->recorder) return;
    call_ = &of.counters_->recorder->begin({.collective = moved.collective,
                                            .communicator = of.name_,
                                            .ranks = of.size_,
                                            .purpose = purpose,
                                            .bytes = moved.data.bytes(),
                                            .algorithm = {},
                                            .cargo = {}},
                                           stream);
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() {
    if (stream_ == nullptr) count_.waited += now() - start_;
  }
  /// The call was made.
  void end() {
    if (call_ != nullptr) of_.counters_->recorder->end(*call_, stream_, *of_.comm_);
  }

 private:
  Collectives& of_;
  Count& count_;
  tuttiStream_t stream_;
  double start_;
  CallSpan* call_ = nullptr;
};

void Collectives::note_wait(Purpose purpose, double start, double end) const {
  counters_->recorder->waits.push_back({purpose, start, end});
}

void Collectives::note_cargo(const Cargo& cargo) const { counters_->recorder->next = cargo; }

void Collectives::all_reduce(Purpose purpose, Span data, Op op, tuttiStream_t stream) {
  if (absent()) return;
  const double bytes = 2 * others() * static_cast<double>(data.bytes());
  Counted counted(*this, purpose, {"all_reduce", data, bytes, bytes}, stream);
  check(
      tuttiAllReduce(data.data, data.data, data.count, type_of(data), static_cast<tuttiRedOp_t>(op), handle(), stream));
  counted.end();
}

void Collectives::all_gather(Purpose purpose, Span mine, Span all, tuttiStream_t stream) {
  if (absent()) return;
  const double bytes = others() * static_cast<double>(all.bytes());
  Counted counted(*this, purpose, {"all_gather", all, bytes, bytes}, stream);
  check(tuttiAllGather(mine.data, all.data, mine.count, type_of(mine), handle(), stream));
  counted.end();
}

void Collectives::reduce_scatter(Purpose purpose, Span all, Span mine, Op op, tuttiStream_t stream) {
  if (absent()) return;
  const double bytes = others() * static_cast<double>(all.bytes());
  Counted counted(*this, purpose, {"reduce_scatter", all, bytes, bytes}, stream);
  check(tuttiReduceScatter(all.data, mine.data, mine.count, type_of(all), static_cast<tuttiRedOp_t>(op), handle(),
                           stream));
  counted.end();
}

void Collectives::all_gather_v(Purpose purpose, Span mine, Span all, std::span<const size_t> counts,
                               tuttiStream_t stream) {
  if (absent()) return;
  if (even(counts)) return all_gather(purpose, mine, all, stream);
  // A ring: every block but the next rank's passes on from here, and every block but this rank's comes here.
  const size_t next = counts[static_cast<size_t>((rank_ + 1) % size_)];
  Counted counted(*this, purpose,
                  {"all_gather", all, static_cast<double>((all.count - next) * size_of(all.type)),
                   static_cast<double>((all.count - mine.count) * size_of(all.type))},
                  stream);
  check(tuttiAllGatherV(mine.data, mine.count, all.data, counts.data(), nullptr, type_of(all), handle(), stream));
  counted.end();
}

void Collectives::reduce_scatter_v(Purpose purpose, Span all, Span mine, std::span<const size_t> counts, Op op,
                                   tuttiStream_t stream) {
  if (absent()) return;
  if (even(counts)) return reduce_scatter(purpose, all, mine, op, stream);
  const size_t before = counts[static_cast<size_t>((rank_ + size_ - 1) % size_)];
  Counted counted(*this, purpose,
                  {"reduce_scatter", all, static_cast<double>((all.count - mine.count) * size_of(all.type)),
                   static_cast<double>((all.count - before) * size_of(all.type))},
                  stream);
  check(tuttiReduceScatterV(all.data, mine.data, counts.data(), type_of(all), static_cast<tuttiRedOp_t>(op), handle(),
                            stream));
  counted.end();
}

void Collectives::all_to_all(Purpose purpose, Span in, Span out, tuttiStream_t stream) {
  if (absent()) return;
  const double bytes = others() * static_cast<double>(in.bytes());
  Counted counted(*this, purpose, {"all_to_all", in, bytes, bytes}, stream);
  check(tuttiAllToAll(in.data, out.data, in.count / static_cast<size_t>(size_), type_of(in), handle(), stream));
  counted.end();
}

void Collectives::all_to_all_v(Purpose purpose, Span in, std::span<const size_t> in_counts, Span out,
                               std::span<const size_t> out_counts, tuttiStream_t stream) {
  if (absent()) return;
  const auto me = static_cast<size_t>(rank_);
  Counted counted(*this, purpose,
                  {"all_to_all", in, static_cast<double>((in.count - in_counts[me]) * size_of(in.type)),
                   static_cast<double>((out.count - out_counts[me]) * size_of(out.type))},
                  stream);
  check(tuttiAllToAllV(in.data, in_counts.data(), nullptr, out.data, out_counts.data(), nullptr, type_of(in), handle(),
                       stream));
  counted.end();
}

void Collectives::broadcast(Purpose purpose, Span data, int root, tuttiStream_t stream) {
  if (absent()) return;
  const auto bytes = static_cast<double>(data.bytes());
  const bool last = (rank_ + 1) % size_ == root;  // of the chain
  Counted counted(*this, purpose, {"broadcast", data, last ? 0 : bytes, rank_ == root ? 0 : bytes}, stream);
  check(tuttiBroadcast(data.data, data.data, data.count, type_of(data), root, handle(), stream));
  counted.end();
}

void Collectives::send(Purpose purpose, Span data, int peer, tuttiStream_t stream) {
  Counted counted(*this, purpose, {"send", data, static_cast<double>(data.bytes()), 0}, stream);
  check(tuttiSend(data.data, data.count, type_of(data), peer, handle(), stream));
  counted.end();
}

void Collectives::recv(Purpose purpose, Span data, int peer, tuttiStream_t stream) {
  Counted counted(*this, purpose, {"receive", data, 0, static_cast<double>(data.bytes())}, stream);
  check(tuttiRecv(data.data, data.count, type_of(data), peer, handle(), stream));
  counted.end();
}

void Collectives::send_and_recv(Purpose purpose, std::span<const std::pair<Span, Span>> pairs, int to, int from,
                                tuttiStream_t stream) {
  if (absent()) return;
  auto& recorder = counters_->recorder;
  const auto hears = std::exchange(recorder, nullptr);  // of one call, since all of them run together
  CallSpan* call = nullptr;
  if (hears) {
    size_t bytes = 0;
    for (const auto& [out, in] : pairs) bytes += out.bytes();
    call = &hears->begin({.collective = "send_receive",
                          .communicator = name_,
                          .ranks = size_,
                          .purpose = purpose,
                          .bytes = bytes,
                          .algorithm = {},
                          .cargo = {}},
                         stream);
  }
  Group group;
  for (const auto& [out, in] : pairs) {
    send(purpose, out, to, stream);
    recv(purpose, in, from, stream);
  }
  group.end();
  if (call != nullptr) hears->end(*call, stream, *comm_);
  recorder = hears;
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
