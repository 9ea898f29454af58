/* Communicators: made at once or in the background, split, shrunk, grown, watched. */
#include <stdlib.h>

#include "client.h"

ncclUniqueId new_id(struct self self) {
  ncclUniqueId id;
  pthread_barrier_wait(&shared->barrier);
  if (self.rank == 0) SUCCEED(api.ncclGetUniqueId(&shared->id));
  pthread_barrier_wait(&shared->barrier);
  id = shared->id;
  return id;
}

ncclComm_t new_comm(struct self self) {
  ncclComm_t comm = NULL;
  const ncclUniqueId id = new_id(self);
  SUCCEED(api.ncclCommInitRank(&comm, self.ranks, id, self.rank));
  return comm;
}

void check_sum(ncclComm_t comm, int rank, int ranks) {
  int count = 0, me = -1, mine = 1, sum = 0;
  SUCCEED(api.ncclCommCount(comm, &count));
  SUCCEED(api.ncclCommUserRank(comm, &me));
  SUCCEED(api.ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL));
  REQUIRE(count == ranks && me == rank && sum == ranks);
  if (!on_device) return;
  sum = 0;
  device_put(0, &mine, sizeof mine);
  SUCCEED(api.ncclAllReduce(device_memory(), device_memory() + 64, 1, ncclInt, ncclSum, comm, device_stream()));
  device_get(&sum, 64, sizeof sum);
  REQUIRE(sum == ranks);
}

/* Made in one group: all of them are there at its end. */
void derived_in_a_group(struct self self, ncclComm_t comm) {
  ncclComm_t halves = NULL, smaller = NULL, grown = NULL;
  const int last = self.ranks - 1, colour = self.rank % 2;
  int excluded = last;
  SUCCEED(api.ncclGroupStart());
  SUCCEED(api.ncclCommSplit(comm, colour, self.rank, &halves, NULL));
  if (self.rank != last) SUCCEED(api.ncclCommShrink(comm, &excluded, 1, &smaller, NULL, NCCL_SHRINK_DEFAULT));
  SUCCEED(api.ncclGroupEnd());
  check_sum(halves, self.rank / 2, (self.ranks + 1 - colour) / 2);
  if (smaller != NULL) check_sum(smaller, self.rank, last);
  pthread_barrier_wait(&shared->barrier);
  if (self.rank == 0) SUCCEED(api.ncclCommGetUniqueId(smaller, &shared->id));
  pthread_barrier_wait(&shared->barrier);
  const ncclUniqueId id = shared->id;
  SUCCEED(api.ncclGroupStart());
  if (self.rank != last) {
    SUCCEED(api.ncclCommGrow(smaller, self.ranks, self.rank == 0 ? &id : NULL, -1, &grown, NULL));
  } else {
    SUCCEED(api.ncclCommGrow(NULL, self.ranks, &id, last, &grown, NULL));
  }
  SUCCEED(api.ncclGroupEnd());
  check_sum(grown, self.rank, self.ranks);
  SUCCEED(api.ncclCommDestroy(grown));
  if (smaller != NULL) SUCCEED(api.ncclCommDestroy(smaller));
  SUCCEED(api.ncclCommDestroy(halves));
}

void derived(struct self self, ncclComm_t comm) {
  ncclComm_t part = NULL;
  const int colour = self.rank % 2, last = self.ranks - 1;
  SUCCEED(api.ncclCommSplit(comm, colour, -self.rank, &part, NULL));
  const int members = (self.ranks + 1 - colour) / 2;
  check_sum(part, members - 1 - self.rank / 2, members);
  SUCCEED(api.ncclCommDestroy(part));
  SUCCEED(api.ncclCommSplit(comm, self.rank == 0 ? NCCL_SPLIT_NOCOLOR : 1, 0, &part, NULL));
  REQUIRE((part == NULL) == (self.rank == 0));
  if (part != NULL) SUCCEED(api.ncclCommDestroy(part));
  if (self.rank != last) { /* the last rank stays out, and makes no call */
    int excluded = last;
    SUCCEED(api.ncclCommShrink(comm, &excluded, 1, &part, NULL, NCCL_SHRINK_DEFAULT));
    check_sum(part, self.rank, last);
  }
  /* … and comes back into the smaller one. */
  pthread_barrier_wait(&shared->barrier);
  if (self.rank == 0) SUCCEED(api.ncclCommGetUniqueId(part, &shared->id));
  pthread_barrier_wait(&shared->barrier);
  const ncclUniqueId id = shared->id;
  ncclComm_t grown = NULL;
  if (self.rank != last) {
    SUCCEED(api.ncclCommGrow(part, self.ranks, self.rank == 0 ? &id : NULL, -1, &grown, NULL));
    SUCCEED(api.ncclCommDestroy(part));
  } else {
    SUCCEED(api.ncclCommGrow(NULL, self.ranks, &id, last, &grown, NULL));
  }
  check_sum(grown, self.rank, self.ranks);
  pthread_barrier_wait(&shared->barrier);
  if (self.rank != last) { /* NCCL_SHRINK_ABORT: the parent fails on all its ranks */
    int excluded = last;
    SUCCEED(api.ncclCommShrink(grown, &excluded, 1, &part, NULL, NCCL_SHRINK_ABORT));
    check_sum(part, self.rank, last);
    SUCCEED(api.ncclCommDestroy(part));
    ncclResult_t state = ncclSuccess;
    SUCCEED(api.ncclCommGetAsyncError(grown, &state));
    REQUIRE(state == ncclRemoteError);
    EXPECT(ncclRemoteError, api.ncclCommDestroy(grown));
  } else {
    api.ncclCommDestroy(grown); /* it may leave before it hears of the abort */
  }
}

void not_blocking(struct self self) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t comm = NULL;
  ncclResult_t state = ncclInProgress;
  ncclUniqueId id = new_id(self);
  config.blocking = 0;
  config.commName = "in the background";
  EXPECT(ncclInProgress, api.ncclCommInitRankConfig(&comm, self.ranks, id, self.rank, &config));
  while (state == ncclInProgress) SUCCEED(api.ncclCommGetAsyncError(comm, &state));
  REQUIRE(state == ncclSuccess);
  check_sum(comm, self.rank, self.ranks);
  ncclComm_t same = NULL;
  const ncclResult_t split = api.ncclCommSplit(comm, 0, self.rank, &same, NULL);
  REQUIRE(split == ncclSuccess || split == ncclInProgress);
  for (state = ncclInProgress; state == ncclInProgress;) SUCCEED(api.ncclCommGetAsyncError(same, &state));
  REQUIRE(state == ncclSuccess);
  check_sum(same, self.rank, self.ranks);
  SUCCEED(api.ncclCommDestroy(same));
  EXPECT(ncclInProgress, api.ncclCommFinalize(comm));
  for (state = ncclInProgress; state == ncclInProgress;) SUCCEED(api.ncclCommGetAsyncError(comm, &state));
  REQUIRE(state == ncclSuccess);
  SUCCEED(api.ncclCommDestroy(comm));
  ncclUniqueId ids[2];
  ids[0] = new_id(self);
  ids[1] = new_id(self);
  SUCCEED(api.ncclCommInitRankScalable(&comm, self.ranks, self.rank, 2, ids, NULL));
  check_sum(comm, self.rank, self.ranks);
  SUCCEED(api.ncclCommDestroy(comm));
}

/* --- a watchdog --------------------------------------------------------------------------------------------------- */

/* Asks all the time, while the communicator is used and destroyed: never an error; then it is no communicator. */
static void* watchdog(void* comm) {
  ncclResult_t result = ncclSuccess, state = ncclSuccess;
  while (result == ncclSuccess) {
    REQUIRE(state == ncclSuccess);
    result = api.ncclCommGetAsyncError((ncclComm_t)comm, &state);
  }
  REQUIRE(result == ncclInvalidArgument);
  return NULL;
}

void watched(struct self self) {
  pthread_t thread;
  ncclComm_t comm = new_comm(self);
  pthread_create(&thread, NULL, watchdog, comm);
  for (int i = 0; i < 20; ++i) check_sum(comm, self.rank, self.ranks);
  SUCCEED(api.ncclCommDestroy(comm));
  pthread_join(thread, NULL);
}
