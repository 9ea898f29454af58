/* Every collective, type and operator, in place and not, with right results. */
#include <math.h>
#include <stdint.h>

#include "client.h"

#define ROOM (MOST * COUNT * 8)

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

static ncclResult_t with_config(enum kind kind, const void* in, void* out, size_t count, ncclDataType_t type,
                                ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
#ifdef NCCL_COLLCONFIG_INITIALIZER
  static const ncclCollConfig_t defaults = NCCL_COLLCONFIG_INITIALIZER;
  const void* const config = count % 2 == 0 ? NULL : &defaults;
#else
  const void* const config = NULL;
#endif
  switch (kind) {
    case AllReduce:
      return api.ncclAllReduceConfig(in, out, count, type, op, comm, stream, config);
    case Reduce:
      return api.ncclReduceConfig(in, out, count, type, op, root, comm, stream, config);
    case Broadcast:
      return api.ncclBroadcastConfig(in, out, count, type, root, comm, stream, config);
    case ReduceScatter:
      return api.ncclReduceScatterConfig(in, out, count, type, op, comm, stream, config);
    case AllGather:
      return api.ncclAllGatherConfig(in, out, count, type, comm, stream, config);
    case AlltoAll:
      return api.ncclAlltoAllConfig(in, out, count, type, comm, stream, config);
    case Gather:
      return api.ncclGatherConfig(in, out, count, type, root, comm, stream, config);
    default:
      return api.ncclScatterConfig(in, out, count, type, root, comm, stream, config);
  }
}

ncclResult_t call(enum kind kind, struct self self, const void* in, void* out, size_t count, ncclDataType_t type,
                  ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  static __thread unsigned calls;
  const unsigned form = ++calls % 3;
  const struct api* const by = form == 1 ? &papi : &api;
  if (form == 2 && kind != Bcast && kind != SendRecv)
    return with_config(kind, in, out, count, type, op, root, comm, stream);
  switch (kind) {
    case AllReduce:
      return by->ncclAllReduce(in, out, count, type, op, comm, stream);
    case Reduce:
      return by->ncclReduce(in, out, count, type, op, root, comm, stream);
    case Broadcast:
      return by->ncclBroadcast(in, out, count, type, root, comm, stream);
    case Bcast:
      return by->ncclBcast(out, count, type, root, comm, stream);
    case ReduceScatter:
      return by->ncclReduceScatter(in, out, count, type, op, comm, stream);
    case AllGather:
      return by->ncclAllGather(in, out, count, type, comm, stream);
    case AlltoAll:
      return by->ncclAlltoAll(in, out, count, type, comm, stream);
    case Gather:
      return by->ncclGather(in, out, count, type, root, comm, stream);
    case Scatter:
      return by->ncclScatter(in, out, count, type, root, comm, stream);
    default:
      by->ncclGroupStart();
      by->ncclSend(in, count, type, (self.rank + 1) % self.ranks, comm, stream);
      by->ncclRecv(out, count, type, (self.rank + self.ranks - 1) % self.ranks, comm, stream);
      return by->ncclGroupEnd();
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

void collectives(struct self self, ncclComm_t comm) {
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
