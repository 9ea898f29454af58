/* Calls that differ between ranks: an error on all of them that names two calls. */
#include <sched.h>

#include "client.h"

enum what { Count, Type, Operator, Root, Collective, Order, Transfer, Whats };
static const char* const kWhat[] = {"count", "type", "operator", "root", "collective", "order", "count of a transfer"};

/* Two calls, of which the last rank's differ from the others'. */
static ncclResult_t two_calls(enum what what, struct self self, const void* in, void* out, ncclComm_t comm,
                              cudaStream_t stream) {
  const int odd = self.rank == self.ranks - 1;
  enum kind first = AllReduce, second = AllReduce;
  if (what == Root || ((what == Collective || what == Order) && odd)) first = Broadcast;
  if (what == Order && !odd) second = Broadcast;
  if (what == Transfer) first = SendRecv;
  const size_t count = (what == Count || what == Transfer) && odd ? 9 : 8;
  const ncclResult_t result =
      call(first, self, in, out, count, what == Type && odd ? ncclInt32 : ncclFloat32,
           what == Operator && odd ? ncclMax : ncclSum, what == Root && odd ? 1 : 0, comm, stream);
  return result != ncclSuccess ? result : call(second, self, in, out, 8, ncclFloat32, ncclSum, 0, comm, stream);
}

/* The calls have been enqueued, half of them in a graph: streams end, and the communicator says what became of them. */
static ncclResult_t on_stream(enum what what, struct self self, ncclComm_t comm) {
  ncclResult_t state = ncclSuccess;
  const int captured = what % 2 == 1;
  if (captured) device_capture();
  const ncclResult_t result = two_calls(what, self, device_memory(), device_memory() + 1024, comm, device_stream());
  REQUIRE(result == ncclSuccess || result == ncclInvalidUsage); /* the others may have run already */
  if (captured) device_replay();
  device_finish();
  while (state == ncclSuccess) {
    SUCCEED(api.ncclCommGetAsyncError(comm, &state));
    sched_yield();
  }
  return state;
}

void mismatches(struct self self) {
  for (int what = 0; what < Whats; ++what) {
    float in[64] = {0}, out[64];
    ncclComm_t comm = new_comm(self);
    const ncclResult_t result =
        on_device ? on_stream((enum what)what, self, comm) : two_calls((enum what)what, self, in, out, comm, NULL);
    const char* const text = api.ncclGetLastError(comm);
    const char* const one_call = strstr(text, " called "); /* "rank 1 called … where rank 2 called …" */
    if (result != ncclInvalidUsage || one_call == NULL || strstr(one_call + 1, " called ") == NULL) {
      fprintf(stderr, "rank %d: calls that differ in %s: %d: %s\n", self.rank, kWhat[what], (int)result, text);
      __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
    }
    EXPECT(ncclInvalidUsage, api.ncclAllReduce(in, out, 8, ncclFloat32, ncclSum, comm, NULL)); /* it stays failed */
    pthread_barrier_wait(&shared->barrier);
    api.ncclCommAbort(comm);
  }
}
