#include "tutti/train/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tutti::train {
namespace {

using What = Action::What;

constexpr std::array kKindsOfSchedule = {ScheduleKind::Naive, ScheduleKind::GPipe, ScheduleKind::OneFOneB,
                                         ScheduleKind::Interleaved, ScheduleKind::ZeroBubble};

Schedule naive(const PipelineShape& shape) { return one_stage_schedule(shape.micro_batches); }

Schedule gpipe(const PipelineShape& shape) {
  Schedule schedule;
  for (int i = 0; i < shape.micro_batches; ++i) schedule.push_back({What::Forward, 0, i});
  for (int i = 0; i < shape.micro_batches; ++i) schedule.push_back({What::Backward, 0, i});
  return schedule;
}

/// The k-th forward or backward pass of a rank in the interleaved order: p micro-batches through each chunk in turn,
/// backward from the last chunk to the first.
Action interleaved_pass(What what, const PipelineShape& shape, int k) {
  const int turn = k / shape.ranks, group = turn / shape.chunks;
  const int chunk = what == What::Forward ? turn % shape.chunks : shape.chunks - 1 - turn % shape.chunks;
  return {what, chunk, group * shape.ranks + k % shape.ranks};
}

/// `ahead` forward passes, then one forward and one backward in turn, then what is left. With one chunk it is 1F1B.
Schedule one_forward_one_backward(const PipelineShape& shape, int ahead) {
  const int passes = shape.micro_batches * shape.chunks;
  Schedule schedule;
  for (int k = 0; k < passes + ahead; ++k) {
    if (k < passes) schedule.push_back(interleaved_pass(What::Forward, shape, k));
    if (k >= ahead) schedule.push_back(interleaved_pass(What::Backward, shape, k - ahead));
  }
  return schedule;
}

/// A rank's first backward pass comes when the first micro-batch has been to the last stage and back. With several
/// chunks the rank has all but the last of them behind it by then, and every hop on the way costs two chunks' time.
int forwards_ahead(const PipelineShape& shape, int rank) {
  const int hops = shape.ranks - 1 - rank, passes = shape.micro_batches * shape.chunks;
  if (shape.chunks == 1) return std::min(hops, passes);
  return std::min(2 * hops + (shape.chunks - 1) * shape.ranks, passes);
}

/// 1F1B with B and W apart. Rank r lets r of its W wait, so that it has as many activations as rank 0, and runs those
/// in the gaps at the end, where 1F1B is idle.
Schedule zero_bubble(const PipelineShape& shape, int rank) {
  const int m = shape.micro_batches, ahead = forwards_ahead(shape, rank);
  Schedule schedule;
  for (int i = 0; i < ahead; ++i) schedule.push_back({What::Forward, 0, i});
  for (int i = 0; i < m; ++i) {
    if (i + ahead < m) schedule.push_back({What::Forward, 0, i + ahead});
    schedule.push_back({What::BackwardInput, 0, i});
    if (i >= rank) schedule.push_back({What::BackwardWeight, 0, i - rank});
  }
  for (int i = std::max(0, m - rank); i < m; ++i) schedule.push_back({What::BackwardWeight, 0, i});
  return schedule;
}

}  // namespace

const char* name_of(ScheduleKind kind) {
  constexpr std::array kNames = {"naive", "gpipe", "1f1b", "interleaved", "zb-h1"};
  return kNames.at(static_cast<size_t>(kind));
}

ScheduleKind schedule_kind(std::string_view name) {
  std::string all;
  for (const ScheduleKind kind : kKindsOfSchedule) {
    if (name == name_of(kind)) return kind;
    all += fmt::format("{}{}", all.empty() ? "" : ", ", name_of(kind));
  }
  throw Error(Code::InvalidArgument, fmt::format("there is no schedule {}; there are: {}", name, all));
}

std::string objection(ScheduleKind kind, const PipelineShape& shape) {
  const auto& [p, m, v] = shape;
  if (p < 1 || m < 1 || v < 1) {
    return fmt::format("a pipeline has at least 1 rank, 1 micro-batch and 1 chunk a rank, not pp {}, {}, {}", p, m, v);
  }
  if (kind != ScheduleKind::Interleaved && v > 1) {
    return fmt::format("schedule {} has 1 chunk a rank, not {}: use interleaved, or leave the chunks out",
                       name_of(kind), v);
  }
  if (v > 1 && m % p != 0) {
    return fmt::format(
        "schedule interleaved with {} chunks a rank needs a number of micro-batches that pp divides: {} is not a "
        "multiple of pp {}; the nearest that is: {}",
        v, m, p, std::max(1, (m + p / 2) / p) * p);
  }
  return "";
}

Schedule make_schedule(ScheduleKind kind, const PipelineShape& shape, int rank) {
  std::string wrong = objection(kind, shape);
  if (wrong.empty() && (rank < 0 || rank >= shape.ranks)) {
    wrong = fmt::format("a pipeline of {} ranks has no rank {}", shape.ranks, rank);
  }
  if (!wrong.empty()) throw Error(Code::InvalidArgument, wrong);
  switch (kind) {
    case ScheduleKind::Naive:
      return naive(shape);
    case ScheduleKind::GPipe:
      return gpipe(shape);
    case ScheduleKind::OneFOneB:
    case ScheduleKind::Interleaved:
      return one_forward_one_backward(shape, forwards_ahead(shape, rank));
    case ScheduleKind::ZeroBubble:
      return zero_bubble(shape, rank);
  }
  throw Error(Code::InvalidArgument, "there is no such schedule");
}

std::vector<Schedule> make_schedules(ScheduleKind kind, const PipelineShape& shape) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < std::max(1, shape.ranks); ++rank) schedules.push_back(make_schedule(kind, shape, rank));
  return schedules;
}

double bubble_formula(ScheduleKind kind, const PipelineShape& shape, const StageCosts& costs) {
  const double p = shape.ranks, m = shape.micro_batches, v = shape.chunks;
  switch (kind) {
    case ScheduleKind::Naive:
      return (p - 1) / p;
    case ScheduleKind::GPipe:
    case ScheduleKind::OneFOneB:
      return (p - 1) / (m + p - 1);
    case ScheduleKind::Interleaved:
      return (p - 1) / (v * m + p - 1);
    case ScheduleKind::ZeroBubble: {
      const double idle = (p - 1) * (costs.forward + costs.backward_input - costs.backward_weight);
      return idle / (m * (costs.forward + costs.backward_input + costs.backward_weight) + idle);
    }
  }
  return 0;
}

const char* bubble_text(ScheduleKind kind) {
  constexpr std::array kTexts = {"(p-1)/p", "(p-1)/(m+p-1)", "(p-1)/(m+p-1)", "(p-1)/(vm+p-1)",
                                 "(p-1)(F+B-W) / (m(F+B+W) + (p-1)(F+B-W))"};
  return kTexts.at(static_cast<size_t>(kind));
}

}  // namespace tutti::train
