// A plan as text, one short line per step.
#pragma once

#include <string>

#include "plan/plan.hpp"

namespace tutti::plan {

/// "in", "out#2" (block 2 of several), "scratch[1/4]" (chunk 1 of 4), "in[0-2/4]" (chunks 0 to 2).
std::string in_words(const RankPlan& plan, const Piece& piece);
/// Pieces, separated by commas; "nothing" for none.
std::string in_words(const RankPlan& plan, Range pieces);
/// "copy out = in", "lend in > 1 2" (to ranks 1 and 2), "recv out < 0", "fold out = <0 + in" (a message of rank 0 and
/// local pieces), "complete out = …"; "after 3: …".
std::string in_words(const RankPlan& plan, const Step& step);

}  // namespace tutti::plan
