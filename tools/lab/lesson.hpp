// The formulas of the lesson on the page of `tutti lab`: tables of text, as the planner's own.
#pragma once

#include <span>

#include "train/planner/formulas.hpp"

namespace tutti::tools {

struct LessonSheet {
  const char* name;  ///< by which the page asks for it
  const train::planner::Sheet& sheet;
};
std::span<const LessonSheet> lesson_sheets();

/// Publications that only the lesson names.
std::span<const train::planner::Source> lesson_sources();

}  // namespace tutti::tools
