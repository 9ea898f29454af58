#include "tools/perf/bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <string_view>

#include "base/status.hpp"

namespace tutti::tools {
namespace {

/// The operator of a row on this rank: built-in, or made with the rank's scalar.
class RowOp {
 public:
  RowOp(Communicator& comm, const PerfRow& row, uint64_t scalar) : comm_(comm.handle()) {
    if (row.op == Op::PreMulSum) {
      check(tuttiRedOpCreatePreMulSum(&op_, &scalar, static_cast<tuttiDataType_t>(row.type), comm_));
      made_ = true;
    } else {
      op_ = static_cast<tuttiRedOp_t>(row.op);
    }
  }
  ~RowOp() {
    if (made_) tuttiRedOpDestroy(op_, comm_);
  }
  RowOp(const RowOp&) = delete;
  RowOp& operator=(const RowOp&) = delete;
  tuttiRedOp_t get() const { return op_; }

 private:
  tuttiComm_t comm_;
  tuttiRedOp_t op_ = tuttiSum;
  bool made_ = false;
};

/// A rank's results of a row, sent to the others.
struct RankResult {
  double seconds;
  uint64_t wrong;
  tuttiCallInfo how;
};

/// Adds those words of "a+b" that another such list lacks.
void add_words(std::string& list, std::string_view more) {
  while (!more.empty()) {
    const std::string_view word = more.substr(0, more.find('+'));
    more.remove_prefix(std::min(more.size(), word.size() + 1));
    if (word == "none" || ("+" + list + "+").find(fmt::format("+{}+", word)) != std::string::npos) continue;
    list += fmt::format("{}{}", list.empty() ? "" : "+", word);
  }
}

}  // namespace

RankBench::RankBench(Communicator& comm, const PerfOptions& options, const std::vector<PerfRow>& rows)
    : comm_(comm), options_(options), rank_(comm.rank()), ranks_(comm.size()) {
  size_t most = 0;
  for (const PerfRow& row : rows) most = std::max(most, row.bytes);
  const auto kind = options.mapped ? GuardedBuffer::Kind::Mapped : GuardedBuffer::Kind::Plain;
  first_.emplace(most, kind);
  second_.emplace(most, kind);
  if (!options.blocking) stream_.emplace();
  if (!options.device) return;
  gpu_.emplace();
  first_there_ = static_cast<std::byte*>(gpu_->allocate(most + 2 * GuardedBuffer::kGuard));
  second_there_ = static_cast<std::byte*>(gpu_->allocate(most + 2 * GuardedBuffer::kGuard));
  comm_.barrier();  // an allocation may wait for kernels of the process, and they for this rank
  if (!options.mapped) return;
  for (const std::byte* const buffer : {first_there_, second_there_}) {
    registered_.emplace_back(comm_.handle(), buffer, most + 2 * GuardedBuffer::kGuard);
  }
}

std::byte* RankBench::address(const Place& place) const {
  if (!gpu_ || place.buffer == nullptr) return place.data();
  return (place.buffer == &*first_ ? first_there_ : second_there_) + GuardedBuffer::kGuard + place.offset;
}

void RankBench::upload() {
  if (!gpu_) return;
  gpu_->upload(first_there_, first_->whole(), first_->whole_size());
  gpu_->upload(second_there_, second_->whole(), second_->whole_size());
}

void RankBench::download() {
  if (!gpu_) return;
  gpu_->download(first_->whole(), first_there_, first_->whole_size());
  gpu_->download(second_->whole(), second_there_, second_->whole_size());
}

tuttiStream_t RankBench::stream() const {
  if (gpu_) return static_cast<tuttiStream_t>(gpu_->stream());
  return stream_ ? static_cast<tuttiStream_t>(*stream_) : nullptr;
}

/// Waits for the calls on the stream. What fails on a GPU is known by the communicator, not by the stream.
void RankBench::synchronize() {
  if (stream_) stream_->synchronize();
  if (!gpu_) return;
  gpu_->synchronize();
  tuttiResult_t result = tuttiSuccess;
  check(tuttiCommGetAsyncError(comm_.handle(), &result));
  if (result != tuttiSuccess) throw Error(static_cast<Code>(result), tuttiCommGetErrorText(comm_.handle()));
}

CallShape RankBench::shape_of(const PerfRow& row) const {
  return {options_.collective, row.type, row.op, ranks_, row.root, row.count};
}

/// Arms the buffers for a call and fills its input. In place, the smaller of input and output is a part of the other.
void RankBench::place_buffers(const PerfRow& row, Pattern& pattern, bool in_place) {
  const size_t unit = size_of(row.type), block = row.count * unit;
  const bool root_only_in = options_.collective == Collective::Broadcast || options_.collective == Collective::Scatter;
  const bool root_only_out = options_.collective == Collective::Reduce || options_.collective == Collective::Gather;
  const bool has_in = !root_only_in || rank_ == row.root, has_out = !root_only_out || rank_ == row.root;
  in_ = {has_in ? &*first_ : nullptr, 0, pattern.input_count(rank_) * unit};
  out_ = {has_out ? &*second_ : nullptr, 0, pattern.output_count(rank_) * unit};
  if (in_place && !has_in) in_ = out_;  // broadcast: every rank passes its only buffer
  if (in_place && has_in && has_out) {
    out_.buffer = in_.buffer;
    const size_t mine = static_cast<size_t>(rank_) * block;
    if (in_.bytes < out_.bytes) in_.offset = mine;
    if (in_.bytes > out_.bytes) out_.offset = mine;
  }
  first_->arm(in_.buffer == &*first_ ? std::max(in_.bytes, out_.buffer == in_.buffer ? out_.bytes : 0) : 0);
  second_->arm(out_.buffer == &*second_ ? out_.bytes : 0);
  if (has_in) pattern.fill_input(rank_, in_.data());
}

void RankBench::prepare(const PerfRow& row) {
  Pattern pattern(shape_of(row), seed_);
  place_buffers(row, pattern, false);
  upload();
}

void RankBench::run(const PerfRow& row, int calls) {
  run_calls(row, static_cast<tuttiRedOp_t>(row.op), calls);
  synchronize();
}

Measurement RankBench::measure(const PerfRow& row, bool in_place) {
  Pattern pattern(shape_of(row), seed_);
  place_buffers(row, pattern, in_place);
  // In place each call's output is the next call's input: only zeros stay unchanged, and never become subnormal.
  if (in_place && in_.buffer != nullptr) std::memset(in_.buffer->data(), 0, in_.buffer->size());
  upload();
  RankResult mine{};
  mine.seconds = time_calls(row, RowOp(comm_, row, pattern.scalar(rank_)).get(), mine.how);
  for (int i = 0; i < options_.checks; ++i) mine.wrong += check_once(row, in_place, ++seed_);

  std::vector<RankResult> all(static_cast<size_t>(ranks_));
  check(tuttiAllGather(&mine, all.data(), sizeof mine, tuttiUint8, comm_.handle(), nullptr));
  Measurement together;
  std::vector<double> times;
  for (const RankResult& one : all) {
    times.push_back(one.seconds);
    together.wrong += one.wrong;
    add_words(together.algorithm, one.how.algorithm);
    add_words(together.method, one.how.method);
    add_words(together.transport, one.how.transport);
    add_words(together.delivery, one.how.delivery);
  }
  together.window = all.front().how.window;
  together.width = all.front().how.width;
  together.model = all.front().how.model;
  for (std::string* const words : {&together.algorithm, &together.method, &together.transport, &together.delivery}) {
    if (words->empty()) *words = "none";
  }
  together.seconds = time_of_all(times);
  return together;
}

double RankBench::time_of_all(const std::vector<double>& times) const {
  switch (options_.time_of) {
    case TimeOf::Rank0:
      return times[0];
    case TimeOf::Average:
      return std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
    case TimeOf::Fastest:
      return *std::min_element(times.begin(), times.end());
    case TimeOf::Slowest:
      break;
  }
  return *std::max_element(times.begin(), times.end());
}

/// Seconds per call, averaged over the iterations, as this rank measures it: of calls, or of captured ones, replayed.
/// `how`: what the last of them was.
double RankBench::time_calls(const PerfRow& row, tuttiRedOp_t op, tuttiCallInfo& how) {
  run_calls(row, op, options_.warmup);
  synchronize();
  if (options_.graphs > 0) {
    gpu_->capture([&] { run_calls(row, op, options_.iterations); });
    how = comm_.last_call();
  }
  comm_.barrier();  // after the graph is made, which may wait for kernels as well
  const auto start = std::chrono::steady_clock::now();
  options_.graphs > 0 ? gpu_->replay(options_.graphs) : run_calls(row, op, options_.iterations);
  synchronize();
  if (options_.graphs == 0) how = comm_.last_call();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  if (options_.iterations == 0) return 0;
  return elapsed.count() / std::max(1, options_.graphs) / options_.iterations / options_.aggregate;
}

void RankBench::run_calls(const PerfRow& row, tuttiRedOp_t op, int calls) {
  for (int i = 0; i < calls; ++i) {
    if (options_.aggregate > 1) check(tuttiGroupStart());
    for (int k = 0; k < options_.aggregate; ++k) call(row, op);
    if (options_.aggregate > 1) check(tuttiGroupEnd());
  }
}

uint64_t RankBench::check_once(const PerfRow& row, bool in_place, uint64_t seed) {
  Pattern pattern(shape_of(row), seed);
  place_buffers(row, pattern, in_place);
  const RowOp op(comm_, row, pattern.scalar(rank_));
  upload();
  if (options_.graphs > 0) {
    gpu_->capture([&] { call(row, op.get()); });
    comm_.barrier();
    gpu_->replay(in_place ? 1 : options_.graphs);  // in place each call's output is the next one's input
  } else {
    call(row, op.get());
  }
  synchronize();
  download();
  return count_wrong(pattern, row, in_place);
}

uint64_t RankBench::count_wrong(Pattern& pattern, const PerfRow& row, bool in_place) {
  const auto complain = [&](const char* what, const Verdict& verdict, size_t count) {
    if (verdict.wrong == 0) return;
    fmt::print(stderr,
               "tutti perf: rank {}: {} of {} {}, {}: {} of {} elements {}; the first, [{}], is {} and must be {}\n",
               rank_, name_of(options_.collective), row.count, name_of(row.type),
               in_place ? "in place" : "out of place", verdict.wrong, count, what, verdict.first,
               element_text(verdict.got, row.type), element_text(verdict.expected, row.type));
  };
  Verdict output, input;
  if (out_.buffer != nullptr) output = pattern.check_output(rank_, out_.data());
  complain("of the output are wrong", output, pattern.output_count(rank_));
  const bool alone = in_.buffer != nullptr && in_.buffer != out_.buffer;
  if (alone) input = pattern.check_input(rank_, in_.data());
  complain("of the input were changed", input, pattern.input_count(rank_));
  const size_t beside = first_->damaged() + second_->damaged();
  if (beside > 0) {
    fmt::print(stderr, "tutti perf: rank {}: {} of {} {}: {} bytes beside the buffers were overwritten\n", rank_,
               name_of(options_.collective), row.count, name_of(row.type), beside);
  }
  return output.wrong + input.wrong + beside;
}

void RankBench::call(const PerfRow& row, tuttiRedOp_t op) {
  const tuttiStream_t stream = this->stream();
  const void* const in = address(in_);
  void* const out = address(out_);
  const auto type = static_cast<tuttiDataType_t>(row.type);
  tuttiComm_t const comm = comm_.handle();
  switch (options_.collective) {
    case Collective::AllReduce:
      return check(tuttiAllReduce(in, out, row.count, type, op, comm, stream));
    case Collective::Reduce:
      return check(tuttiReduce(in, out, row.count, type, op, row.root, comm, stream));
    case Collective::Broadcast:
      return check(tuttiBroadcast(in, out, row.count, type, row.root, comm, stream));
    case Collective::AllGather:
      return check(tuttiAllGather(in, out, row.count, type, comm, stream));
    case Collective::ReduceScatter:
      return check(tuttiReduceScatter(in, out, row.count, type, op, comm, stream));
    case Collective::AllToAll:
      return check(tuttiAllToAll(in, out, row.count, type, comm, stream));
    case Collective::Gather:
      return check(tuttiGather(in, out, row.count, type, row.root, comm, stream));
    case Collective::Scatter:
      return check(tuttiScatter(in, out, row.count, type, row.root, comm, stream));
    case Collective::Barrier:
      return check(tuttiBarrier(comm, stream));
    case Collective::SendRecv:
      return exchange(row);
  }
}

/// Each rank sends to the next and receives from the previous one.
void RankBench::exchange(const PerfRow& row) {
  const tuttiStream_t stream = this->stream();
  const auto type = static_cast<tuttiDataType_t>(row.type);
  Group group;
  check(tuttiSend(address(in_), row.count, type, (rank_ + 1) % ranks_, comm_.handle(), stream));
  check(tuttiRecv(address(out_), row.count, type, (rank_ + ranks_ - 1) % ranks_, comm_.handle(), stream));
  group.end();
}

}  // namespace tutti::tools
