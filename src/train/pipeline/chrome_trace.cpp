// A step in the Trace Event Format: process = rank; thread 0 = what it computes, with its waits; a thread for each
// purpose of each communicator.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "tutti/train/timeline.hpp"

namespace tutti::train {
namespace {

using nlohmann::ordered_json;

/// Whole nanoseconds, so that what lies within something else does so in the file as well.
double microseconds(double seconds) { return std::round(seconds * 1e9) / 1e3; }

/// Four digits, and all before the point.
std::string milliseconds(double seconds) {
  const double value = seconds * 1e3;
  return value < 1e4 - 0.5 ? fmt::format("{:.4g}", value) : fmt::format("{:.0f}", value);
}

std::string bytes_text(double bytes) {
  if (bytes >= 1 << 20) return fmt::format("{:.3g} MiB", bytes / (1 << 20));
  return bytes >= 1 << 10 ? fmt::format("{:.3g} KiB", bytes / (1 << 10)) : fmt::format("{} B", bytes);
}

/// For people: what calls of a purpose are made for.
const char* words_of(Purpose purpose) {
  switch (purpose) {
    case Purpose::TensorAxis:
      return "tensor parallelism";
    case Purpose::SequenceAxis:
      return "sequence parallelism";
    case Purpose::ContextAxis:
      return "context parallelism";
    case Purpose::ExpertAxis:
      return "expert parallelism";
    default:
      return name_of(purpose);
  }
}

/// "tp: tensor", but the small sums of a step's end, over several communicators, are one row.
std::string row_of(const CallSpan& call) {
  if (call.purpose == Purpose::Loss || call.purpose == Purpose::Norm) return "loss, norm";
  if (call.purpose == Purpose::PipelineAxis)
    return fmt::format("pp: {}", call.collective == "send" ? "sends" : "receives");
  return fmt::format("{}: {}", call.communicator, name_of(call.purpose));
}

/// What the picture's colour says: of messages between stages what they are, of other calls which.
std::string kind_of(const CallSpan& call) {
  if (call.purpose == Purpose::PipelineAxis) return call.communicator == "gradients" ? "gradient" : "activation";
  return call.collective;
}

/// The messages of a pipeline that a rank sends, or receives, in order: activations or gradients.
std::vector<size_t> messages(const RankTimeline& rank, const std::string& what, const char* direction) {
  std::vector<size_t> found;
  for (size_t i = 0; i < rank.calls.size(); ++i) {
    const CallSpan& call = rank.calls[i];
    const bool is_one = call.purpose == Purpose::PipelineAxis && call.communicator == what;
    if (is_one && call.collective == direction) found.push_back(i);
  }
  return found;
}

/// Receives are posted early, and then wait for the rank that sends: they are shown from when that does.
void begin_receives_when_sent(Timeline& timeline) {
  const int ranks = timeline.shape.ranks, distance = timeline.stage_distance;
  for (int rank = 0; rank < static_cast<int>(timeline.ranks.size()); ++rank) {
    const int stage = rank / distance % ranks;
    for (const char* what : {"activations", "gradients"}) {
      const int from = (stage + (what[0] == 'a' ? ranks - 1 : 1)) % ranks, peer = rank + (from - stage) * distance;
      const RankTimeline& sender = timeline.ranks[static_cast<size_t>(peer)];
      RankTimeline& receiver = timeline.ranks[static_cast<size_t>(rank)];
      const std::vector<size_t> sent = messages(sender, what, "send"), received = messages(receiver, what, "receive");
      for (size_t i = 0; i < std::min(sent.size(), received.size()); ++i) {
        CallSpan& call = receiver.calls[received[i]];
        call.start = std::clamp(sender.calls[sent[i]].start, call.start, call.end);
      }
    }
  }
}

class Page {
 public:
  explicit Page(const Timeline& timeline) {
    for (size_t rank = 0; rank < timeline.ranks.size(); ++rank) add(static_cast<int>(rank), timeline.ranks[rank]);
  }

  ordered_json events = ordered_json::array();

 private:
  void name(const char* what, int rank, int thread, const std::string& text) {
    events.push_back({{"ph", "M"}, {"pid", rank}, {"tid", thread}, {"name", what}, {"args", {{"name", text}}}});
  }

  void span(int rank, int thread, const std::string& name, const std::string& kind, double start, double end,
            ordered_json arguments) {
    const double from = microseconds(start);
    events.push_back({{"ph", "X"},
                      {"pid", rank},
                      {"tid", thread},
                      {"name", name},
                      {"cat", kind},
                      {"ts", from},
                      {"dur", std::round((microseconds(end) - from) * 1e3) / 1e3},
                      {"args", std::move(arguments)}});
  }

  void add(int rank, const RankTimeline& line) {
    name("process_name", rank, 0, fmt::format("rank {}{}{}", rank, line.label.empty() ? "" : ": ", line.label));
    name("thread_name", rank, 0, "computes");
    for (const Slot& slot : line.slots) {
      const auto& [what, chunk, micro_batch] = slot.action;
      span(rank, 0, fmt::format("{} {}", name_of(what), micro_batch), name_of(what), slot.start, slot.end,
           {{"label", std::to_string(micro_batch)}, {"micro_batch", micro_batch}, {"chunk", chunk}});
    }
    for (const WorkSpan& work : line.work) {
      const std::string unit = unit_of(line, work.unit);
      ordered_json arguments{{"label", work.unit < 0 ? name_of(work.work) : unit}};
      if (work.micro_batch >= 0) arguments["micro_batch"] = work.micro_batch;
      span(rank, 0, fmt::format("{}{}{}", name_of(work.work), unit.empty() ? "" : " ", unit), name_of(work.work),
           work.start, work.end, std::move(arguments));
    }
    for (const WaitSpan& wait : line.waits) {
      span(rank, 0, fmt::format("waits: {}", name_of(wait.purpose)), "wait", wait.start, wait.end,
           ordered_json::object());
    }
    add_calls(rank, line);
  }

  static std::string unit_of(const RankTimeline& line, int unit) {
    return unit >= 0 && static_cast<size_t>(unit) < line.units.size() ? line.units[static_cast<size_t>(unit)] : "";
  }

  /// Calls that run at the same time have threads of their own, of the same name.
  void add_calls(int rank, const RankTimeline& line) {
    std::map<std::pair<bool, std::string>, std::vector<const CallSpan*>> rows;  // the small sums' last
    for (const CallSpan& call : line.calls) {
      if (call.purpose != Purpose::Setup) rows[{row_of(call) == "loss, norm", row_of(call)}].push_back(&call);
    }
    int thread = 1;
    for (auto& [row, calls] : rows) {
      std::sort(calls.begin(), calls.end(), [](const CallSpan* a, const CallSpan* b) { return a->start < b->start; });
      std::vector<double> free_from;
      for (const CallSpan* call : calls) {
        const auto lane =
            std::find_if(free_from.begin(), free_from.end(), [&](double end) { return end <= call->start; });
        const auto at = static_cast<int>(lane - free_from.begin());
        if (lane == free_from.end()) {
          name("thread_name", rank, thread + at, row.second);
          free_from.push_back(call->end);
        } else {
          *lane = call->end;
        }
        add(rank, thread + at, *call, line);
      }
      thread += static_cast<int>(free_from.size());
    }
  }

  void add(int rank, int thread, const CallSpan& call, const RankTimeline& line) {
    const std::string unit = unit_of(line, call.cargo.unit);
    std::string label = call.cargo.bucket >= 0        ? fmt::format("bucket {}", call.cargo.bucket)
                        : !unit.empty()               ? unit
                        : call.cargo.micro_batch >= 0 ? std::to_string(call.cargo.micro_batch)
                                                      : "";
    ordered_json arguments{{"label", label},
                           {"communicator", call.communicator},
                           {"ranks", call.ranks},
                           {"purpose", name_of(call.purpose)},
                           {"bytes", call.bytes}};
    if (!call.algorithm.empty()) arguments["algorithm"] = call.algorithm;
    if (call.cargo.chunk >= 0) arguments["chunk"] = call.cargo.chunk;
    if (call.cargo.micro_batch >= 0) arguments["micro_batch"] = call.cargo.micro_batch;
    span(rank, thread,
         fmt::format("{}{}{}, {}", call.collective, label.empty() ? "" : " ", label,
                     bytes_text(static_cast<double>(call.bytes))),
         kind_of(call), call.start, call.end, std::move(arguments));
  }
};

void add_pipeline_notes(const Timeline& timeline, ordered_json& notes) {
  const PipelineShape& shape = timeline.shape;
  std::string held;
  for (size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    held += fmt::format("{}{}", rank == 0 ? "" : ", ", timeline.in_flight(rank));
  }
  notes.push_back(fmt::format(
      "Bubble: {:.1f} % of the ranks' time from the first computation to the last, {} ms; by the formula {} with "
      "p = {}, m = {}{}: {:.1f} %.",
      100 * timeline.bubble(), milliseconds(timeline.seconds()), bubble_text(timeline.schedule), shape.ranks,
      shape.micro_batches, shape.chunks > 1 ? fmt::format(", v = {}", shape.chunks) : "", 100 * timeline.formula()));
  notes.push_back(fmt::format("Numbers are micro-batches. Most {} in flight, by rank: {}.",
                              shape.chunks > 1 ? "chunks' activations" : "activations", held));
}

/// What is called a few times a step, for sums of some bytes, is left out.
void add_call_notes(const Timeline& timeline, ordered_json& notes) {
  struct Sum {
    double calls = 0, bytes = 0, seconds = 0, waits = 0;
  };
  std::map<Purpose, Sum> sums;
  for (const RankTimeline& rank : timeline.ranks) {
    for (const CallSpan& call : rank.calls) {
      Sum& sum = sums[call.purpose];
      ++sum.calls;
      sum.bytes += static_cast<double>(call.bytes);
      sum.seconds += call.end - call.start;
    }
    for (const WaitSpan& wait : rank.waits) sums[wait.purpose].waits += wait.end - wait.start;
  }
  for (const Purpose left_out : {Purpose::Setup, Purpose::Loss, Purpose::Norm, Purpose::PipelineAxis})
    sums.erase(left_out);
  const auto ranks = static_cast<double>(timeline.ranks.size());
  for (const auto& [purpose, sum] : sums) {
    notes.push_back(fmt::format(
        "Of a rank, in the mean: {:.4g} calls for {}, of {} in all, took {} ms; for {} ms of them it waited.",
        sum.calls / ranks, words_of(purpose), bytes_text(sum.bytes / ranks), milliseconds(sum.seconds / ranks),
        milliseconds(std::min(sum.seconds, sum.waits) / ranks)));
  }
}

/// What stands below the picture.
ordered_json notes_of(const Timeline& timeline) {
  ordered_json notes = ordered_json::array();
  if (timeline.shape.ranks > 1) add_pipeline_notes(timeline, notes);
  add_call_notes(timeline, notes);
  if (timeline.clock_error > 0) {
    notes.push_back(
        fmt::format("Times of other hosts than rank 0's may be off by {:.3g} us.", timeline.clock_error * 1e6));
  }
  return notes;
}

}  // namespace

std::string chrome_trace(const Timeline& timeline) {
  const PipelineShape& shape = timeline.shape;
  const ordered_json about{{"title", timeline.title},       {"schedule", name_of(timeline.schedule)},
                           {"ranks", shape.ranks},          {"micro_batches", shape.micro_batches},
                           {"chunks", shape.chunks},        {"bubble", timeline.bubble()},
                           {"formula", timeline.formula()}, {"clock_error_us", timeline.clock_error * 1e6},
                           {"notes", notes_of(timeline)}};
  std::string text = fmt::format("{{\"displayTimeUnit\":\"ms\",\"otherData\":{},\n\"traceEvents\":[\n", about.dump());
  Timeline shown = timeline;
  if (shape.ranks > 1) begin_receives_when_sent(shown);
  const Page page(shown);
  for (size_t i = 0; i < page.events.size(); ++i)
    text += page.events[i].dump() + (i + 1 < page.events.size() ? ",\n" : "\n");
  return text + "]}\n";
}

}  // namespace tutti::train
