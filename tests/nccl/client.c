/* A client of libnccl.so.2 in C, compiled against either nccl.h, that finds every function by dlsym.
 *
 *   client LIBRARY threads|processes RANKS     every collective, type, operator, in place and not; made communicators;
 *                                              calls that differ between ranks
 *   client LIBRARY device_threads|device_processes RANKS     the same on memory of GPUs, half of it captured in graphs
 *   client LIBRARY bad 2                       wrong arguments
 */
#include "client.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT 17
#define MOST 4
#define ROOM (MOST * COUNT * 8)

static int on_device;

struct api api;
int failures;

static struct shared { /* by threads or processes */
  pthread_barrier_t barrier;
  ncclUniqueId id;
} * shared;

struct self {
  int rank, ranks;
};

/* --- elements ----------------------------------------------------------------------------------------------------- */

static const struct format {
  int bytes, exponent, mantissa; /* exponent 0: an integer */
} kFormats[12] = {{1, 0, 0},  {1, 0, 0},  {4, 0, 0},   {4, 0, 0}, {8, 0, 0}, {8, 0, 0},
                  {2, 5, 10}, {4, 8, 23}, {8, 11, 52}, {2, 8, 7}, {1, 4, 3}, {1, 5, 2}};

/* Positive values that the type holds exactly. */
static void put(void* at, int type, double value) {
  const struct format f = kFormats[type];
  uint64_t bits = (uint64_t)value;
  if (f.exponent > 0) {
    int power;
    const double fraction = frexp(value, &power) * 2 - 1; /* value = (1 + fraction) · 2^(power − 1) */
    const uint64_t biased = (uint64_t)(power - 1 + (1 << (f.exponent - 1)) - 1);
    bits = (biased << f.mantissa) | (uint64_t)(fraction * (double)(1ull << f.mantissa));
  }
  memcpy(at, &bits, (size_t)f.bytes);
}

/* Element i of a rank's input: 1 or 2, so that sums and products are exact in every type. Averages: 2. */
static double input(int rank, int i, int op) {
  return op == ncclAvg ? 2 : 1 + (((unsigned)rank * 7u + (unsigned)i * 13u + (unsigned)i / 3u) & 1u);
}

static double folded(int ranks, int i, int op) {
  double value = input(0, i, op);
  for (int r = 1; r < ranks; ++r) {
    const double next = input(r, i, op);
    if (op == ncclSum) value += next;
    if (op == ncclProd) value *= next;
    if (op == ncclMax && next > value) value = next;
    if (op == ncclMin && next < value) value = next;
  }
  return value;
}

/* --- collectives -------------------------------------------------------------------------------------------------- */

enum kind { AllReduce, Reduce, Broadcast, Bcast, ReduceScatter, AllGather, AlltoAll, Gather, Scatter, SendRecv, Kinds };
static const char* const kNames[] = {"AllReduce", "Reduce",   "Broadcast", "Bcast",   "ReduceScatter",
                                     "AllGather", "AlltoAll", "Gather",    "Scatter", "SendRecv"};

static double expected(enum kind kind, struct self self, int root, int i, int op) {
  const int block = i / COUNT, at = i % COUNT, previous = (self.rank + self.ranks - 1) % self.ranks;
  switch (kind) {
    case AllReduce:
    case Reduce:
      return folded(self.ranks, i, op);
    case ReduceScatter:
      return folded(self.ranks, self.rank * COUNT + i, op);
    case Broadcast:
    case Bcast:
      return input(root, i, op);
    case AllGather:
    case Gather:
      return input(block, at, op);
    case AlltoAll:
      return input(block, self.rank * COUNT + at, op);
    case Scatter:
      return input(root, self.rank * COUNT + i, op);
    default:
      return input(previous, i, op);
  }
}

static ncclResult_t call(enum kind kind, struct self self, const void* in, void* out, size_t count, ncclDataType_t type,
                         ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  switch (kind) {
    case AllReduce:
      return api.ncclAllReduce(in, out, count, type, op, comm, stream);
    case Reduce:
      return api.ncclReduce(in, out, count, type, op, root, comm, stream);
    case Broadcast:
      return api.ncclBroadcast(in, out, count, type, root, comm, stream);
    case Bcast:
      return api.ncclBcast(out, count, type, root, comm, stream);
    case ReduceScatter:
      return api.ncclReduceScatter(in, out, count, type, op, comm, stream);
    case AllGather:
      return api.ncclAllGather(in, out, count, type, comm, stream);
    case AlltoAll:
      return api.ncclAlltoAll(in, out, count, type, comm, stream);
    case Gather:
      return api.ncclGather(in, out, count, type, root, comm, stream);
    case Scatter:
      return api.ncclScatter(in, out, count, type, root, comm, stream);
    default:
      api.ncclGroupStart();
      api.ncclSend(in, count, type, (self.rank + 1) % self.ranks, comm, stream);
      api.ncclRecv(out, count, type, (self.rank + self.ranks - 1) % self.ranks, comm, stream);
      return api.ncclGroupEnd();
  }
}

/* On host memory; or on the device, where every second call is captured and replayed. `in` and `out` lie in `from` and
   `to`, whose contents follow each other on the device. */
static void run(enum kind kind, struct self self, char* from, char* to, char* in, char* out, int type, int op, int root,
                ncclComm_t comm) {
  const int bytes = self.ranks * COUNT * kFormats[type].bytes;
  if (!on_device) {
    SUCCEED(call(kind, self, in, out, COUNT, (ncclDataType_t)type, (ncclRedOp_t)op, root, comm, NULL));
    return;
  }
  const size_t half = DEVICE_BYTES / 2;
  char* const memory = device_memory();
  char* const there = out >= from && out < from + ROOM ? memory + (out - from) : memory + half + (out - to);
  const int captured = (op + type) % 2 == 1;
  device_put(0, from, (size_t)bytes);
  if (captured) device_capture();
  SUCCEED(call(kind, self, memory + (in - from), there, COUNT, (ncclDataType_t)type, (ncclRedOp_t)op, root, comm,
               device_stream()));
  if (captured) device_replay();
  device_finish();
  device_get(from, 0, (size_t)bytes);
  device_get(to, half, (size_t)bytes);
}

static void one(enum kind kind, struct self self, int type, int op, int in_place, int root, ncclComm_t comm) {
  _Alignas(8) char from[ROOM], to[ROOM], want[8];
  const int bytes = kFormats[type].bytes, own = self.rank * COUNT * bytes;
  const int gathers = kind == AllGather || (kind == Gather && self.rank == root);
  const int receives = (kind != Reduce && kind != Gather) || self.rank == root;
  const int results = kind == AllGather || kind == Gather || kind == AlltoAll ? self.ranks * COUNT : COUNT;
  char *in = from, *out = to;
  if (kind == AlltoAll || kind == SendRecv) in_place = 0;
  if (kind == Bcast) in_place = 1;
  if (in_place) out = from;
  if (in_place && gathers) in = from + own;
  if (in_place && (kind == ReduceScatter || (kind == Scatter && self.rank == root))) out = from + own;
  if (in_place && ((kind == Gather && self.rank != root) || (kind == Scatter && self.rank != root))) out = to;
  for (int i = 0; i < self.ranks * COUNT; ++i) {
    if (in == from || i < COUNT) put(in + i * bytes, type, input(self.rank, i, op));
  }
  run(kind, self, from, to, in, out, type, op, root, comm);
  for (int i = 0; receives && i < results; ++i) {
    put(want, type, expected(kind, self, root, i, op));
    if (memcmp(out + i * bytes, want, (size_t)bytes) == 0) continue;
    fprintf(stderr, "rank %d: %s, type %d, op %d, in place %d, root %d: element %d is wrong\n", self.rank, kNames[kind],
            type, op, in_place, root, i);
    __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
    return;
  }
}

static void collectives(struct self self, ncclComm_t comm) {
  for (int kind = 0; kind < Kinds; ++kind) {
    const int folds = kind == AllReduce || kind == Reduce || kind == ReduceScatter;
    for (int type = 0; type < 12; ++type) {
      for (int op = 0; op < (folds ? 5 : 1); ++op) {
        one((enum kind)kind, self, type, op, 0, type % self.ranks, comm);
        one((enum kind)kind, self, type, op, 1, (type + 1) % self.ranks, comm);
      }
    }
  }
}

/* --- communicators ------------------------------------------------------------------------------------------------ */

static ncclUniqueId new_id(struct self self) {
  ncclUniqueId id;
  pthread_barrier_wait(&shared->barrier);
  if (self.rank == 0) SUCCEED(api.ncclGetUniqueId(&shared->id));
  pthread_barrier_wait(&shared->barrier);
  id = shared->id;
  return id;
}

static ncclComm_t new_comm(struct self self) {
  ncclComm_t comm = NULL;
  const ncclUniqueId id = new_id(self);
  SUCCEED(api.ncclCommInitRank(&comm, self.ranks, id, self.rank));
  return comm;
}

static void check_sum(ncclComm_t comm, int rank, int ranks) {
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
static void derived_in_a_group(struct self self, ncclComm_t comm) {
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

static void device_scalar(struct self self, ncclComm_t comm) {
  ncclRedOp_t op;
  float values[2] = {2, 3}, out = 0; /* the scalar, the input */
  char* const memory = device_memory();
  device_put(0, values, sizeof values);
  SUCCEED(api.ncclRedOpCreatePreMulSum(&op, memory, ncclFloat, ncclScalarDevice, comm));
  SUCCEED(api.ncclAllReduce(memory + 4, memory + 64, 1, ncclFloat, op, comm, device_stream()));
  device_get(&out, 64, sizeof out);
  REQUIRE(out == 6.0f * (float)self.ranks);
  SUCCEED(api.ncclRedOpDestroy(op, comm));
}

static void derived(struct self self, ncclComm_t comm) {
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

static void operators_and_memory(struct self self, ncclComm_t comm) {
  ncclRedOp_t op, live;
  float scalar = 2, in = 3, out = 0;
  void *block = NULL, *handle = &in;
  ncclWindow_t window = (ncclWindow_t)&in;
  SUCCEED(api.ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat, ncclScalarHostImmediate, comm));
  SUCCEED(api.ncclRedOpCreatePreMulSum(&live, &scalar, ncclFloat, ncclScalarDevice, comm));
  scalar = 10;
  SUCCEED(api.ncclAllReduce(&in, &out, 1, ncclFloat, op, comm, NULL));
  REQUIRE(out == 6.0f * (float)self.ranks);
  SUCCEED(api.ncclAllReduce(&in, &out, 1, ncclFloat, live, comm, NULL));
  REQUIRE(out == 30.0f * (float)self.ranks);
  SUCCEED(api.ncclRedOpDestroy(op, comm));
  SUCCEED(api.ncclRedOpDestroy(live, comm));
  EXPECT(ncclInvalidArgument, api.ncclRedOpDestroy(live, comm));
  SUCCEED(api.ncclMemAlloc(&block, 1 << 20));
  SUCCEED(api.ncclCommRegister(comm, block, 1 << 20, &handle));
  SUCCEED(api.ncclCommWindowRegister(comm, block, 1 << 20, &window, NCCL_WIN_COLL_SYMMETRIC));
  REQUIRE(handle == NULL && window == NULL);
  SUCCEED(api.ncclCommWindowDeregister(comm, window));
  SUCCEED(api.ncclCommDeregister(comm, handle));
  SUCCEED(api.ncclMemFree(block));
}

static void groups(struct self self, ncclComm_t a, ncclComm_t b) {
  int in[2] = {1, 2}, out[2] = {0, 0};
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  SUCCEED(api.ncclGroupStart());
  SUCCEED(api.ncclAllReduce(&in[0], &out[0], 1, ncclInt, ncclSum, a, NULL));
  SUCCEED(api.ncclGroupStart());
  SUCCEED(api.ncclAllReduce(&in[1], &out[1], 1, ncclInt, ncclSum, b, NULL));
  SUCCEED(api.ncclGroupEnd());
  REQUIRE(out[1] == 0); /* the outermost end runs it */
  SUCCEED(api.ncclGroupEnd());
  REQUIRE(out[0] == self.ranks && out[1] == 2 * self.ranks);
  out[0] = 0;
  SUCCEED(api.ncclGroupStart());
  SUCCEED(api.ncclAllReduce(&in[0], &out[0], 1, ncclInt, ncclSum, a, NULL));
  SUCCEED(api.ncclGroupSimulateEnd(&info));
  REQUIRE(info.estimatedTime > 0 && out[0] == 0);
}

static void not_blocking(struct self self) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t comm = NULL;
  ncclResult_t state = ncclInProgress;
  ncclUniqueId id = new_id(self);
  config.blocking = 0;
  EXPECT(ncclInProgress, api.ncclCommInitRankConfig(&comm, self.ranks, id, self.rank, &config));
  while (state == ncclInProgress) SUCCEED(api.ncclCommGetAsyncError(comm, &state));
  REQUIRE(state == ncclSuccess);
  check_sum(comm, self.rank, self.ranks);
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

/* --- calls that differ -------------------------------------------------------------------------------------------- */

static void mismatches(struct self self) {
  static const char* const kWhat[] = {"count", "type", "operator", "root", "collective", "order"};
  for (int what = 0; what < 6; ++what) {
    float in[64] = {0}, out[64];
    const int odd = self.rank == self.ranks - 1;
    ncclComm_t comm = new_comm(self);
    ncclResult_t result = ncclSuccess;
    const enum kind first = what == 3 ? Broadcast : (what == 4 || what == 5) && odd ? Broadcast : AllReduce;
    const enum kind second = what == 5 && odd ? AllReduce : what == 5 ? Broadcast : AllReduce;
    result = call(first, self, in, out, what == 0 && odd ? 9 : 8, what == 1 && odd ? ncclInt32 : ncclFloat32,
                  what == 2 && odd ? ncclMax : ncclSum, what == 3 && odd ? 1 : 0, comm, NULL);
    if (result == ncclSuccess) result = call(second, self, in, out, 8, ncclFloat32, ncclSum, 0, comm, NULL);
    const char* const text = api.ncclGetLastError(comm);
    const char* const one_call = strstr(text, " called "); /* "rank 1 called … where rank 2 called …" */
    if (result != ncclInvalidUsage || one_call == NULL || strstr(one_call + 1, " called ") == NULL) {
      fprintf(stderr, "rank %d: calls that differ in %s: %d: %s\n", self.rank, kWhat[what], (int)result, text);
      __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
    }
    pthread_barrier_wait(&shared->barrier);
    api.ncclCommAbort(comm);
  }
}

static void* run_rank(void* argument) {
  const struct self self = *(struct self*)argument;
  if (on_device) device_use(self.rank);
  ncclComm_t comm = new_comm(self), other = new_comm(self);
  collectives(self, comm);
  groups(self, comm, other);
  operators_and_memory(self, comm);
  derived(self, comm);
  derived_in_a_group(self, comm);
  if (on_device) device_scalar(self, comm);
  SUCCEED(api.ncclCommDestroy(other));
  SUCCEED(api.ncclCommDestroy(comm));
  if (on_device) return NULL;
  not_blocking(self);
  mismatches(self);
  return NULL;
}

static int load(const char* library) {
  void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) return fprintf(stderr, "%s\n", dlerror());
#define FIND(name) *(void**)&api.name = dlsym(handle, #name);
  FUNCTIONS(FIND)
  FIND(ncclCommGrow)
  FIND(ncclCommGetUniqueId)
  FIND(ncclSignal) FIND(ncclAllReduceConfig) FIND(ncclDevCommCreate) if (on_device) device_load();
  return api.ncclSignal == NULL;
}

int main(int argc, char** argv) {
  const int ranks = argc == 4 ? atoi(argv[3]) : 0;
  struct self selves[MOST];
  pthread_t threads[MOST];
  pthread_barrierattr_t attributes;
  if (ranks < 2 || ranks > MOST)
    return fprintf(stderr, "usage: client LIBRARY [device_]threads|[device_]processes|bad 2..4\n");
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&shared->barrier, &attributes, (unsigned)ranks);
  const int processes = strstr(argv[2], "processes") != NULL;
  on_device = strncmp(argv[2], "device_", 7) == 0;
  for (int i = 0; i < ranks; ++i) selves[i] = (struct self){i, ranks};
  for (int i = 1; processes && i < ranks; ++i) {
    if (fork() == 0) {
      if (load(argv[1]) != 0) return 2;
      run_rank(&selves[i]);
      return failures != 0;
    }
  }
  if (load(argv[1]) != 0) return 2;
  if (strcmp(argv[2], "bad") == 0) {
    bad_input();
  } else {
    for (int i = 1; !processes && i < ranks; ++i) pthread_create(&threads[i], NULL, run_rank, &selves[i]);
    run_rank(&selves[0]);
    for (int i = 1; !processes && i < ranks; ++i) pthread_join(threads[i], NULL);
  }
  for (int status; processes && wait(&status) > 0;) failures += status != 0;
  printf("%s with %d ranks: %d failures\n", argv[2], ranks, failures);
  return failures != 0;
}
