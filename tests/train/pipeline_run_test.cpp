// Pipelines of units that only hold memory: activations in flight by the ledger, the recorded timeline, errors.
#include <gtest/gtest.h>

#include <atomic>
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
    EXPECT_EQ(line.transfers.size(), rank == 1 ? 16U : 8U);  // 4 micro-batches, both ways, to each neighbour
    for (const Transfer& transfer : line.transfers) EXPECT_GE(transfer.end, transfer.start);
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
  Timeline timeline{ScheduleKind::OneFOneB, {2, 1, 1}, {}};
  using What = Action::What;
  timeline.ranks.push_back({"stage 0",
                            {{{What::Forward, 0, 0}, 0, 1e-3}, {{What::Backward, 0, 0}, 4e-3, 6e-3}},
                            {{true, true, 0, 0, 1e-3, 1.1e-3}}});
  timeline.ranks.push_back(
      {"stage 1", {{{What::Forward, 0, 0}, 1e-3, 2e-3}, {{What::Backward, 0, 0}, 2e-3, 4e-3}}, {}});
  return timeline;
}

TEST(Timeline, IsMeasured) {
  const Timeline timeline = small_timeline();
  EXPECT_DOUBLE_EQ(timeline.seconds(), 6e-3);
  EXPECT_NEAR(timeline.bubble(), 0.5, 1e-9);
  EXPECT_NEAR(timeline.formula(), 0.5, 1e-9);
  EXPECT_NEAR(timeline.mean(Action::What::Backward), 2e-3, 1e-9);
}

TEST(Timeline, IsDrawn) {
  const std::string svg = timeline_svg(small_timeline());
  for (const char* words : {"Pipeline schedule 1f1b: 2 stages, 1 micro-batches", "rank 1", "stage 1",
                            "Bubble: 50.0 % of the ranks’ time measured", "(p-1)/(m+p-1) with p = 2, m = 1: 50.0 %",
                            "prefers-color-scheme: dark", "class='activation'", "</svg>"}) {
    EXPECT_NE(svg.find(words), std::string::npos) << words;
  }
}

TEST(Timeline, IsAChromeTrace) {
  const nlohmann::json trace = nlohmann::json::parse(chrome_trace(small_timeline()));
  EXPECT_NEAR(trace["otherData"]["bubble"].get<double>(), 0.5, 1e-6);
  int computations = 0, messages = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    ++(event["tid"] == 0 ? computations : messages);
    if (event["tid"] == 0 && event["pid"] == 0 && event["name"] == "backward 0") {
      EXPECT_NEAR(event["ts"].get<double>(), 4000, 1e-6);
      EXPECT_NEAR(event["dur"].get<double>(), 2000, 1e-6);
    }
  }
  EXPECT_EQ(computations, 4);
  EXPECT_EQ(messages, 1);
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
