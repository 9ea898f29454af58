#include <fmt/format.h>

#include "tutti/train/timeline.hpp"

namespace tutti::train {
namespace {

constexpr const char* kThreads[] = {"computes", "sends activations", "sends gradients", "receives activations",
                                    "receives gradients"};

/// A complete event ("X"): process = rank, thread = one of the above, microseconds.
std::string event(size_t rank, int thread, const std::string& name, double start, double end, const std::string& more) {
  return fmt::format(
      ",\n{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"name\":\"{}\",\"ts\":{:.3f},\"dur\":{:.3f},\"args\":{{{}}}}}", rank,
      thread, name, start * 1e6, (end - start) * 1e6, more);
}

}  // namespace

std::string chrome_trace(const Timeline& timeline) {
  const PipelineShape& shape = timeline.shape;
  std::string json = fmt::format(
      "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"schedule\":\"{}\",\"ranks\":{},\"micro_batches\":{},"
      "\"chunks\":{},\"bubble\":{:.6f},\"formula\":{:.6f}}},\n\"traceEvents\":[\n",
      name_of(timeline.schedule), shape.ranks, shape.micro_batches, shape.chunks, timeline.bubble(),
      timeline.formula());
  for (size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    const RankTimeline& line = timeline.ranks[rank];
    json += fmt::format("{}{{\"ph\":\"M\",\"pid\":{},\"name\":\"process_name\",\"args\":{{\"name\":\"rank {}: {}\"}}}}",
                        rank == 0 ? "" : ",\n", rank, rank, line.label);
    for (int thread = 0; thread < 5; ++thread) {
      json +=
          fmt::format(",\n{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"thread_name\",\"args\":{{\"name\":\"{}\"}}}}",
                      rank, thread, kThreads[thread]);
    }
    for (const Slot& slot : line.slots) {
      json +=
          event(rank, 0, fmt::format("{} {}", name_of(slot.action.what), slot.action.micro_batch), slot.start, slot.end,
                fmt::format("\"micro_batch\":{},\"chunk\":{}", slot.action.micro_batch, slot.action.chunk));
    }
    for (const Transfer& t : line.transfers) {
      json += event(rank, (t.sent ? 1 : 3) + (t.forward ? 0 : 1), fmt::format("micro-batch {}", t.micro_batch), t.start,
                    t.end, fmt::format("\"micro_batch\":{},\"chunk\":{}", t.micro_batch, t.chunk));
    }
  }
  return json + "\n]}\n";
}

}  // namespace tutti::train
