#include "tutti/train/timeline.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "train/core/clock.hpp"
#include "train/core/hosts.hpp"

namespace tutti::train {
namespace {

using What = Action::What;
using nlohmann::json;

constexpr int kPassages = 16;  // calls by which clocks are compared

json to_json(const RankTimeline& rank) {
  json slots = json::array(), work = json::array(), waits = json::array(), calls = json::array();
  for (const Slot& s : rank.slots) {
    slots.push_back({static_cast<int>(s.action.what), s.action.chunk, s.action.micro_batch, s.start, s.end});
  }
  for (const WorkSpan& w : rank.work) {
    work.push_back({static_cast<int>(w.work), w.unit, w.micro_batch, w.start, w.end});
  }
  for (const WaitSpan& w : rank.waits) waits.push_back({static_cast<int>(w.purpose), w.start, w.end});
  for (const CallSpan& c : rank.calls) {
    calls.push_back({c.collective, c.communicator, c.ranks, static_cast<int>(c.purpose), c.bytes, c.algorithm,
                     c.cargo.unit, c.cargo.bucket, c.cargo.chunk, c.cargo.micro_batch, c.start, c.end});
  }
  return {{"label", rank.label}, {"units", rank.units}, {"slots", slots},
          {"work", work},        {"waits", waits},      {"calls", calls}};
}

/// With `shift` added to all times.
RankTimeline from_json(const json& page, double shift) {
  RankTimeline rank{
      .label = page.at("label"), .units = page.at("units"), .slots = {}, .work = {}, .waits = {}, .calls = {}};
  const auto time = [&](const json& value) { return value.get<double>() + shift; };
  for (const json& s : page.at("slots")) {
    rank.slots.push_back({{static_cast<What>(s[0].get<int>()), s[1], s[2]}, time(s[3]), time(s[4])});
  }
  for (const json& w : page.at("work")) {
    rank.work.push_back({static_cast<Work>(w[0].get<int>()), w[1], w[2], time(w[3]), time(w[4])});
  }
  for (const json& w : page.at("waits")) {
    rank.waits.push_back({static_cast<Purpose>(w[0].get<int>()), time(w[1]), time(w[2])});
  }
  for (const json& c : page.at("calls")) {
    rank.calls.push_back({.collective = c[0],
                          .communicator = c[1],
                          .ranks = c[2],
                          .purpose = static_cast<Purpose>(c[3].get<int>()),
                          .bytes = c[4],
                          .algorithm = c[5],
                          .cargo = {c[6], c[7], c[8], c[9]},
                          .start = time(c[10]),
                          .end = time(c[11])});
  }
  return rank;
}

/// Every rank's text.
std::vector<std::string> gather_texts(Collectives& world, std::string mine) {
  if (world.absent()) return {std::move(mine)};
  std::vector<uint64_t> lengths(static_cast<size_t>(world.size()));
  uint64_t length = mine.size(), all = 0;
  world.all_gather(Purpose::Setup, {&length, 1, DType::U64}, {lengths.data(), lengths.size(), DType::U64});
  for (const uint64_t each : lengths) all += each;
  std::string together(all, '\0');
  world.all_gather_v(Purpose::Setup, {mine.data(), mine.size(), DType::U8}, {together.data(), all, DType::U8},
                     std::vector<size_t>(lengths.begin(), lengths.end()));
  std::vector<std::string> texts;
  size_t at = 0;
  for (const uint64_t each : lengths) texts.push_back(together.substr(std::exchange(at, at + each), each));
  return texts;
}

/// By rank: what brings its times to rank 0's clock. Ranks of one host share the clock.
std::vector<ClockOffset> clocks_of(Collectives& world) {
  std::vector<ClockOffset> clocks(static_cast<size_t>(world.size()));
  if (world.absent()) return clocks;
  std::vector<Passage> mine, all(clocks.size() * kPassages);
  for (int i = 0; i < kPassages; ++i) {
    const double entered = now();
    world.sum(Purpose::Setup, 0);
    mine.push_back({entered, now()});
  }
  const size_t bytes = kPassages * sizeof(Passage);
  world.all_gather(Purpose::Setup, {mine.data(), bytes, DType::U8},
                   {all.data(), all.size() * sizeof(Passage), DType::U8});
  const std::vector<std::string> hosts = hosts_of(world.communicator());
  const auto passages = [&](size_t rank) { return std::span(all).subspan(rank * kPassages, kPassages); };
  for (size_t rank = 1; rank < clocks.size(); ++rank) {
    if (hosts[rank] != hosts[0]) clocks[rank] = clock_offset(passages(0), passages(rank));
  }
  return clocks;
}

/// So that the first thing that is computed begins at 0.
void begin_at_zero(Timeline& timeline) {
  double first = std::numeric_limits<double>::infinity();
  for (const RankTimeline& rank : timeline.ranks) {
    for (const Slot& slot : rank.slots) first = std::min(first, slot.start);
  }
  if (!std::isfinite(first)) return;
  const auto shift = [first](auto& spans) {
    for (auto& span : spans) span.start -= first, span.end -= first;
  };
  for (RankTimeline& rank : timeline.ranks) shift(rank.slots), shift(rank.work), shift(rank.waits), shift(rank.calls);
}

}  // namespace

ClockOffset clock_offset(std::span<const Passage> reference, std::span<const Passage> other) {
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < reference.size(); ++i) {
    least = std::max(least, reference[i].entered - other[i].left);
    most = std::min(most, reference[i].left - other[i].entered);
  }
  return {(least + most) / 2, std::abs(most - least) / 2};
}

TimelineRecorder::TimelineRecorder(Executor& executor, PipelineBoundary* boundary, Counters& counters,
                                   CallAlgorithms& algorithms, bool learns)
    : executor_(executor), counters_(counters), step_(std::make_shared<StepRecorder>(algorithms, learns)) {
  executor_.observer = [this, boundary](const Action& action, double start, double end) {
    if (boundary != nullptr) start = std::max(start, std::min(end, boundary->last_wait_ended()));
    slots_.push_back({action, start, end});
  };
  executor_.recorder = step_;
  counters_.recorder = step_;
}

TimelineRecorder::~TimelineRecorder() { stop(); }

void TimelineRecorder::stop() {
  executor_.observer = nullptr;
  executor_.recorder = nullptr;
  counters_.recorder = nullptr;
}

Timeline TimelineRecorder::gather(Collectives& world, ScheduleKind schedule, const PipelineShape& shape,
                                  RankTimeline mine) {
  stop();
  step_->wait_for_calls();
  mine.slots = std::move(slots_);
  mine.work.assign(step_->work.begin(), step_->work.end());
  mine.waits.assign(step_->waits.begin(), step_->waits.end());
  mine.calls.assign(step_->calls.begin(), step_->calls.end());
  const std::vector<ClockOffset> clocks = clocks_of(world);
  const std::vector<std::string> texts = gather_texts(world, to_json(mine).dump());
  Timeline timeline{.title = {}, .schedule = schedule, .shape = shape, .ranks = {}};
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    timeline.ranks.push_back(from_json(json::parse(texts[rank]), clocks[rank].seconds));
    timeline.clock_error = std::max(timeline.clock_error, clocks[rank].error);
  }
  begin_at_zero(timeline);
  return timeline;
}

double Timeline::seconds() const {
  double last = 0;
  for (const RankTimeline& rank : ranks) {
    for (const Slot& slot : rank.slots) last = std::max(last, slot.end);
  }
  return last;
}

double Timeline::bubble() const {
  double busy = 0;
  for (const RankTimeline& rank : ranks) {
    for (const Slot& slot : rank.slots) busy += slot.end - slot.start;
  }
  const double all = static_cast<double>(ranks.size()) * seconds();
  return all > 0 ? 1 - busy / all : 0;
}

double Timeline::mean(What what) const {
  double sum = 0;
  size_t count = 0;
  for (const RankTimeline& rank : ranks) {
    for (const Slot& slot : rank.slots) {
      if (slot.action.what != what) continue;
      sum += slot.end - slot.start;
      ++count;
    }
  }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

double Timeline::formula() const {
  return bubble_formula(schedule, shape, {mean(What::Forward), mean(What::BackwardInput), mean(What::BackwardWeight)});
}

int Timeline::in_flight(size_t rank) const {
  int now_held = 0, most = 0;
  for (const Slot& slot : ranks[rank].slots) {
    const What what = slot.action.what;
    now_held += static_cast<int>(what == What::Forward) -
                static_cast<int>(what == What::Backward || what == What::BackwardWeight);
    most = std::max(most, now_held);
  }
  return most;
}

}  // namespace tutti::train
