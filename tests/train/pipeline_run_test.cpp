// Pipelines of units that only hold memory: activations in flight by the ledger, the recorded timeline, errors.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/holding_pipeline.hpp"
#include "train/world.hpp"

namespace tutti::train {
namespace {

struct Ran {
  Timeline timeline;
  std::vector<size_t> peaks;  // [rank]: bytes of activations
  double sent = 0;            // by rank 0, bytes
};

Ran run(ScheduleKind kind, const PipelineShape& shape, double pace = 0) {
  Ran ran;
  ran.peaks.resize(static_cast<size_t>(shape.ranks));
  run_world(shape.ranks, [&](Communicator& comm) {
    HoldingPipeline pipeline(comm, kind, shape, pace);
    const Timeline timeline = pipeline.step();
    const auto rank = static_cast<size_t>(comm.rank());
    ran.peaks[rank] = pipeline.ledger.peak(Kind::Activations);
    EXPECT_LT(pipeline.ledger.held(Kind::Activations), kHeldBytes);  // all records are gone
    if (rank == 0) ran.timeline = timeline;
    if (rank == 0) ran.sent = pipeline.counters[Purpose::PipelineAxis].sent;
  });
  return ran;
}

TEST(PipelineRun, LedgerSeesActivationsInFlight) {
  const auto check = [](ScheduleKind kind, const PipelineShape& shape) {
    SCOPED_TRACE(name_of(kind));
    const std::vector<int> expected = simulate(make_schedules(kind, shape), shape, {}).in_flight;
    const Ran ran = run(kind, shape);
    for (size_t rank = 0; rank < ran.peaks.size(); ++rank) {
      EXPECT_EQ(ran.peaks[rank] / kHeldBytes, static_cast<size_t>(expected[rank])) << "rank " << rank;
      EXPECT_EQ(ran.timeline.in_flight(rank), expected[rank]) << "rank " << rank;
      if (kind == ScheduleKind::GPipe) {
        EXPECT_EQ(expected[rank], shape.micro_batches);
      } else if (shape.chunks == 1) {
        EXPECT_LE(expected[rank], shape.ranks);
      }
    }
  };
  for (const ScheduleKind kind :
       {ScheduleKind::Naive, ScheduleKind::GPipe, ScheduleKind::OneFOneB, ScheduleKind::ZeroBubble}) {
    check(kind, {4, 8, 1});
    check(kind, {3, 5, 1});
  }
  check(ScheduleKind::Interleaved, {4, 8, 2});
  check(ScheduleKind::Interleaved, {3, 6, 3});
  check(ScheduleKind::Interleaved, {2, 4, 4});
}

TEST(PipelineRun, SendsOneActivationPerStageAndMicroBatch) {
  // Rank 0 of 2 sends each activation on, in both of its chunks, and the gradients of its second chunk back.
  EXPECT_EQ(run(ScheduleKind::OneFOneB, {2, 4, 1}).sent, 4.0 * kBoundaryBytes);
  EXPECT_EQ(run(ScheduleKind::Interleaved, {2, 4, 2}).sent, (2 * 4 + 4.0) * kBoundaryBytes);
}

TEST(PipelineRun, TimelineHasEveryActionAndMessage) {
  const PipelineShape shape{3, 4, 1};
  const Timeline timeline = run(ScheduleKind::ZeroBubble, shape, 1e-3).timeline;
  ASSERT_EQ(timeline.ranks.size(), 3U);
  for (int rank = 0; rank < 3; ++rank) {
    const RankTimeline& line = timeline.ranks[static_cast<size_t>(rank)];
    const Schedule schedule = make_schedule(ScheduleKind::ZeroBubble, shape, rank);
    ASSERT_EQ(line.slots.size(), schedule.size());
    double before = 0;
    for (size_t i = 0; i < schedule.size(); ++i) {
      EXPECT_EQ(line.slots[i].action.what, schedule[i].what);
      EXPECT_EQ(line.slots[i].action.micro_batch, schedule[i].micro_batch);
      EXPECT_GE(line.slots[i].start, before);
      EXPECT_GE(line.slots[i].end, line.slots[i].start + 0.9e-3);
      before = line.slots[i].end;
    }
    size_t messages = 0;
    for (const CallSpan& call : line.calls) {
      EXPECT_GE(call.end, call.start);
      if (call.purpose == Purpose::Setup) continue;
      EXPECT_EQ(call.purpose, Purpose::PipelineAxis);
      EXPECT_EQ(call.bytes, kBoundaryBytes);
      EXPECT_GE(call.cargo.micro_batch, 0);
      ++messages;
    }
    EXPECT_EQ(messages, rank == 1 ? 16U : 8U);     // 4 micro-batches, both ways, to each neighbour
    EXPECT_EQ(line.work.size(), schedule.size());  // a unit a stage
  }
  EXPECT_GE(timeline.mean(Action::What::Forward), 0.9e-3);
  EXPECT_EQ(timeline.mean(Action::What::Backward), 0);
  EXPECT_GT(timeline.bubble(), 0);
  EXPECT_LT(timeline.bubble(), 1);
}

TEST(PipelineRun, NaiveIdlesMost) {  // 3/4 of the time, where GPipe idles 3/11
  EXPECT_GT(run(ScheduleKind::Naive, {4, 8, 1}, 2e-3).timeline.bubble(),
            run(ScheduleKind::GPipe, {4, 8, 1}, 2e-3).timeline.bubble());
}

Timeline small_timeline() {
  Timeline timeline;
  timeline.title = "a step";
  timeline.shape = {2, 1, 1};
  using What = Action::What;
  RankTimeline first, second;
  first.label = "stage 0";
  first.units = {"embedding"};
  first.slots = {{{What::Forward, 0, 0}, 0, 1e-3}, {{What::Backward, 0, 0}, 4e-3, 6e-3}};
  first.work = {
      {Work::Forward, 0, 0, 0, 1e-3}, {Work::Backward, 0, 0, 4e-3, 6e-3}, {Work::Optimizer, -1, -1, 6e-3, 7e-3}};
  first.waits = {{Purpose::PipelineAxis, 1e-3, 4e-3}};
  first.calls = {{.collective = "send",
                  .communicator = "activations",
                  .ranks = 2,
                  .purpose = Purpose::PipelineAxis,
                  .bytes = 4096,
                  .algorithm = "direct",
                  .cargo = {.chunk = 0, .micro_batch = 0},
                  .start = 1e-3,
                  .end = 1.1e-3}};
  second.label = "stage 1";
  second.calls = first.calls;  // posted before it is sent
  second.calls[0].collective = "receive";
  second.calls[0].start = 0;
  second.calls[0].end = 1.2e-3;
  second.slots = {{{What::Forward, 0, 0}, 1e-3, 2e-3}, {{What::Backward, 0, 0}, 2e-3, 4e-3}};
  timeline.ranks = {first, second};
  return timeline;
}

TEST(Timeline, IsMeasured) {
  const Timeline timeline = small_timeline();
  EXPECT_DOUBLE_EQ(timeline.seconds(), 6e-3);
  EXPECT_NEAR(timeline.bubble(), 0.5, 1e-9);
  EXPECT_NEAR(timeline.formula(), 0.5, 1e-9);
  EXPECT_NEAR(timeline.mean(Action::What::Backward), 2e-3, 1e-9);
}

TEST(Timeline, IsAChromeTrace) {
  const nlohmann::json trace = nlohmann::json::parse(chrome_trace(small_timeline()));
  EXPECT_NEAR(trace["otherData"]["bubble"].get<double>(), 0.5, 1e-6);
  EXPECT_EQ(trace["otherData"]["title"], "a step");
  EXPECT_NE(trace["otherData"]["notes"][0].get<std::string>().find("(p-1)/(m+p-1) with p = 2, m = 1: 50.0 %"),
            std::string::npos);
  std::map<std::string, int> kinds;
  std::map<int, std::string> rows;  // of rank 0
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "M" && event["pid"] == 0 && event["name"] == "thread_name")
      rows[event["tid"]] = event["args"]["name"];
    if (event["ph"] != "X") continue;
    ++kinds[event["cat"]];
    if (event["name"] == "backward embedding") {
      EXPECT_EQ(event["pid"], 0);
      EXPECT_EQ(event["tid"], 0);
      EXPECT_NEAR(event["ts"].get<double>(), 4000, 1e-6);
      EXPECT_NEAR(event["dur"].get<double>(), 2000, 1e-6);
      EXPECT_EQ(event["args"]["micro_batch"], 0);
    }
    if (event["cat"] == "activation" && event["pid"] == 1) {
      EXPECT_EQ(event["name"], "receive 0, 4 KiB");
      EXPECT_NEAR(event["ts"].get<double>(), 1000, 1e-6);  // when the other end sends
      EXPECT_NEAR(event["dur"].get<double>(), 200, 1e-6);
    }
    if (event["cat"] == "activation" && event["pid"] == 0) {
      EXPECT_EQ(event["name"], "send 0, 4 KiB");
      EXPECT_EQ(rows[event["tid"]], "pp: sends");
      EXPECT_EQ(event["args"]["bytes"], 4096);
      EXPECT_EQ(event["args"]["algorithm"], "direct");
    }
  }
  const std::map<std::string, int> expected{
      {"forward", 3}, {"backward", 3}, {"optimizer", 1}, {"wait", 1}, {"activation", 2}};  // two slots with a unit each
  EXPECT_EQ(kinds, expected);
}

TEST(Timeline, ClocksOfHostsAreBoundByCalls) {
  // The other clock shows 5 s less. A call takes 2 to 4 ms; ranks enter it up to 1 ms after one another.
  std::vector<Passage> reference, other;
  for (int i = 0; i < 8; ++i) {
    const double begins = 10 + i, late = i % 2 == 0 ? 0 : 1e-3, lasts = 2e-3 + i % 3 * 1e-3;
    reference.push_back({begins + late, begins + lasts});
    other.push_back({begins + 1e-3 - late - 5, begins + lasts - 5});
  }
  const ClockOffset offset = clock_offset(reference, other);
  EXPECT_NEAR(offset.seconds, 5, offset.error + 1e-9);
  EXPECT_LE(offset.error, 1.5e-3);
  EXPECT_GT(offset.error, 0);
}

TEST(PipelineRun, AnErrorOfOneRankEndsAll) {
  std::atomic<int> noticed = 0;
  ScheduleKind kind{};
  const auto body = [&](Communicator& comm) {
    HoldingPipeline pipeline(comm, kind, {4, 4, 1}, 0);
    if (comm.rank() == 2) pipeline.fail_at = 1;
    try {
      pipeline.step();
    } catch (...) {
      ++noticed;
      throw;
    }
  };
  // Rank 2 has posted its next receive when it fails. In the naive schedule rank 1 will never send that message.
  for (const ScheduleKind each : {ScheduleKind::OneFOneB, ScheduleKind::Naive}) {
    kind = each;
    noticed = 0;
    EXPECT_ANY_THROW(run_world(4, body));
    EXPECT_EQ(noticed, 4);
  }
}

}  // namespace
}  // namespace tutti::train
