/* A client of libnccl.so.2 in C, compiled against either nccl.h, that finds every function by dlsym.
 *
 *   client LIBRARY threads|processes RANKS     every collective, type, operator, in place and not; made communicators;
 *                                              calls that differ between ranks
 *   client LIBRARY device_threads|device_processes RANKS     the same on memory of GPUs, half of it captured in graphs
 *   client LIBRARY device_process_group_processes RANKS      what PyTorch calls, in its order
 *   client LIBRARY bad|device_bad 2            wrong arguments
 *   client LIBRARY device_refused 2            memory of GPUs where Tutti cannot use them
 */
#include "client.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct api api, papi;
int failures, on_device;
struct shared* shared;
static int processes, as_process_group; /* not threads; client_process_group.c alone */

static void* run_rank(void* argument) {
  const struct self self = *(struct self*)argument;
  if (on_device) device_use(self.rank);
  if (as_process_group) {
    process_group(self);
    return NULL;
  }
  ncclComm_t comm = new_comm(self), other = new_comm(self);
  collectives(self, comm);
  groups(self, comm, other);
  operators(self, comm);
  memory(self, comm);
  one_sided(self, comm);
  one_sided_in_groups(self, other);
  if (on_device) device_one_sided(self, comm, other);
  derived(self, comm);
  derived_in_a_group(self, comm);
  if (on_device) device_groups(self, comm, other);
  if (on_device) device_scalar(self, comm);
  if (on_device && (processes || device_count() >= self.ranks)) default_streams(self, comm);
  SUCCEED(api.ncclCommDestroy(other));
  SUCCEED(api.ncclCommDestroy(comm));
  suspended(self);
  watched(self);
  not_blocking(self);
  mismatches(self);
  return NULL;
}

static int load(const char* library) {
  void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) return fprintf(stderr, "%s\n", dlerror());
#define FIND(name) *(void**)&api.name = dlsym(handle, #name), *(void**)&papi.name = dlsym(handle, "p" #name);
#define FIND_CONFIG(name, ...) FIND(name)
  FUNCTIONS(FIND)
  WITH_CONFIG(FIND_CONFIG)
  FIND(ncclCommGrow)
  FIND(ncclCommGetUniqueId)
  FIND(ncclWinGetUserPtr)
  FIND(ncclSignal)
  FIND(ncclPutSignal)
  FIND(ncclWaitSignal)
  FIND(ncclDevCommCreate)
  FIND(ncclCommMemStats)
  FIND(ncclCommSuspend)
  FIND(ncclCommResume)
  if (on_device) device_load();
  return api.ncclWaitSignal == NULL || papi.ncclSignal == NULL;
}

int main(int argc, char** argv) {
  const int ranks = argc == 4 ? atoi(argv[3]) : 0;
  struct self selves[MOST];
  pthread_t threads[MOST];
  pthread_barrierattr_t attributes;
  if (ranks < 2 || ranks > MOST)
    return fprintf(stderr, "usage: client LIBRARY [device_]threads|[device_]processes|[device_]bad 2..4\n");
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&shared->barrier, &attributes, (unsigned)ranks);
  processes = strstr(argv[2], "processes") != NULL;
  as_process_group = strstr(argv[2], "process_group") != NULL;
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
  if (strcmp(argv[2], "device_refused") == 0) {
    refused_device_memory();
  } else if (strstr(argv[2], "bad") != NULL) {
    on_device ? bad_device_input() : bad_input();
  } else {
    for (int i = 1; !processes && i < ranks; ++i) pthread_create(&threads[i], NULL, run_rank, &selves[i]);
    run_rank(&selves[0]);
    for (int i = 1; !processes && i < ranks; ++i) pthread_join(threads[i], NULL);
  }
  for (int status; processes && wait(&status) > 0;) failures += status != 0;
  printf("%s with %d ranks: %d failures\n", argv[2], ranks, failures);
  return failures != 0;
}
