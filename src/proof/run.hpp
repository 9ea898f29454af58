// Executes a job symbolically: proves its result for every order in which its threads may run.
//
// A job's threads only wait for words that others set, so what can run in one order can run in every order; unordered
// accesses are found by vector clocks, whatever order this run has (as plan/verify/races.hpp does for plans).
#pragma once

#include "plan/verify.hpp"
#include "proof/call_case.hpp"

namespace tutti::proof {

/// Proves of a job, for each of its calls:
/// - every output has the value that the collective requires, at its place;
/// - no two threads access an element or a flag without order between them, one of them writing; no user's buffer is
///   touched after its rank's call has ended, and no input is written to;
/// - nothing is read that was never written, and no action reads what it writes itself at another place;
/// - every wait ends.
plan::Verdict prove(const Job& job);
/// The same of the job that the how's method makes of these plans, which verify() has accepted.
/// For all methods but NVLS, outputs of reductions must also be folded as the plans say. Throws what lower() throws.
plan::Verdict prove(std::span<const plan::RankPlan> plans, const CallCase& how);
/// The same with programs in place of those that lower() makes.
plan::Verdict prove(std::span<const plan::RankPlan> plans, const CallCase& how, std::vector<exec::Program> programs);

}  // namespace tutti::proof
