#include "train/data_parallel/partition.hpp"

namespace tutti::train {
namespace {

void cut(Run& run) {
  const auto ranks = static_cast<size_t>(run.comm->size());
  run.piece_first = run.first;
  for (size_t rank = 0; rank < ranks; ++rank) {
    run.counts.push_back(run.count / ranks + (rank < run.count % ranks ? 1 : 0));
    if (rank < static_cast<size_t>(run.comm->rank())) run.piece_first += run.counts[rank];
  }
}

}  // namespace

std::vector<Run> runs_of(size_t unit, const Layout& layout, const ReplicaGroups& groups) {
  std::vector<Run> runs;
  for (const Parameter& p : layout.parameters()) {
    Collectives* const comm = p.expert ? &groups.experts : &groups.dense;
    if (runs.empty() || runs.back().comm != comm) runs.push_back({.unit = unit, .first = p.offset, .comm = comm});
    runs.back().count += p.count;
  }
  for (Run& run : runs) cut(run);
  return runs;
}

void gather(Device& device, const Run& run, Purpose purpose, Span piece, Span all, Stream& stream) {
  if (!run.comm->absent()) {
    device.order_before(stream);
    run.comm->all_gather_v(purpose, piece, all, run.counts, stream);
  } else if (piece.data != all.data) {
    device.copy(all.data, piece.data, piece.bytes());
  }
}

}  // namespace tutti::train
