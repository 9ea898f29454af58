#include "tools/tune/gpus.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <cstdio>
#include <map>
#include <span>
#include <utility>

#include "base/format.hpp"
#include "capi/handles.hpp"
#include "comm/backend_calls.hpp"
#include "tools/output_file.hpp"
#include "tools/tune/timing.hpp"

namespace tutti::tools {
namespace {

constexpr Rank kMaxRanksOfAllPairs = 8;  // with more ranks, only pairs with rank 0 are measured

const comm::BackendCalls& on_gpus(Communicator& comm) {
  const auto made = capi::communicator_of(comm.handle());
  const comm::BackendCalls* const on = made->on("cuda");
  if (on != nullptr && on->refused().empty()) return *on;
  throw_error(Code::Unsupported, "calls on memory of GPUs are refused here: {}",
              on != nullptr ? on->refused() : "the module cuda is not installed (`tutti info` says why)");
}

PerfRow row_of(Collective collective, uint64_t block, int ranks) {
  const size_t count = block / sizeof(float);
  return {.count = count, .bytes = count * sizeof(float) * blocks_of(collective, ranks)};
}

double time_of_row(Communicator& comm, RankBench& bench, const PerfRow& row) {
  bench.prepare(row);
  return time_of(comm, [&](uint64_t calls) { bench.run(row, static_cast<int>(std::min<uint64_t>(calls, INT_MAX))); });
}

/// What the first rank of a pair tells all.
struct PairResult {
  std::array<char, 64> kind;  // of the path
  double alpha, beta;
};

/// Two ranks exchange blocks: an all-gather of two ranks is one message each way at the same time. (Sends and receives
/// are compiled at every call, which takes longer than the message.)
PairResult measure_pair(Communicator& pair, uint64_t largest) {
  constexpr uint64_t kEmpty = sizeof(float), kLong = 8 << 20, kLeast = 64 << 10;
  const uint64_t bytes = std::clamp(largest, kLeast, kLong);
  const PerfOptions options{.collective = Collective::AllGather, .device = true};
  const PerfRow small = row_of(Collective::AllGather, kEmpty, 2), large = row_of(Collective::AllGather, bytes, 2);
  RankBench bench(pair, options, {large});
  const double alpha = time_of_row(pair, bench, small), whole = time_of_row(pair, bench, large);
  PairResult result{.kind = {}, .alpha = alpha, .beta = std::max(1e-13, (whole - alpha) / static_cast<double>(bytes))};
  std::snprintf(result.kind.data(), result.kind.size(), "%s", on_gpus(pair).notes().over.c_str());
  return result;
}

std::vector<std::pair<Rank, Rank>> pairs_of(Rank ranks) {
  std::vector<std::pair<Rank, Rank>> pairs;
  for (Rank a = 0; a < ranks; ++a) {
    for (Rank b = a + 1; b < ranks && (a == 0 || ranks <= kMaxRanksOfAllPairs); ++b) pairs.emplace_back(a, b);
  }
  return pairs;
}

}  // namespace

void measure_gpu_links(Communicator& comm, const std::string& results, uint64_t largest) {
  const comm::BackendCalls& gpus = on_gpus(comm);
  std::map<std::string, select::MeasuredLink> slowest;
  for (const auto& [a, b] : pairs_of(comm.size())) {
    const bool mine = comm.rank() == a || comm.rank() == b;
    Communicator pair = comm.split(mine ? 0 : TUTTI_NO_COLOUR, comm.rank());
    PairResult result{};
    if (mine) result = measure_pair(pair, largest);
    comm.broadcast(std::span<char>(reinterpret_cast<char*>(&result), sizeof result), a);
    result.kind.back() = 0;
    if (result.kind.front() == 0) continue;  // the topology does not have these GPUs
    select::MeasuredLink& link = slowest[result.kind.data()];
    link = {std::max(link.alpha, result.alpha), std::max(link.beta, result.beta)};
  }
  if (comm.rank() != 0) return;
  OutputFile file("", results, true);
  for (const auto& [kind, link] : slowest) file.write(line_of("gpu_link", kind, link));
  file.write(line_of(gpus.processors(), gpus.inputs().situation));
}

void list_candidates(Communicator& comm, const std::string& results, const Sizes& sizes, double within) {
  if (comm.rank() != 0) return;
  OutputFile file("", results, true);
  for (const Cell& cell : cells_of(on_gpus(comm).inputs(), sizes, within)) file.write(line_of({{"cell", cell}}));
}

GpuBench::GpuBench(Communicator& comm, const std::vector<Cell>& cells)
    : comm_(comm), options_(std::make_unique<PerfOptions>(PerfOptions{.device = true})) {
  std::vector<PerfRow> rows;
  for (const Cell& cell : cells) rows.push_back(row_of(cell.collective, cell.bytes, comm.size()));
  bench_ = std::make_unique<RankBench>(comm, *options_, rows);
}

double GpuBench::measure(const Cell& cell) {
  options_->collective = cell.collective;
  return time_of_row(comm_, *bench_, row_of(cell.collective, cell.bytes, comm_.size()));
}

}  // namespace tutti::tools
