// Linked into a second `tutti` in place of the library's all-reduce (ld --wrap): calls it, then spoils what LIAR names
// on rank 1. A check that does not see this is none.
#include <cstdlib>
#include <cstring>

#include "tutti/tutti.h"
#include "tutti/types.hpp"

extern "C" {

tuttiResult_t __real_tuttiAllReduce(const void* in, void* out, size_t count, tuttiDataType_t type, tuttiRedOp_t op,
                                    tuttiComm_t comm, tuttiStream_t stream);
tuttiResult_t __wrap_tuttiAllReduce(const void* in, void* out, size_t count, tuttiDataType_t type, tuttiRedOp_t op,
                                    tuttiComm_t comm, tuttiStream_t stream);

tuttiResult_t __wrap_tuttiAllReduce(const void* in, void* out, size_t count, tuttiDataType_t type, tuttiRedOp_t op,
                                    tuttiComm_t comm, tuttiStream_t stream) {
  const tuttiResult_t result = __real_tuttiAllReduce(in, out, count, type, op, comm, stream);
  const char* const lie = std::getenv("LIAR");
  int rank = 0;
  tuttiCommUserRank(comm, &rank);
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
