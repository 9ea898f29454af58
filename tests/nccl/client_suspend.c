/* Communicators that give their memory back for a while: on host memory, and on memory of GPUs. */
#include "client.h"

static void expect_stat(ncclComm_t comm, int stat, uint64_t expected) {
  uint64_t value = 77;
  SUCCEED(api.ncclCommMemStats(comm, stat, &value));
  REQUIRE(value == expected);
}

static void check_device_sum(struct self self, ncclComm_t comm) {
  const int in = self.rank + 1;
  int out = 0;
  device_put(0, &in, sizeof in);
  SUCCEED(api.ncclAllReduce(device_memory(), device_memory() + 64, 1, ncclInt, ncclSum, comm, device_stream()));
  device_get(&out, 64, sizeof out);
  REQUIRE(out == self.ranks * (self.ranks + 1) / 2);
}

static void expect_refused(struct self self, ncclComm_t comm) {
  int value = 1;
  EXPECT(ncclInvalidUsage, api.ncclAllReduce(&value, &value, 1, ncclInt, ncclSum, comm, NULL));
  REQUIRE(strstr(api.ncclGetLastError(comm), "the communicator is suspended") != NULL);
  if (on_device) {
    char* const at = device_memory();
    EXPECT(ncclInvalidUsage, api.ncclAllReduce(at, at + 64, 1, ncclInt, ncclSum, comm, device_stream()));
  }
  EXPECT(ncclInvalidUsage, api.ncclCommSuspend(comm, NCCL_SUSPEND));
  REQUIRE(self.ranks > 0 && value == 1);
}

/* A window, and with it the windows that count signals, which the program does not see. */
static void use_window(struct self self, ncclComm_t comm) {
  static __thread char part[64];
  const int next = (self.rank + 1) % self.ranks, last = (self.rank + self.ranks - 1) % self.ranks;
  const char byte = (char)(1 + self.rank);
  struct wait_signal wait = {1, last, 0, 0};
  ncclWindow_t window = NULL;
  memset(part, 0, sizeof part);
  SUCCEED(api.ncclCommWindowRegister(comm, part, sizeof part, &window, NCCL_WIN_COLL_SYMMETRIC));
  EXPECT(ncclInvalidUsage, api.ncclCommSuspend(comm, NCCL_SUSPEND));
  REQUIRE(strstr(api.ncclGetLastError(comm), "tuttiWindowDeregister comes first") != NULL);
  SUCCEED(api.ncclPutSignal(&byte, 1, ncclInt8, next, window, 0, 0, 0, 0, comm, NULL));
  SUCCEED(api.ncclWaitSignal(1, &wait, comm, NULL));
  REQUIRE(part[0] == 1 + last);
  SUCCEED(api.ncclCommWindowDeregister(comm, window));
}

void suspended(struct self self) {
  ncclComm_t comm = new_comm(self);
  EXPECT(ncclInvalidArgument, api.ncclCommSuspend(comm, 0));
  EXPECT(ncclInvalidArgument, api.ncclCommSuspend(comm, NCCL_SUSPEND | 2));
  EXPECT(ncclInvalidUsage, api.ncclCommResume(comm));
  SUCCEED(api.ncclGroupStart());
  EXPECT(ncclInvalidUsage, api.ncclCommSuspend(comm, NCCL_SUSPEND));
  EXPECT(ncclInvalidUsage, api.ncclGroupEnd());
  for (int again = 0; again < 3; ++again) {
    check_sum(comm, self.rank, self.ranks);
    if (on_device) check_device_sum(self, comm);
    use_window(self, comm);
    expect_stat(comm, 1, 0);
    SUCCEED((again % 2 == 0 ? api : papi).ncclCommSuspend(comm, NCCL_SUSPEND));
    expect_stat(comm, 1, 1);
    for (int stat = 0; stat < 4; ++stat) {
      if (stat != 1) expect_stat(comm, stat, 0);
    }
    expect_refused(self, comm);
    SUCCEED((again % 2 == 0 ? api : papi).ncclCommResume(comm));
    expect_stat(comm, 1, 0);
  }
  check_sum(comm, self.rank, self.ranks);
  if (on_device) check_device_sum(self, comm);
  SUCCEED(api.ncclCommSuspend(comm, NCCL_SUSPEND));
  SUCCEED(api.ncclCommDestroy(comm));
}
