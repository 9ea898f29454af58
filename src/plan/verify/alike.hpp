// Do all ranks do the same?
//
// In many algorithms the plan of rank r is that of rank 0 with r added to every rank number (modulo n), and with the
// rank's memory locations renamed one to one. Then every race or false lend on any rank implies one on rank 0, and it
// is enough to check rank 0:
//
// Let t map each step of rank q to the step of the same index of rank q + r. Four things order steps: the order of a
// lane, `after`, the fences between rounds of lanes that share scratch, and messages (the k-th message that a lane of
// one rank sends to another is the k-th that the other receives). Peers move by r too, so t maps the k-th message of
// one link to the k-th of another. So t preserves all four, and with them happens-before. Two accesses are at one
// location of rank q if and only if their images are at one location of rank q + r; rounds and kinds of access (read,
// write, lent read) are the same. A race is two unordered accesses to one location, one of them a write; a false lend
// is such a pair whose other access is a lent read. So t with n − r in place of r maps each race or false lend on rank
// r to one on rank 0.
//
// Values, lengths and deadlock are checked on all ranks, because values depend on the memory.
#pragma once

#include "plan/verify/model.hpp"

namespace tutti::plan::verifier {

/// True if a race on any rank, in place or out of place, implies one on rank 0: all plans have the same steps at the
/// same indices, with peers shifted by the rank, and the memory they touch corresponds one to one.
bool all_ranks_are_alike(const Model& model);

}  // namespace tutti::plan::verifier
