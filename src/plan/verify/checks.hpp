// The checks of verify() and count() that follow the check of the tables. Each throws Rejected.
#pragma once

#include <algorithm>
#include <new>

#include "plan/verify.hpp"
#include "plan/verify/races.hpp"
#include "plan/verify/reject.hpp"

namespace tutti::plan::verifier {

/// Checks lengths, deadlock, and the values of the outputs.
void check_contents(const Model& model, const VerifyOptions& options);

/// The number of ranks whose memory must be checked for races: one if all are alike, else all.
uint32_t ranks_to_check(const Model& model, const VerifyOptions& options);

/// Checks races, lends, and that no rank leaves a barrier too early. Calls visit(Moment) for every step.
template <class Visit>
void check_order(const Model& model, const VerifyOptions& options, Races& races, const Visit& visit) {
  Replay(model, options.capacity, std::max(options.versions, 1u), races.rounds()).run([&](const Moment& moment) {
    races.run(moment);
    visit(moment);
  });
  if (model.shape().collective == Collective::Barrier) races.check_barrier();
}

/// Turns what check() throws into a verdict.
template <class Check>
Verdict verdict_of(const Check& check) {
  try {
    check();
    return {};
  } catch (const TooLarge& limit) {
    return {false, limit.what(), true};
  } catch (const Rejected& rejected) {
    return {false, rejected.what()};
  } catch (const std::bad_alloc&) {
    return {false, "the plans are too large to prove: memory ran out", true};
  }
}

}  // namespace tutti::plan::verifier
