// Do all ranks do the same?
//
// In many algorithms the plan of rank r is that of rank 0 with r added to every rank's number (modulo n), and with the
// rank's memory renamed, one place for one. Then a race or a false lend on any rank is one on rank 0, and it is enough
// to look there:
//
// Let t take each step of rank q to the step of the same index of rank q + r. What orders steps is the order of a lane,
// `after`, the fences between rounds of a rank with scratch, and messages: the k-th that a lane of one rank sends to
// another rank is the k-th that rank takes from it. Peers are r further on too, so t takes the k-th message of one such
// link to the k-th of another; it keeps all four, hence what happens before what. Two accesses are at one place of rank
// q exactly if their images are at one place of rank q + r, in the same rounds, both reads, writes or lent reads as
// they were. A race is two accesses at one place, one of them a write, that nothing orders; a false lend is such a pair
// of which the other is the lent read. So t, with n − r for r, takes each that is on rank r to one on rank 0.
//
// What values add up to, lengths and deadlock are looked at on all ranks: values depend on which memory it is.
#pragma once

#include "plan/verify/model.hpp"

namespace tutti::plan::verifier {

/// True where a race on any rank, in place or out of place, implies one on rank 0: all plans have the same steps at the
/// same indices, their peers so many ranks further on as their own rank is, and the memory they touch in one-to-one
/// correspondence.
bool all_ranks_are_alike(const Model& model);

}  // namespace tutti::plan::verifier
