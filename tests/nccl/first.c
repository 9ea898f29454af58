/* A program written against nccl.h, without CUDA: two processes add up a buffer of the host's.
 *
 *   first [RANKS]      starts that many processes; prints a line for each
 */
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(call)                                                                                \
  do {                                                                                             \
    ncclResult_t result_ = (call);                                                                 \
    if (result_ != ncclSuccess) {                                                                  \
      fprintf(stderr, "%s: %s: %s\n", #call, ncclGetErrorString(result_), ncclGetLastError(NULL)); \
      return 1;                                                                                    \
    }                                                                                              \
  } while (0)

static int run(int rank, int ranks, int pipes[][2]) {
  ncclUniqueId id;
  ncclComm_t comm = NULL;
  int version = 0;
  float *in = malloc(1000 * sizeof *in), *out = malloc(1000 * sizeof *out);
  if (rank == 0) {
    CHECK(ncclGetUniqueId(&id));
    for (int i = 1; i < ranks; ++i) {
      if (write(pipes[i][1], &id, sizeof id) != sizeof id) return 1;
    }
  } else if (read(pipes[rank][0], &id, sizeof id) != sizeof id) {
    return 1;
  }
  CHECK(ncclGetVersion(&version));
  CHECK(ncclCommInitRank(&comm, ranks, id, rank));
  for (int i = 0; i < 1000; ++i) in[i] = (float)(rank + 1);
  CHECK(ncclAllReduce(in, out, 1000, ncclFloat, ncclSum, comm, NULL));
  printf("rank %d of %d: NCCL %d, the sum is %g\n", rank, ranks, version, out[999]);
  CHECK(ncclAllReduce(in, out, 1000, ncclFloat, ncclMax, comm, NULL));
  printf("rank %d of %d: the maximum is %g\n", rank, ranks, out[0]);
  CHECK(ncclCommDestroy(comm));
  free(in);
  free(out);
  return 0;
}

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? atoi(argv[1]) : 2;
  int pipes[64][2];
  int failed = 0, status;
  if (ranks < 1 || ranks > 64) return 2;
  for (int i = 0; i < ranks; ++i) {
    if (pipe(pipes[i]) != 0) return 2;
  }
  for (int i = 1; i < ranks; ++i) {
    if (fork() == 0) return run(i, ranks, pipes);
  }
  failed = run(0, ranks, pipes);
  while (wait(&status) > 0) failed |= status;
  return failed != 0;
}
