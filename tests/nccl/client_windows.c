/* Windows of host memory and of memory of GPUs, and one-sided calls. */
#include <stdlib.h>

#include "client.h"

#define WORDS 5000

static int next(struct self self) { return (self.rank + 1) % self.ranks; }
static int previous(struct self self) { return (self.rank + self.ranks - 1) % self.ranks; }

static void fill(int64_t* words, int rank, int round) {
  for (int i = 0; i < WORDS; ++i) words[i] = ((int64_t)rank << 40) + ((int64_t)round << 20) + i;
}

/* Each rank writes to the next one, which sees it when the signal has come. */
static void pass_on(struct self self, ncclComm_t comm, int64_t* part, const struct api* by) {
  ncclWindow_t window = NULL;
  void* user = NULL;
  int64_t *mine = malloc(WORDS * 8), *expected = malloc(WORDS * 8);
  SUCCEED(by->ncclCommWindowRegister(comm, part, WORDS * 8, &window, NCCL_WIN_COLL_SYMMETRIC));
  SUCCEED(api.ncclWinGetUserPtr(comm, window, &user));
  REQUIRE(user == part);
  for (int round = 1; round <= 20; ++round) {
    struct wait_signal data = {1, previous(self), 0, 0}, room = {1, next(self), 1, 0};
    fill(mine, self.rank, round);
    fill(expected, previous(self), round);
    SUCCEED(by->ncclPutSignal(mine, WORDS - 1, ncclInt64, next(self), window, 8, 0, 0, 0, comm, NULL));
    SUCCEED(by->ncclWaitSignal(1, &data, comm, NULL));
    REQUIRE(memcmp(part + 1, expected, (WORDS - 1) * 8) == 0);
    SUCCEED(by->ncclSignal(previous(self), 1, 0, 0, comm, NULL));
    SUCCEED(by->ncclWaitSignal(1, &room, comm, NULL));
  }
  EXPECT(ncclInvalidArgument,
         api.ncclPutSignal(mine, 1, ncclInt64, next(self), window, WORDS * 8, 0, 0, 0, comm, NULL));
  REQUIRE(strstr(api.ncclGetLastError(comm), "part, of 40000 bytes, of the window of call ") != NULL);
  SUCCEED(by->ncclCommWindowDeregister(comm, window));
  EXPECT(ncclInvalidArgument, api.ncclPutSignal(mine, 1, ncclInt64, next(self), window, 0, 0, 0, 0, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclWinGetUserPtr(comm, window, &user));
  free(mine);
  free(expected);
}

void one_sided(struct self self, ncclComm_t comm) {
  int64_t* const ordinary = calloc(WORDS, 8);
  void* mapped = NULL;
  pass_on(self, comm, ordinary, &api);
  pass_on(self, comm, ordinary, &papi);
  if (!on_device) { /* else it is a GPU's */
    SUCCEED(api.ncclMemAlloc(&mapped, WORDS * 8));
    pass_on(self, comm, mapped, &api);
    SUCCEED(api.ncclMemFree(mapped));
  }
  free(ordinary);
}

/* Signals of two windows of one communicator are the same ones; waits for several ranks at once; all in groups. */
void one_sided_in_groups(struct self self, ncclComm_t comm) {
  int32_t in[2] = {self.rank, 100 + self.rank}, a[MOST] = {-1, -1, -1, -1}, b[MOST] = {-1, -1, -1, -1};
  struct wait_signal all[MOST];
  ncclWindow_t windows[2] = {NULL, NULL};
  SUCCEED(api.ncclGroupStart());
  SUCCEED(api.ncclCommWindowRegister(comm, a, sizeof a, &windows[0], NCCL_WIN_COLL_SYMMETRIC));
  SUCCEED(api.ncclCommWindowRegister(comm, b, sizeof b, &windows[1], NCCL_WIN_DEFAULT));
  SUCCEED(api.ncclGroupEnd());
  REQUIRE(windows[0] != NULL && windows[1] != NULL);
  SUCCEED(api.ncclGroupStart());
  for (int peer = 0; peer < self.ranks; ++peer) all[peer] = (struct wait_signal){2, peer, 0, 0};
  SUCCEED(api.ncclWaitSignal(self.ranks, all, comm, NULL)); /* it runs last */
  for (int peer = 0; peer < self.ranks; ++peer) {
    const size_t offset = (size_t)self.rank * 4;
    SUCCEED(api.ncclPutSignal(&in[0], 1, ncclInt32, peer, windows[0], offset, 0, 0, 0, comm, NULL));
    SUCCEED(api.ncclPutSignal(&in[1], 1, ncclInt32, peer, windows[1], offset, 0, 0, 0, comm, NULL));
  }
  SUCCEED(api.ncclGroupEnd());
  for (int peer = 0; peer < self.ranks; ++peer) REQUIRE(a[peer] == peer && b[peer] == 100 + peer);
  SUCCEED(api.ncclWaitSignal(0, NULL, comm, NULL));
  SUCCEED(api.ncclGroupStart());
  SUCCEED(api.ncclCommWindowDeregister(comm, windows[0]));
  SUCCEED(api.ncclCommWindowDeregister(comm, windows[1]));
  SUCCEED(api.ncclGroupEnd());
}

/* What the previous rank has put is in the part, which lies in memory of a GPU. */
static void check_part(struct self self, const char* part, int round) {
  int64_t *got = malloc(WORDS * 8), *expected = malloc(WORDS * 8);
  device_get_at(got, part, WORDS * 8, device_stream());
  fill(expected, previous(self), round);
  REQUIRE(got[0] == -1 && memcmp(got + 1, expected, (WORDS - 1) * 8) == 0);
  free(got);
  free(expected);
}

static void put_round(struct self self, char* source, char* part, int round) {
  int64_t* const words = malloc(WORDS * 8);
  fill(words, self.rank, round);
  device_put_at(source, words, WORDS * 8, device_stream());
  memset(words, 0xff, WORDS * 8);
  device_put_at(part, words, WORDS * 8, device_stream());
  free(words);
  pthread_barrier_wait(&shared->barrier); /* all parts are poisoned */
}

/* Streams send and await; with stream NULL the calls block; all in a group. */
static void pass_on_device(struct self self, ncclComm_t comm, ncclWindow_t window, char* source, char* part) {
  for (int round = 1; round <= 6; ++round) {
    const cudaStream_t stream = round % 3 == 2 ? NULL : device_stream();
    struct wait_signal data = {1, previous(self), 0, 0};
    put_round(self, source, part, round);
    if (round % 3 == 0) SUCCEED(api.ncclGroupStart());
    if (round % 3 == 0) SUCCEED(api.ncclWaitSignal(1, &data, comm, stream));
    SUCCEED(api.ncclPutSignal(source, WORDS - 1, ncclInt64, next(self), window, 8, 0, 0, 0, comm, stream));
    if (round % 3 != 0) SUCCEED(api.ncclWaitSignal(1, &data, comm, stream));
    if (round % 3 == 0) SUCCEED(api.ncclGroupEnd());
    check_part(self, part, round);
    pthread_barrier_wait(&shared->barrier);
  }
}

/* It helps collectives as before. */
static void sum_registered(struct self self, ncclComm_t comm, char* part) {
  const int in = self.rank + 1;
  int out = 0;
  device_put_at(part, &in, sizeof in, device_stream());
  SUCCEED(api.ncclAllReduce(part, part + 64, 1, ncclInt, ncclSum, comm, device_stream()));
  device_get_at(&out, part + 64, sizeof out, device_stream());
  REQUIRE(out == self.ranks * (self.ranks + 1) / 2);
}

void device_one_sided(struct self self, ncclComm_t comm, ncclComm_t other) {
  const cudaStream_t stream = device_stream();
  void *source = NULL, *part = NULL, *user = NULL;
  char ordinary[8] = {0};
  struct wait_signal wait = {1, previous(self), 0, 0};
  SUCCEED(api.ncclMemAlloc(&source, WORDS * 8));
  SUCCEED(api.ncclMemAlloc(&part, WORDS * 8));
  for (int flags = NCCL_WIN_DEFAULT; flags <= NCCL_WIN_COLL_SYMMETRIC; ++flags) {
    ncclWindow_t window = NULL, foreign = NULL;
    SUCCEED(api.ncclCommWindowRegister(comm, part, WORDS * 8, &window, flags));
    SUCCEED(api.ncclCommWindowRegister(other, part, WORDS * 8, &foreign, flags));
    SUCCEED(api.ncclWinGetUserPtr(comm, window, &user));
    REQUIRE(window != NULL && user == part);
    pass_on_device(self, comm, window, source, part);
    EXPECT(ncclInvalidArgument, api.ncclPutSignal(source, 1, ncclInt8, 0, NULL, 0, 0, 0, 0, comm, stream));
    EXPECT(ncclInvalidArgument, api.ncclPutSignal(source, 1, ncclInt8, 0, foreign, 0, 0, 0, 0, comm, stream));
    EXPECT(ncclInvalidArgument,
           api.ncclPutSignal(source, 9, ncclInt8, 0, window, WORDS * 8 - 8, 0, 0, 0, comm, stream));
    EXPECT(ncclInvalidArgument, api.ncclPutSignal(ordinary, 8, ncclInt8, 0, window, 0, 0, 0, 0, comm, stream));
    EXPECT(ncclInvalidArgument, api.ncclSignal(self.ranks, 0, 0, 0, comm, stream));
    SUCCEED(api.ncclSignal(next(self), 0, 0, 0, comm, stream)); /* still usable */
    SUCCEED(api.ncclWaitSignal(1, &wait, comm, stream));
    sum_registered(self, comm, part);
    SUCCEED(api.ncclCommWindowDeregister(comm, window));
    SUCCEED(api.ncclCommWindowDeregister(other, foreign));
    EXPECT(ncclInvalidArgument, api.ncclPutSignal(source, 1, ncclInt8, 0, window, 0, 0, 0, 0, comm, stream));
    pthread_barrier_wait(&shared->barrier);
  }
  pthread_barrier_wait(&shared->barrier); /* freeing waits for what other ranks' streams wait for */
  SUCCEED(api.ncclMemFree(source));
  SUCCEED(api.ncclMemFree(part));
  pthread_barrier_wait(&shared->barrier);
}

/* One thread has both ranks. */
static void register_both(ncclComm_t comms[2], void* first, void* second, ncclWindow_t windows[2], ncclResult_t code) {
  SUCCEED(api.ncclGroupStart());
  SUCCEED(api.ncclCommWindowRegister(comms[0], first, 64, &windows[0], 0));
  SUCCEED(api.ncclCommWindowRegister(comms[1], second, 64, &windows[1], 0));
  EXPECT(code, api.ncclGroupEnd());
}

void bad_one_sided(ncclComm_t comms[2]) {
  static char parts[2][64];
  char in[64] = {0};
  const ncclComm_t comm = comms[0];
  ncclWindow_t windows[2] = {NULL, NULL};
  struct wait_signal wait = {1, 1, 0, 0};
  EXPECT(ncclInvalidUsage, api.ncclSignal(1, 0, 0, 0, comm, NULL));
  EXPECT(ncclInvalidUsage, api.ncclWaitSignal(1, &wait, comm, NULL));
  register_both(comms, parts[0], NULL, windows, ncclInvalidArgument); /* of both ranks, at once */
  REQUIRE(strstr(api.ncclGetLastError(NULL), "rank 1 cannot take part: the buffer is NULL") != NULL);
  REQUIRE(windows[0] == NULL && windows[1] == NULL);
  register_both(comms, parts[0], parts[1], windows, ncclSuccess);
  EXPECT(ncclInvalidArgument, api.ncclPutSignal(in, 8, ncclInt8, 1, NULL, 0, 0, 0, 0, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclPutSignal(in, 8, ncclInt8, 1, (ncclWindow_t)in, 0, 0, 0, 0, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclPutSignal(in, 8, ncclInt8, 1, windows[1], 0, 0, 0, 0, comm, NULL)); /* rank 1's */
  EXPECT(ncclInvalidArgument, api.ncclPutSignal(in, 8, ncclInt8, 2, windows[0], 0, 0, 0, 0, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclPutSignal(in, 8, ncclInt8, 1, windows[0], 57, 0, 0, 0, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclPutSignal(in, SIZE_MAX, ncclInt64, 1, windows[0], 0, 0, 0, 0, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclPutSignal(in, 8, (ncclDataType_t)99, 1, windows[0], 0, 0, 0, 0, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclPutSignal(in, 8, ncclInt8, 1, windows[0], 0, 0, 0, 1, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclPutSignal(NULL, 8, ncclInt8, 1, windows[0], 0, 0, 0, 0, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclPutSignal(in, 8, ncclInt8, 1, windows[0], 0, 0, 0, 0, comm, (cudaStream_t)in));
  EXPECT(ncclInvalidArgument, api.ncclSignal(-1, 0, 0, 0, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclSignal(1, 8, 0, 0, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclSignal(1, -1, 0, 0, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclSignal(1, 0, 1, 0, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclSignal(1, 0, 0, 7, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclWaitSignal(-1, &wait, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclWaitSignal(1, NULL, comm, NULL));
  wait.peer = 2;
  EXPECT(ncclInvalidArgument, api.ncclWaitSignal(1, &wait, comm, NULL));
  wait = (struct wait_signal){-1, 1, 0, 0};
  EXPECT(ncclInvalidArgument, api.ncclWaitSignal(1, &wait, comm, NULL));
  wait = (struct wait_signal){1, 1, 0, 3};
  EXPECT(ncclInvalidArgument, api.ncclWaitSignal(1, &wait, comm, NULL));
  for (int i = 0; i < 64; ++i) REQUIRE(parts[1][i] == 0);
  SUCCEED(api.ncclGroupStart());
  for (int rank = 0; rank < 2; ++rank) SUCCEED(api.ncclCommWindowDeregister(comms[rank], windows[rank]));
  SUCCEED(api.ncclGroupEnd());
}
