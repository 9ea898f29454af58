#include "tutti/train/timeline.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "train/core/clock.hpp"

namespace tutti::train {
namespace {

using What = Action::What;

constexpr size_t kTextBytes = 64;

/// What a rank tells the others first.
struct Header {
  std::array<char, kTextBytes> host{}, label{};
  double time = 0;
  size_t slots = 0, transfers = 0;
};

/// A slot or a message on the wire: numbers alone, so that it can be gathered as it is.
struct Entry {
  double start = 0, end = 0;
  int32_t chunk = 0, micro_batch = 0, what = 0, sent = 0, forward = 0, padding = 0;
};

/// Every rank's entries, one rank after another.
std::vector<Entry> gather_entries(Collectives& world, std::vector<Entry> mine, const std::vector<size_t>& counts) {
  if (world.absent()) return mine;
  size_t total = 0;
  std::vector<size_t> bytes;
  for (const size_t count : counts) {
    total += count;
    bytes.push_back(count * sizeof(Entry));
  }
  std::vector<Entry> all(total);
  world.all_gather_v(Purpose::Setup, {mine.data(), mine.size() * sizeof(Entry), DType::U8},
                     {all.data(), total * sizeof(Entry), DType::U8}, bytes);
  return all;
}

}  // namespace

TimelineRecorder::TimelineRecorder(Executor& executor, PipelineBoundary* boundary)
    : executor_(executor), boundary_(boundary) {
  executor_.observer = [this](const Action& action, double start, double end) {
    if (boundary_ != nullptr) start = std::max(start, std::min(end, boundary_->last_wait_ended()));
    slots_.push_back({action, start, end});
  };
  if (boundary_ != nullptr) boundary_->records = true;
}

TimelineRecorder::~TimelineRecorder() {
  executor_.observer = nullptr;
  if (boundary_ != nullptr) boundary_->records = false;
}

Timeline TimelineRecorder::gather(Collectives& world, ScheduleKind schedule, const PipelineShape& shape,
                                  const std::string& label) const {
  const auto ranks = static_cast<size_t>(world.size());
  world.sum(Purpose::Setup, 0);  // so that all read their clocks at about the same time
  Header mine{.time = now(), .slots = slots_.size(), .transfers = boundary_ ? boundary_->transfers.size() : 0};
  gethostname(mine.host.data(), kTextBytes - 1);
  std::strncpy(mine.label.data(), label.c_str(), kTextBytes - 1);
  std::vector<Header> all(ranks);
  all[0] = mine;
  world.all_gather(Purpose::Setup, {&mine, sizeof mine, DType::U8}, {all.data(), ranks * sizeof mine, DType::U8});

  std::vector<Entry> entries;
  for (const Slot& s : slots_) {
    entries.push_back({s.start, s.end, s.action.chunk, s.action.micro_batch, static_cast<int32_t>(s.action.what)});
  }
  for (size_t i = 0; i < mine.transfers; ++i) {
    const Transfer& t = boundary_->transfers[i];
    entries.push_back({t.start, t.end, t.chunk, t.micro_batch, 0, t.sent, t.forward});
  }
  std::vector<size_t> counts;
  for (const Header& rank : all) counts.push_back(rank.slots + rank.transfers);
  entries = gather_entries(world, std::move(entries), counts);

  Timeline timeline{schedule, shape, {}};
  double first = std::numeric_limits<double>::infinity();
  auto entry = entries.begin();
  for (const Header& rank : all) {
    // Processes of one host share the steady clock; other hosts' are as exact as the ranks were at the same place.
    const double shift = rank.host == all[0].host ? 0 : all[0].time - rank.time;
    RankTimeline& to = timeline.ranks.emplace_back(RankTimeline{rank.label.data(), {}, {}});
    for (size_t i = 0; i < rank.slots; ++i, ++entry) {
      to.slots.push_back({{static_cast<What>(entry->what), entry->chunk, entry->micro_batch},
                          entry->start + shift,
                          entry->end + shift});
      first = std::min(first, to.slots.back().start);
    }
    for (size_t i = 0; i < rank.transfers; ++i, ++entry) {
      to.transfers.push_back({entry->sent != 0, entry->forward != 0, entry->chunk, entry->micro_batch,
                              entry->start + shift, entry->end + shift});
    }
  }
  for (RankTimeline& rank : timeline.ranks) {
    for (Slot& slot : rank.slots) slot.start -= first, slot.end -= first;
    for (Transfer& transfer : rank.transfers) transfer.start -= first, transfer.end -= first;
  }
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
