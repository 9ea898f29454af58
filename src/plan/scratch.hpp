// Which scratch several lanes of a rank use.
#pragma once

#include "plan/plan.hpp"

namespace tutti::plan {

/// Must the lanes of this rank wait for each other before a version of its scratch is used again? Not if each chunk is
/// of one lane, whose steps follow each other, and no reader holds it for longer, because none is lent. Then lanes may
/// be any number of rounds apart: of two trees a rank can be near the root of one and far from that of the other.
bool shares_scratch(const RankPlan& plan);

}  // namespace tutti::plan
