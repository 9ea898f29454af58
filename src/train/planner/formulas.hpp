// The tables of formulas: of a training step on many GPUs, of a model's shape, and of the ring all-reduce.
#pragma once

#include "train/planner/sheet.hpp"

namespace tutti::train::planner {

/// Memory, communication and time of one step for one layout. Inputs: model, cluster, job, layout.
const Sheet& step_sheet();

/// A model's parameters, counted from its shape.
const Sheet& count_sheet();

/// The shape that a model of Ψ parameters usually has.
const Sheet& guess_sheet();

/// The ring all-reduce of S bytes between n ranks.
const Sheet& ring_sheet();

/// What common notes say otherwise, and what the formulas give.
struct Misstatement {
  const char* claim;
  const char* truth;
};
std::span<const Misstatement> misstatements();

/// A publication that rows name in `source`.
struct Source {
  const char* key;   ///< "Rajbhandari 2020"
  const char* text;  ///< authors, title, where
  const char* url;
};
std::span<const Source> sources();

}  // namespace tutti::train::planner
