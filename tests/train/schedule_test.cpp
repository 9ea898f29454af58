// Schedules over a grid of p ≤ 8, m ≤ 16, v ≤ 4: proven complete, ordered and free of deadlock; idle time and
// activations in flight by the formulas.
#include "tutti/train/schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace tutti::train {
namespace {

using What = Action::What;

void for_grid(const std::function<void(ScheduleKind, const PipelineShape&)>& body) {
  for (const ScheduleKind kind : {ScheduleKind::Naive, ScheduleKind::GPipe, ScheduleKind::OneFOneB,
                                  ScheduleKind::Interleaved, ScheduleKind::ZeroBubble}) {
    for (int p = 1; p <= 8; ++p) {
      for (int m = 1; m <= 16; ++m) {
        for (int v = 1; v <= 4; ++v) {
          const PipelineShape shape{p, m, v};
          SCOPED_TRACE(std::string(name_of(kind)) + " p " + std::to_string(p) + " m " + std::to_string(m) + " v " +
                       std::to_string(v));
          if (objection(kind, shape).empty()) body(kind, shape);
        }
      }
    }
  }
}

int most(const std::vector<int>& values) { return *std::max_element(values.begin(), values.end()); }

TEST(Schedule, IsProvenOverTheGrid) {
  int proven = 0;
  for_grid([&](ScheduleKind kind, const PipelineShape& shape) {
    EXPECT_EQ(fault_of(make_schedules(kind, shape), shape), "");
    ++proven;
  });
  EXPECT_EQ(proven, 5 * 8 * 16 + 3 * (16 + 8 + 5 + 4 + 3 + 2 + 2 + 2));
}

TEST(Schedule, BubbleIsTheFormula) {
  for_grid([&](ScheduleKind kind, const PipelineShape& shape) {
    const bool filled = shape.micro_batches >= shape.ranks;
    for (const StageCosts& costs : {StageCosts{1, 1, 1}, StageCosts{1, 0.5, 0.5}}) {
      const double bubble = simulate(make_schedules(kind, shape), shape, costs).bubble;
      const double formula = bubble_formula(kind, shape, costs);
      if (kind != ScheduleKind::ZeroBubble) {
        EXPECT_NEAR(bubble, formula, 1e-12);
      }
      if (kind != ScheduleKind::ZeroBubble || costs.forward != 1 || costs.backward_input != 1) continue;
      if (filled) {
        EXPECT_NEAR(bubble, formula, 1e-12);
      }
      EXPECT_GE(bubble, formula - 1e-12);
      const double plain = bubble_formula(ScheduleKind::OneFOneB, shape);
      if (shape.ranks > 1) {
        EXPECT_LT(bubble, plain);
      }
    }
  });
}

TEST(Schedule, ReferenceBubbles) {
  const auto bubble = [](int m) { return bubble_formula(ScheduleKind::OneFOneB, {4, m, 1}); };
  EXPECT_NEAR(bubble(1), 0.75, 1e-9);
  EXPECT_NEAR(bubble(8), 0.2727, 1e-4);
  EXPECT_NEAR(bubble(12), 0.2, 1e-9);
  EXPECT_NEAR(bubble(16), 0.1579, 1e-4);
  EXPECT_NEAR(bubble_formula(ScheduleKind::ZeroBubble, {4, 8, 1}), 3.0 / 27, 1e-9);
}

TEST(Schedule, ActivationsInFlight) {
  for_grid([&](ScheduleKind kind, const PipelineShape& shape) {
    const auto& [p, m, v] = shape;
    const std::vector<int> in_flight = simulate(make_schedules(kind, shape), shape, {}).in_flight;
    if (kind == ScheduleKind::Naive) {
      EXPECT_EQ(most(in_flight), 1);
    }
    if (kind == ScheduleKind::GPipe) {
      EXPECT_EQ(most(in_flight), m);
    }
    if (kind == ScheduleKind::OneFOneB || kind == ScheduleKind::ZeroBubble) {
      EXPECT_EQ(most(in_flight), std::min(p, m));
    }
    if (kind == ScheduleKind::OneFOneB) {
      EXPECT_EQ(in_flight.back(), 1);
    }
    if (kind == ScheduleKind::Interleaved && v > 1) {
      EXPECT_LE(most(in_flight), 2 * (p - 1) + (v - 1) * p + 1);
    }
  });
}

TEST(Schedule, MessagesThatTakeTimeStretchIt) {
  const PipelineShape shape{4, 8, 1};
  const auto schedules = make_schedules(ScheduleKind::GPipe, shape);
  const double alone = simulate(schedules, shape, {}).seconds;
  EXPECT_NEAR(simulate(schedules, shape, {1, 1, 1, 0.5}).seconds, alone + 2 * 3 * 0.5, 1e-9);  // two ways, three hops
  EXPECT_NEAR(simulate(make_schedules(ScheduleKind::ZeroBubble, shape), shape, {1, 1, 1, 0.2}).bubble, 0.184, 1e-3);
}

// What the checker must refuse: one change each to a right set of schedules.
struct Wrong {
  const char* what;
  std::function<void(std::vector<Schedule>&)> change;
  const char* text;
};

TEST(Schedule, FaultsAreFound) {
  const PipelineShape shape{3, 4, 1};
  const std::vector<Wrong> wrongs = {
      {"missing", [](auto& s) { s[1].pop_back(); }, "rank 1 does not finish micro-batch 3"},
      {"twice",
       [](auto& s) {
         s[1].push_back({What::Backward, 0, 3});
       },
       "rank 1 has the backward of micro-batch 3"},
      {"backward first", [](auto& s) { std::swap(s[2][0], s[2][1]); }, "rank 2 has the backward of micro-batch 0"},
      {"weights first",
       [](auto& s) {
         s[0].insert(s[0].begin(), {What::BackwardWeight, 0, 0});
       },
       "rank 0 has the backward_weight of micro-batch 0"},
      {"no such chunk", [](auto& s) { s[0][0].chunk = 1; },
       "rank 0 has the forward of micro-batch 0 in chunk 1, which"},
      {"no such micro-batch", [](auto& s) { s[0][0].micro_batch = 4; }, "which does not exist"},
      {"another order", [](auto& s) { std::swap(s[0][0], s[0][1]); }, "rank 0 sends activations to rank 1 in another"},
      {"a rank short", [](auto& s) { s.pop_back(); }, "there are 2 schedules for 3 ranks"},
  };
  ASSERT_EQ(fault_of(make_schedules(ScheduleKind::OneFOneB, shape), shape), "");
  for (const Wrong& wrong : wrongs) {
    auto schedules = make_schedules(ScheduleKind::OneFOneB, shape);
    wrong.change(schedules);
    EXPECT_NE(fault_of(schedules, shape).find(wrong.text), std::string::npos)
        << wrong.what << ": " << fault_of(schedules, shape);
  }
}

TEST(Schedule, DeadlockIsFound) {
  // Rank 0 wants micro-batch 0 back before it gives micro-batch 1; rank 1 wants both first. Each alone is in order.
  const PipelineShape shape{2, 2, 1};
  std::vector<Schedule> schedules = {one_stage_schedule(2), make_schedule(ScheduleKind::GPipe, shape, 1)};
  EXPECT_EQ(
      fault_of(schedules, shape),
      "deadlock: rank 0 waits to run the backward of micro-batch 0 in chunk 0, rank 1 waits to run the forward of "
      "micro-batch 1 in chunk 0");
  EXPECT_THROW(simulate(schedules, shape, {}), Error);
}

TEST(Schedule, ErrorsSayWhatWouldDo) {
  EXPECT_EQ(objection(ScheduleKind::Interleaved, {4, 6, 2}),
            "schedule interleaved with 2 chunks a rank needs a number of micro-batches that pp divides: 6 is not a "
            "multiple of pp 4; the nearest that is: 8");
  EXPECT_EQ(objection(ScheduleKind::GPipe, {4, 8, 2}),
            "schedule gpipe has 1 chunk a rank, not 2: use interleaved, or leave the chunks out");
  EXPECT_NE(objection(ScheduleKind::OneFOneB, {0, 8, 1}), "");
  EXPECT_THROW(make_schedule(ScheduleKind::Interleaved, {4, 6, 2}, 0), Error);
  EXPECT_THROW(make_schedule(ScheduleKind::OneFOneB, {4, 6, 1}, 4), Error);
  EXPECT_EQ(schedule_kind("zb-h1"), ScheduleKind::ZeroBubble);
  try {
    schedule_kind("dualpipe");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("naive, gpipe, 1f1b, interleaved, zb-h1"), std::string::npos);
  }
}

}  // namespace
}  // namespace tutti::train
