/* What PyTorch's ProcessGroupNCCL calls, in its order: a communicator made in the background, a stream of its own that
 * events tie to the caller's, a second thread that asks for errors all the time and aborts what hangs, groups of calls
 * of all kinds, registered memory, a split, and the end. */
#include <stdlib.h>

#include "client.h"

#define WORDS 16 /* of a block of a rank */
#define TURNS 200

/* What the watching thread looks at. */
struct watched {
  ncclComm_t comm;
  void* end; /* the event behind the last call, or NULL */
  int rank, stops, aborts_hangs;
  int turns; /* for how many turns the event has not been reached */
  ncclResult_t error;
};

static void* watch(void* argument) {
  struct watched* const mine = argument;
  device_select(mine->rank % device_count());
  while (!__atomic_load_n(&mine->stops, __ATOMIC_ACQUIRE)) {
    ncclResult_t state = ncclSuccess;
    SUCCEED(api.ncclCommGetAsyncError(mine->comm, &state));
    if (state != ncclSuccess && state != ncclInProgress) mine->error = state;
    void* const end = __atomic_load_n(&mine->end, __ATOMIC_ACQUIRE);
    mine->turns = end == NULL || device_reached(end) ? 0 : mine->turns + 1;
    if (mine->error != ncclSuccess || (mine->aborts_hangs && mine->turns > TURNS)) {
      SUCCEED(api.ncclCommAbort(mine->comm));
      return NULL;
    }
    device_nap();
  }
  return NULL;
}

static ncclResult_t ready(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) SUCCEED(api.ncclCommGetAsyncError(comm, &state));
  return state;
}

/* A call that a communicator in the background may still be at. */
#define BACKGROUND(call, comm)                                  \
  do {                                                          \
    const ncclResult_t begun_ = (call);                         \
    REQUIRE(begun_ == ncclSuccess || begun_ == ncclInProgress); \
    REQUIRE(ready(comm) == ncclSuccess);                        \
  } while (0)

static ncclComm_t made_in_the_background(struct self self) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t comm = NULL;
  const ncclUniqueId id = new_id(self);
  config.blocking = 0;
  config.commName = "a process group";
  EXPECT(ncclInProgress, api.ncclCommInitRankConfig(&comm, self.ranks, id, self.rank, &config));
  REQUIRE(ready(comm) == ncclSuccess);
  return comm;
}

/* The caller's stream, the group's, and the events between them. */
struct streams {
  cudaStream_t current, own;
  void *before, *end;
};

static void begin(struct streams* at) {
  device_record(at->before, at->current);
  device_wait(at->own, at->before);
}

static void finish(struct streams* at, struct watched* watched) {
  device_record(at->end, at->own);
  __atomic_store_n(&watched->end, at->end, __ATOMIC_RELEASE);
  device_wait(at->current, at->end); /* work.wait() */
}

/* A rank's memory: its input, then the outputs of each kind. */
static int* block(int index) { return (int*)device_memory() + index * WORDS; }
enum { In = 0, Ins = 1, Sum = 5, Root = 6, Rooted = 7, Part = 8, All = 9, Swapped = 13, Sent = 17, Scaled = 18 };

static void fill(struct self self) {
  int words[19 * WORDS];
  memset(words, 0, sizeof words);
  for (int i = 0; i < WORDS; ++i) {
    words[In * WORDS + i] = self.rank + 1;
    words[Root * WORDS + i] = 100 + self.rank;
  }
  for (int block = 0; block < self.ranks; ++block) {
    for (int i = 0; i < WORDS; ++i) words[(Ins + block) * WORDS + i] = self.rank * 10 + block;
  }
  device_put(0, words, sizeof words);
}

/* Every kind of call, on the communicator's stream. */
static void enqueue(struct self self, ncclComm_t comm, cudaStream_t stream) {
  const int next = (self.rank + 1) % self.ranks, before = (self.rank + self.ranks - 1) % self.ranks;
  const ncclDataType_t type = ncclInt;
  ncclRedOp_t twice;
  int two = 2;
  SUCCEED(api.ncclAllReduce(block(In), block(Sum), WORDS, type, ncclSum, comm, stream));
  SUCCEED(api.ncclBroadcast(block(Root), block(Root), WORDS, type, 1, comm, stream));
  SUCCEED(api.ncclReduce(block(In), block(Rooted), WORDS, type, ncclMax, 0, comm, stream));
  SUCCEED(api.ncclReduceScatter(block(Ins), block(Part), WORDS, type, ncclSum, comm, stream));
  SUCCEED(api.ncclAllGather(block(In), block(All), WORDS, type, comm, stream));
  SUCCEED(api.ncclGroupStart()); /* all_to_all */
  for (int peer = 0; peer < self.ranks; ++peer) {
    SUCCEED(api.ncclSend(block(Ins + peer), WORDS, type, peer, comm, stream));
    SUCCEED(api.ncclRecv(block(Swapped + peer), WORDS, type, peer, comm, stream));
  }
  BACKGROUND(api.ncclGroupEnd(), comm);
  SUCCEED(api.ncclGroupStart()); /* batch_isend_irecv */
  SUCCEED(api.ncclSend(block(In), WORDS, type, next, comm, stream));
  SUCCEED(api.ncclRecv(block(Sent), WORDS, type, before, comm, stream));
  BACKGROUND(api.ncclGroupEnd(), comm);
  SUCCEED(api.ncclRedOpCreatePreMulSum(&twice, &two, type, ncclScalarHostImmediate, comm));
  SUCCEED(api.ncclAllReduce(block(In), block(Scaled), WORDS, type, twice, comm, stream));
  SUCCEED(api.ncclRedOpDestroy(twice, comm));
}

static void check(struct self self) {
  int words[19 * WORDS];
  const int ranks = self.ranks, sum = ranks * (ranks + 1) / 2;
  device_get(words, 0, sizeof words);
  for (int i = 0; i < WORDS; ++i) {
    const int* const at = words + i;
    REQUIRE(at[Sum * WORDS] == sum && at[Root * WORDS] == 101 && at[Scaled * WORDS] == 2 * sum);
    REQUIRE(self.rank != 0 || at[Rooted * WORDS] == ranks);
    REQUIRE(at[Part * WORDS] == 10 * (sum - ranks) + ranks * self.rank);
    REQUIRE(at[Sent * WORDS] == (self.rank + ranks - 1) % ranks + 1);
    for (int peer = 0; peer < ranks; ++peer) {
      REQUIRE(at[(All + peer) * WORDS] == peer + 1 && at[(Swapped + peer) * WORDS] == peer * 10 + self.rank);
    }
  }
}

static void registered(struct self self, ncclComm_t comm, struct streams* at) {
  const size_t bytes = 1 << 20;
  void *memory = NULL, *handle = NULL;
  ncclWindow_t window = NULL;
  int in = self.rank + 1, out = 0;
  SUCCEED(api.ncclMemAlloc(&memory, bytes));
  SUCCEED(api.ncclCommRegister(comm, memory, bytes, &handle));
  BACKGROUND(api.ncclCommWindowRegister(comm, memory, bytes, &window, 0), comm);
  device_put_at(memory, &in, sizeof in, at->own);
  SUCCEED(api.ncclAllReduce(memory, memory, 1, ncclInt, ncclSum, comm, at->own));
  device_get_at(&out, memory, sizeof out, at->own);
  REQUIRE(out == self.ranks * (self.ranks + 1) / 2);
  SUCCEED(api.ncclCommWindowDeregister(comm, window));
  SUCCEED(api.ncclCommDeregister(comm, handle));
  SUCCEED(api.ncclMemFree(memory));
}

static void end(ncclComm_t comm) {
  BACKGROUND(api.ncclCommFinalize(comm), comm);
  SUCCEED(api.ncclCommDestroy(comm));
}

static void calls(struct self self, struct streams* at) {
  struct watched watched = {made_in_the_background(self), NULL, self.rank, 0, 0, 0, ncclSuccess};
  pthread_t thread;
  ncclComm_t split = NULL;
  pthread_create(&thread, NULL, watch, &watched);
  for (int grouped = 0; grouped < 2; ++grouped) {
    fill(self);
    begin(at);
    if (grouped) SUCCEED(api.ncclGroupStart());
    enqueue(self, watched.comm, at->own);
    if (grouped) BACKGROUND(api.ncclGroupEnd(), watched.comm);
    finish(at, &watched);
    device_finish();
    check(self);
  }
  registered(self, watched.comm, at);
  BACKGROUND(api.ncclCommSplit(watched.comm, 0, -self.rank, &split, NULL), split);
  fill(self);
  SUCCEED(api.ncclAllReduce(block(In), block(Sum), WORDS, ncclInt, ncclSum, split, at->own));
  end(split);
  __atomic_store_n(&watched.stops, 1, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
  REQUIRE(watched.error == ncclSuccess);
  end(watched.comm);
}

/* Rank 0's kernel waits for calls that no rank makes: its watching thread aborts, the stream goes on, and those of the
 * other ranks hear of it. */
static void hang(struct self self, struct streams* at) {
  struct watched watched = {made_in_the_background(self), NULL, self.rank, 0, self.rank == 0, 0, ncclSuccess};
  pthread_t thread;
  if (self.rank == 0) {
    begin(at);
    SUCCEED(api.ncclAllReduce(block(In), block(Sum), WORDS, ncclInt, ncclSum, watched.comm, at->own));
    finish(at, &watched);
  }
  pthread_create(&thread, NULL, watch, &watched);
  if (self.rank == 0) device_finish();
  pthread_join(thread, NULL);
  REQUIRE(self.rank == 0 ? watched.turns > TURNS : watched.error == ncclRemoteError);
}

void process_group(struct self self) {
  int version = 0;
  struct streams at = {device_stream(), device_new_stream(), device_event(), device_event()};
  SUCCEED(api.ncclGetVersion(&version));
  REQUIRE(version > 20000);
  calls(self, &at);
  hang(self, &at);
}
