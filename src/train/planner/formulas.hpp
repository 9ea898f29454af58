// The tables of formulas: of a training step on many GPUs, of a model's shape, and of the ring all-reduce.
#pragma once

#include "train/planner/search.hpp"

namespace tutti::train::planner {

/// Memory, communication and time of one step for one layout. Inputs: model, cluster, job, layout.
const Sheet& step_sheet();

/// A model's parameters, counted from its shape.
const Sheet& count_sheet();

/// The shape that a model of Ψ parameters usually has.
const Sheet& guess_sheet();

/// The ring all-reduce of S bytes between n ranks.
const Sheet& ring_sheet();

/// A whole run: days, money, failures, checkpoints.
const Sheet& run_sheet();

/// The largest model whose states fit, by ZeRO stage.
const Sheet& fit_sheet();

/// What a run is, beside its step.
struct Run {
  double tokens = 0;             ///< 0: compute-optimal
  double price = 0;              ///< dollars for an hour of a GPU
  double mtbf = 50676 * 3600.0;  ///< s between failures of one GPU: Llama 3's 419 in 54 days on 16,384 (table 5)
  double checkpoint = 60;        ///< s to write a checkpoint
  double restart = 600;          ///< s to notice a failure and start again
};

/// What `lost` is at most, so that T_run stays a number; a run that loses so much makes no progress.
inline constexpr double kMostLost = 0.99;

/// run_sheet() for this step, computed.
std::vector<double> values_of_run(const Run& run, const Candidate& step);

/// fit_sheet() for GPUs of `memory` bytes and N ranks, computed.
std::vector<double> values_of_fit(double memory, double ranks);

/// A publication that rows name in `source`.
struct Source {
  const char* key;   ///< "Rajbhandari 2020"
  const char* text;  ///< authors, title, where
  const char* url;
};
std::span<const Source> sources();

}  // namespace tutti::train::planner
