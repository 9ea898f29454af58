/* What libnccl.so.2 adds to a call: ncclAllReduce and tuttiAllReduce of 8 bytes, host memory, two ranks (threads) or
 * one. Rounds of both alternate on the same machine state; each rank times its own, and the median round counts.
 *
 *   nccl_shim [ROUNDS [RANKS]]
 */
#define _GNU_SOURCE
#include <nccl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <tutti/tutti.h>

enum { kCalls = 200, kMax = 10000 };
static ncclComm_t shims[2];
static tuttiComm_t bare[2];
static int rounds = 401, ranks = 2;
static double figures[2][kMax]; /* of rank 0: nanoseconds a call, by what is called */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int ascending(const void* a, const void* b) {
  return (*(const double*)a > *(const double*)b) - (*(const double*)a < *(const double*)b);
}

static void* run(void* argument) {
  const int rank = (int)(size_t)argument;
  double in = 1, out;
  for (int round = 0; round < 2 * rounds; ++round) {
    const double start = now();
    for (int i = 0; i < kCalls; ++i) {
      if (round % 2 == 0) {
        ncclAllReduce(&in, &out, 1, ncclDouble, ncclSum, shims[rank], NULL);
      } else {
        tuttiAllReduce(&in, &out, 1, tuttiFloat64, tuttiSum, bare[rank], NULL);
      }
    }
    if (rank == 0) figures[round % 2][round / 2] = (now() - start) / kCalls;
  }
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t other;
  if (argc > 1) rounds = atoi(argv[1]);
  if (argc > 2) ranks = atoi(argv[2]);
  if (rounds < 1 || rounds > kMax || ranks < 1 || ranks > 2) return 2;
  if (ncclCommInitAll(shims, ranks, NULL) != ncclSuccess || tuttiCommInitAll(bare, ranks) != tuttiSuccess) return 1;
  if (ranks == 2) pthread_create(&other, NULL, run, (void*)1);
  run(NULL);
  if (ranks == 2) pthread_join(other, NULL);
  for (int which = 0; which < 2; ++which) qsort(figures[which], (size_t)rounds, sizeof(double), ascending);
  for (int which = 0; which < 2; ++which) {
    printf("%s: median %.1f ns, quartiles %.1f to %.1f\n", which == 0 ? "ncclAllReduce " : "tuttiAllReduce",
           figures[which][rounds / 2], figures[which][rounds / 4], figures[which][3 * rounds / 4]);
  }
  printf("difference of the medians: %.1f ns, of the fastest tenths: %.1f ns\n",
         figures[0][rounds / 2] - figures[1][rounds / 2], figures[0][rounds / 10] - figures[1][rounds / 10]);
  for (int rank = 0; rank < ranks; ++rank) {
    ncclCommDestroy(shims[rank]);
    tuttiCommDestroy(bare[rank]);
  }
  return 0;
}
