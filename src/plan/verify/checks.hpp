// The checks that follow the one of the tables, as verify() and count() put them together. Each throws Rejected.
#pragma once

#include <algorithm>
#include <new>

#include "plan/verify.hpp"
#include "plan/verify/races.hpp"
#include "plan/verify/reject.hpp"

namespace tutti::plan::verifier {

/// Lengths, deadlock, and what the outputs hold.
void check_contents(const Model& model, const VerifyOptions& options);

/// How many ranks' memory must be looked at for races: one where all are alike, else all.
uint32_t ranks_to_look_at(const Model& model, const VerifyOptions& options);

/// Races and lends; whether ranks leave a barrier too early. Shows visit(Moment) every step.
template <class Visit>
void check_order(const Model& model, const VerifyOptions& options, Races& races, const Visit& visit) {
  Replay(model, options.capacity, std::max(options.versions, 1u), races.rounds()).run([&](const Moment& moment) {
    races.run(moment);
    visit(moment);
  });
  if (model.shape().collective == Collective::Barrier) races.check_barrier();
}

/// Puts into a verdict what check() throws.
template <class Check>
Verdict verdict_of(const Check& check) {
  try {
    check();
    return {};
  } catch (const Rejected& rejected) {
    return {false, rejected.what()};
  } catch (const std::bad_alloc&) {
    return {false, "the plans are too large to prove: memory ran out"};
  }
}

}  // namespace tutti::plan::verifier
