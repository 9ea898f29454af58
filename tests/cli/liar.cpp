// Linked into a second `tutti` in place of the library's all-reduce (ld --wrap): calls it, then spoils what LIAR names
// on rank 1. A check that does not see this is none.
//
// LIAR=late: rank 1 comes to each call eight milliseconds late. LIAR=KIND:RANK:CALL, of that rank's CALL-th all-reduce:
// `stall`, it never comes; `stop`, its process stops; `die`, it is killed; `less`, it passes one element less; `slow`,
// from there on it comes half a millisecond late. Then ranks whose call fails stay, so that they can be asked. With
// `pace` all ranks sleep for 20 ms before each call, 2 ms more or less at random, and that rank from there on for 2 ms
// more; with `work` all ranks compute for 2 to 20 ms, at random, and that rank for half as long again once there is a
// file LIAR_FILE.
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tutti/tutti.h"
#include "tutti/types.hpp"

namespace {

struct Fault {
  char kind[16] = "";
  int rank = -1;
  unsigned long call = 0;
};

const Fault& fault() {
  static const Fault kFault = [] {
    Fault read;
    const char* const text = std::getenv("LIAR");
    if (text == nullptr || std::sscanf(text, "%15[a-z]:%d:%lu", read.kind, &read.rank, &read.call) != 3) read.rank = -1;
    return read;
  }();
  return kFault;
}

/// Computes for about so long, on a machine like others: longer, if something else has the core.
void work_for(double milliseconds) {
  static volatile double kept = 1;
  const auto steps = static_cast<unsigned long>(milliseconds * 4e5);
  double value = kept;
  for (unsigned long i = 0; i < steps; ++i) value = value * 0.999999 + 1e-6;
  kept = value;
}

/// What ranks do between calls, if the fault is about that.
void pass_time(int rank, bool begun) {
  thread_local unsigned random = static_cast<unsigned>(rank) + 1;
  const double chance = rand_r(&random) / (RAND_MAX + 1.0);
  if (std::strcmp(fault().kind, "work") == 0) {
    const char* const file = std::getenv("LIAR_FILE");
    const bool slow = rank == fault().rank && file != nullptr && access(file, F_OK) == 0;
    work_for((2 + 18 * chance) * (slow ? 1.5 : 1));
  }
  if (std::strcmp(fault().kind, "pace") != 0) return;
  const double milliseconds = 18 + 4 * chance + (rank == fault().rank && begun ? 2 : 0);
  usleep(static_cast<useconds_t>(milliseconds * 1000));
}

/// Commits the fault if it is this rank's turn; true if the call is to have an element less.
bool commit_fault(int rank) {
  static std::atomic<unsigned long> calls{0};
  const unsigned long call = ++calls;
  pass_time(rank, call >= fault().call);
  const auto is = [](const char* kind) { return std::strcmp(fault().kind, kind) == 0; };
  if (rank != fault().rank || call < fault().call) return false;
  if (is("slow")) usleep(500);
  if (call != fault().call) return false;
  while (is("stall")) pause();
  if (is("stop")) raise(SIGSTOP);
  if (is("die")) raise(SIGKILL);
  return is("less");
}

}  // namespace

extern "C" {

tuttiResult_t __real_tuttiAllReduce(const void* in, void* out, size_t count, tuttiDataType_t type, tuttiRedOp_t op,
                                    tuttiComm_t comm, tuttiStream_t stream);
tuttiResult_t __wrap_tuttiAllReduce(const void* in, void* out, size_t count, tuttiDataType_t type, tuttiRedOp_t op,
                                    tuttiComm_t comm, tuttiStream_t stream);

tuttiResult_t __wrap_tuttiAllReduce(const void* in, void* out, size_t count, tuttiDataType_t type, tuttiRedOp_t op,
                                    tuttiComm_t comm, tuttiStream_t stream) {
  const char* const lie = std::getenv("LIAR");
  int rank = 0;
  tuttiCommUserRank(comm, &rank);
  if (rank == 1 && lie != nullptr && std::strcmp(lie, "late") == 0) usleep(8000);
  const size_t elements = count - (fault().rank >= 0 && commit_fault(rank) ? 1 : 0);
  const tuttiResult_t result = __real_tuttiAllReduce(in, out, elements, type, op, comm, stream);
  while (result != tuttiSuccess && fault().rank >= 0) pause();
  if (lie == nullptr || rank != 1) return result;
  const size_t bytes = count * tutti::size_of(static_cast<tutti::DType>(type));
  auto* const output = static_cast<unsigned char*>(out);
  auto* const input = static_cast<unsigned char*>(const_cast<void*>(in));
  if (std::strcmp(lie, "output") == 0) output[bytes / 2] ^= 1;
  if (std::strcmp(lie, "nothing") == 0) std::memcpy(out, in, bytes);
  if (std::strcmp(lie, "input") == 0) input[0] ^= 1;
  if (std::strcmp(lie, "after") == 0) output[bytes] ^= 1;
  if (std::strcmp(lie, "before") == 0) output[-1] ^= 1;
  if (std::strcmp(lie, "failure") == 0) return tuttiInternalError;
  return result;
}

}  // extern "C"
