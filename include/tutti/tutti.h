/* Tutti — communication collectives, checked before they run, explained when they run, named when they fail.
 *
 * The C interface: stable ABI, NCCL's shape (ncclAllReduce → tuttiAllReduce). Conventions:
 *
 *   - Every function returns a tuttiResult_t; tuttiGetLastError() returns the text of this thread's last failure.
 *   - `count` is a number of elements, of the buffer that each function names.
 *   - Buffers may have any alignment their element type allows. Output may be the input only where "in place" is
 *     described; any other overlap of input and output is tuttiInvalidArgument.
 *   - `stream` NULL: the call blocks until this rank's part is done: output is valid, input may be reused. Otherwise
 *     the call returns at once and runs, in order, on that stream's thread (tuttiStreamCreate). With buffers in memory
 *     of a GPU, `stream` is a cudaStream_t, NULL is CUDA's default stream, and the call returns when it has been
 *     enqueued (docs/gpu.md).
 *   - When a call has returned (on a stream: when it has been synchronised), with success or an error, its buffers
 *     belong to the caller: no rank writes to them any more, and no rank succeeds with data that it reads from them
 *     later, even if it was stopped (SIGSTOP, a debugger) in the middle of a copy and continues. After an error the
 *     contents of the output, and of an in-place input, are undefined. One exception: a failed call waits at most 10
 *     seconds for another rank that is writing to its buffers through the kernel (process_vm_writev, to ordinary
 *     memory only). A rank that gets no processor for so long may still write there later. TUTTI_CMA=off excludes this.
 *   - All ranks of a communicator make the same calls in the same order, with the same count, type, operator and
 *     root. If they do not, every rank gets tuttiMismatch, at that call or at its next, naming both ranks and both
 *     calls. "At its next": a rank that only sends (the root of a broadcast) may be done before any other rank has
 *     noticed. The next call may be tuttiCommDestroy (which reports once per process: see there). The output of such
 *     a call is undefined.
 *   - Ranks in a deadlock, in one communicator or in several (with different orders of calls), get tuttiMismatch
 *     within seconds, with the cycle of waits. That requires certainty: every thread that could still make the
 *     missing calls is known to wait. Otherwise the text of the time-out, and a warning after TUTTI_STALL_WARNING
 *     seconds, list the known waits.
 *   - A communicator that has failed stays failed: each later call returns its first error.
 *   - An invalid argument is reported before any buffer is touched, and leaves the communicator usable.
 *   - Thread-safety: calls on different communicators may come from any threads at the same time; calls on one
 *     communicator too, and run in the order in which they were made. tuttiCommAbort may come from any thread at any
 *     time. A child of fork() must not use its parent's communicators: it gets tuttiInvalidUsage.
 *   - No function calls exit, changes signal handlers or raises signals, and nothing is printed below TUTTI_LOG's
 *     level. The library never uses descriptors 0, 1 and 2, even in a program started with those closed.
 *   - Ranks of one host and user read and write each other's memory through the kernel if it allows that
 *     (TUTTI_CMA=off: never). If Yama restricts it (ptrace_scope 1), a rank lets processes attach to it, as a
 *     debugger may, that descend from the nearest common ancestor of all ranks of its host: usually the launcher.
 *     Ranks whose only common ancestor is the machine's first process let no process attach (two ranks: each other)
 *     and use staging memory.
 */
#ifndef TUTTI_TUTTI_H_
#define TUTTI_TUTTI_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 1
#define TUTTI_VERSION_PATCH 0
#define TUTTI_API __attribute__((visibility("default")))

/* The result of a call. */
typedef enum {
  tuttiSuccess = 0,
  tuttiInvalidArgument = 1, /* an argument is wrong; nothing was touched */
  tuttiInvalidUsage = 2,    /* the call does not fit the state: after destroy, in a forked child, ... */
  tuttiSystemError = 3,     /* the operating system refused a request */
  tuttiOutOfMemory = 4,     /* not enough memory */
  tuttiTimeout = 5,         /* a wait passed its deadline (TUTTI_TIMEOUT) */
  tuttiPeerFailed = 6,      /* another rank died or its host was lost */
  tuttiMismatch = 7,        /* ranks made different calls */
  tuttiAborted = 8,         /* the communicator was aborted */
  tuttiProtocolError = 9,   /* bytes from a peer were invalid */
  tuttiUnsupported = 10,    /* this build or machine does not support it */
  tuttiInternalError = 11,  /* a defect of Tutti itself */
  tuttiInProgress = 12,     /* not finished yet */
  tuttiRevoked = 13         /* a rank has revoked the communicator: tuttiCommRevoke */
} tuttiResult_t;

/* Element types. f16: IEEE binary16; bf16: bfloat16; f8e4m3, f8e5m2: OCP 8-bit floats. */
typedef enum {
  tuttiInt8 = 0,
  tuttiUint8 = 1,
  tuttiInt32 = 2,
  tuttiUint32 = 3,
  tuttiInt64 = 4,
  tuttiUint64 = 5,
  tuttiFloat16 = 6,
  tuttiFloat32 = 7,
  tuttiFloat64 = 8,
  tuttiBfloat16 = 9,
  tuttiFloat8e4m3 = 10,
  tuttiFloat8e5m2 = 11,
  tuttiInt16 = 12,
  tuttiUint16 = 13
} tuttiDataType_t;

/* Reduction operators: the built-in ones, and those that tuttiRedOpCreatePreMulSum made for a communicator. Integer
 * sums and products wrap; tuttiAvg of integers rounds towards zero.
 * NaN: an element that is NaN on any rank is NaN in the result, also of tuttiMin and tuttiMax (IEEE 754's minimum
 * and maximum, not minimumNumber and C's fmin). Payload and sign of the NaN are not specified. Zeros are equal: the
 * minimum of -0 and +0 is either. 8-bit floats saturate: too large results become the largest finite value.
 * tuttiBitAnd, tuttiBitOr and tuttiBitXor combine the bits of the elements, of floats too. */
typedef int tuttiRedOp_t;
enum {
  tuttiSum = 0,
  tuttiProd = 1,
  tuttiMin = 2,
  tuttiMax = 3,
  tuttiAvg = 4,
  tuttiBitAnd = 5,
  tuttiBitOr = 6,
  tuttiBitXor = 7,
  tuttiNumOps = 8 /* built-in ones */
};

typedef struct tuttiComm* tuttiComm_t;
typedef struct tuttiStream* tuttiStream_t;
typedef struct tuttiEvent* tuttiEvent_t;
typedef struct tuttiWindow* tuttiWindow_t;
/* A function of the program that a stream runs. */
typedef void (*tuttiHostFn_t)(void* argument);

/* What all ranks need to join a communicator: addresses, port and a 256-bit secret key. Pass it on by any means you
 * trust (MPI_Bcast, a file, a store); anyone who has it can join. */
typedef struct {
  unsigned char bytes[128];
} tuttiUniqueId;

/* --- the library ------------------------------------------------------------------------------------------------- */

/* "0.1.0". Never fails. */
TUTTI_API const char* tuttiGetVersion(void);
/* The name of a code, e.g. "peer failed". Never fails. */
TUTTI_API const char* tuttiGetErrorString(tuttiResult_t result);
/* The text of this thread's last failed call: rank, call, cause, remedy. "" if none failed. Valid until this
 * thread's next call. */
TUTTI_API const char* tuttiGetLastError(void);

/* Writes the last calls of this process's ranks into a file that only this user can read, for `tutti trace`: %h in the
 * path stands for the host's name, %p for the process's number. Any thread, also while calls run or have failed. */
TUTTI_API tuttiResult_t tuttiWriteTrace(const char* path);

/* For libraries built on this one: the settings of `tutti env`, and the log. */

/* *value: the text of a variable that `tutti env` lists: of Tutti's own the value in effect, of another program's what
 * the environment says, or NULL if that is unset. Valid until this thread's next call. */
TUTTI_API tuttiResult_t tuttiGetVariable(const char* name, const char** value);
/* A default for one of Tutti's own variables: it applies where the environment does not set the variable, to what is
 * made from now on. */
TUTTI_API tuttiResult_t tuttiSetDefault(const char* name, const char* value);
/* Writes a line to the library's log if TUTTI_LOG admits the level, "error", "warn", "info" or "debug". */
TUTTI_API tuttiResult_t tuttiLog(const char* level, const char* text);

/* --- communicators ----------------------------------------------------------------------------------------------- */

/* Makes an id and opens the rendezvous server in this process, which must take part (usually as rank 0). */
TUTTI_API tuttiResult_t tuttiGetUniqueId(tuttiUniqueId* id);

/* Joins as `rank` of `ranks`; returns when all ranks have joined, or after TUTTI_INIT_TIMEOUT seconds with an error
 * that names the missing ranks. Ranks may be processes, of one host or many, or threads. Between tuttiGroupStart and
 * tuttiGroupEnd one thread can join as several ranks: *comm is valid after the group's end. */
TUTTI_API tuttiResult_t tuttiCommInitRank(tuttiComm_t* comm, int ranks, tuttiUniqueId id, int rank);
/* What a communicator may be told. Begin with TUTTI_CONFIG_INITIALIZER; a field that is 0 has its default. */
#define TUTTI_MAX_NAME 64
typedef struct {
  size_t size;         /* sizeof(tuttiConfig_t) */
  int blocking;        /* 1: calls that make or end the communicator return when that is done. 0: they return
                        * tuttiInProgress at once; tuttiCommGetAsyncError says when it is done, and how */
  const char* name;    /* names the communicator in messages: the same on all ranks, at most TUTTI_MAX_NAME bytes */
  double timeout;      /* seconds that a call may wait without progress; default TUTTI_TIMEOUT */
  double init_timeout; /* seconds that making the communicator may take; default TUTTI_INIT_TIMEOUT */
  const char* timeout_setting; /* what errors tell the user to raise when `timeout` has passed, for a library with a
                                * setting of its own ("--timeout"); at most TUTTI_MAX_NAME bytes; default: this field */
} tuttiConfig_t;
#define TUTTI_CONFIG_INITIALIZER \
  { sizeof(tuttiConfig_t), 1, NULL, 0, 0, NULL }
/* tuttiCommInitRank with a configuration; NULL: all defaults. Splits take over the time-outs. With blocking = 0, *comm
 * is valid at once for tuttiCommGetAsyncError, tuttiCommGetErrorText, tuttiCommAbort and tuttiCommDestroy; other calls
 * are tuttiInProgress until it is made. */
TUTTI_API tuttiResult_t tuttiCommInitRankConfig(tuttiComm_t* comm, int ranks, tuttiUniqueId id, int rank,
                                                const tuttiConfig_t* config);
/* Joins as the launcher's environment says: tutti run, torchrun, srun, mpirun. Without a launcher: one rank, alone.
 * Under `tutti run --restarts` or `--min-ranks` all processes of the job call it again when a communicator has failed,
 * and so does each process that was started anew: it returns the communicator of those that there are then, when all of
 * them have called it. It waits for them as long as TUTTI_TIMEOUT or TUTTI_INIT_TIMEOUT says, whichever is longer,
 * since others come when a call of theirs has failed, which may take the one, and then make connections, which may take
 * the other; then an error names those that have not come. If a rank dies meanwhile, the error is tuttiPeerFailed, and
 * they call it again. tuttiAborted: the job ends, or its launcher has ended. See docs/elastic.md. */
TUTTI_API tuttiResult_t tuttiCommInitEnv(tuttiComm_t* comm);
/* The job, as its launcher tells it under `tutti run --restarts` or `--min-ranks`. Set `size`, at least to that of the
 * fields up to `ends_in`. Does not wait. */
typedef struct {
  size_t size;         /* sizeof(tuttiJobState_t) */
  unsigned generation; /* of the communicator that tuttiCommInitEnv has made last, from 1; 0: no such launcher */
  int newcomer;        /* 1: this process has come after the first generation, and knows nothing of the work yet */
  unsigned waiting;    /* processes that wait for the next tuttiCommInitEnv of all */
  double ends_in;      /* seconds until the job is to end, since its launcher has got SIGTERM, or tuttiSetJobEnd has
                        * told; negative: it goes on */
} tuttiJobState_t;
TUTTI_API tuttiResult_t tuttiGetJobState(tuttiJobState_t* state);
/* From now on tuttiGetJobState tells this process that the job ends in `seconds`, unless its launcher says sooner: for
 * a handler of the program's own SIGTERM, under a launcher that passes this on to its processes. Async-signal-safe. A
 * negative number, or NaN, takes it back; infinity counts as 10^9 seconds, as all above that do. The other ranks do not
 * hear of it: agree on it in a collective. */
TUTTI_API void tuttiSetJobEnd(double seconds);
/* All `ranks` ranks in this process: comms[i] is rank i, for one thread each, or for one thread in groups. */
TUTTI_API tuttiResult_t tuttiCommInitAll(tuttiComm_t* comms, int ranks);
/* A communicator of the ranks that pass the same `colour`, ordered by `key`, then by rank. Every rank of `comm`
 * calls it, at the same place among its calls: another call there is tuttiMismatch. A rank with colour
 * TUTTI_NO_COLOUR joins no communicator and gets *split = NULL. In a group *split is valid after the group's end;
 * splits of a group run before its other calls. */
#define TUTTI_NO_COLOUR (-1)
TUTTI_API tuttiResult_t tuttiCommSplit(tuttiComm_t comm, int colour, int key, tuttiComm_t* split);
/* A communicator of the ranks that are not among the `count` excluded ones, in their order. Those ranks call it,
 * outside groups, with the same excluded ranks in any order; the excluded ones need not exist any more. `comm` may have
 * failed or not, and must still be destroyed. After TUTTI_INIT_TIMEOUT seconds an error names the ranks that have not
 * called it. */
TUTTI_API tuttiResult_t tuttiCommShrink(tuttiComm_t comm, const int* excluded, int count, tuttiComm_t* shrunk);

/* A communicator of `ranks` ranks: those of `comm`, which keep their numbers, but for the `count` replaced ones; new
 * processes take the places of these, and the places from the size of `comm` on. The ranks that stay call it, outside
 * groups, with the same arguments, after a failure of `comm` too; new processes call tuttiCommInitRank with the id that
 * tuttiCommGetGrowId has made, and one of the open places. The name of `comm` is the new one's on all ranks, also where
 * a new process passes another. Ranks that stay keep the time-outs of `comm`; new processes have those that they pass.
 * As tuttiCommShrink otherwise. */
TUTTI_API tuttiResult_t tuttiCommGrow(tuttiComm_t comm, const int* replaced, int count, int ranks, tuttiComm_t* grown);
/* *id: what new processes need to join in the next tuttiCommGrow of `comm` with these arguments. On the first rank that
 * stays, before its tuttiCommGrow; a process that comes earlier, or after one that failed, is refused. */
TUTTI_API tuttiResult_t tuttiCommGetGrowId(tuttiComm_t comm, const int* replaced, int count, int ranks,
                                           tuttiUniqueId* id);

/* Frees the memory of `comm` - staging memory, connections, what calls were compiled to, memory of GPUs - until
 * tuttiCommResume, and keeps its ranks, its control connection and the numbers of its calls: ranks that die meanwhile
 * are noticed. Every rank calls it, outside groups, at the same place among its calls, and no other thread makes calls
 * on `comm` meanwhile. It waits for this rank's calls on streams. tuttiInvalidUsage on all ranks, with nothing changed,
 * where a rank has windows or registered buffers, calls of it are captured in CUDA graphs, or a message that was sent
 * has not been received. A call on a suspended communicator is tuttiInvalidUsage; tuttiCommShrink, tuttiCommGrow,
 * tuttiCommRevoke, tuttiCommAbort, tuttiCommFinalize and tuttiCommDestroy are not. NCCL's name is ncclCommSuspend. */
TUTTI_API tuttiResult_t tuttiCommSuspend(tuttiComm_t comm);
/* Makes all of that again, on all ranks. tuttiInvalidUsage if `comm` is not suspended. An error, as of a rank that has
 * died or of memory that is not there any more, fails the communicator. */
TUTTI_API tuttiResult_t tuttiCommResume(tuttiComm_t comm);

/* From now on this rank's calls on `comm`, also those that wait already, may wait `seconds` without progress, in place
 * of the configuration's `timeout`; 0: TUTTI_TIMEOUT. Ranks may have different limits: the first that passes counts. */
TUTTI_API tuttiResult_t tuttiCommSetTimeout(tuttiComm_t comm, double seconds);

/* Waits for the communicator's calls on streams and leaves, as tuttiCommDestroy does, with the same results. `comm`
 * stays valid for tuttiCommGetAsyncError, tuttiCommGetErrorText, tuttiCommFailedRanks and tuttiCommDestroy, which then
 * frees it, and returns an error of what was finalized in the background unless one of these has told it. */
TUTTI_API tuttiResult_t tuttiCommFinalize(tuttiComm_t comm);
/* Waits for the communicator's calls on streams and leaves. The process's last communicator waits, at most
 * TUTTI_TIMEOUT seconds, until all other ranks have left too. It reports a rank that made fewer or more calls
 * (tuttiMismatch), has not left by then (tuttiTimeout), or died or stopped before it left (tuttiPeerFailed). In a
 * process with several communicators, or several ranks of one, only the last tuttiCommDestroy waits, since one thread
 * may destroy them in turn. The others report what is known when they leave: that their calls differ from those of a
 * rank that has left before. The last one also reports mismatches that were found later. `comm` is invalid afterwards,
 * whatever is returned, with one exception: if this thread has a group with calls on `comm` open, they would be lost,
 * so the result is tuttiInvalidUsage and nothing is done.
 *
 * Destroy every communicator, stream and operator, when no other call uses it. If only other ranks have noticed an
 * error in a rank's last call on a communicator, its tuttiCommDestroy returns that error.
 * A process that returns from main or calls exit(0) with communicators left, and no call pending on them, leaves them
 * as tuttiCommDestroy does: it waits, as above, so that no other rank is harmed; errors go to the log. If a call is
 * pending, on a stream or in a group, the communicator fails on all ranks. A process that ends in any other way (a
 * status other than 0, _exit, abort, a signal) counts as dead. A call of another rank then succeeds if all that it
 * needs of that process was sent before; every other call fails. Where main ends with pthread_exit, Tutti's threads
 * go on. */
TUTTI_API tuttiResult_t tuttiCommDestroy(tuttiComm_t comm);
/* The same where no error can be returned, as in a destructor: logs it, at error level, unless a call has returned
 * it. */
TUTTI_API void tuttiCommRelease(tuttiComm_t comm);
/* Makes every rank's pending and later calls on this communicator fail with tuttiAborted, in bounded time; if it has
 * failed before, they keep that code. The communicator must still be destroyed. */
TUTTI_API tuttiResult_t tuttiCommAbort(tuttiComm_t comm);
/* The same with tuttiRevoked: for a rank that has heard of a failure, or wants another membership, and takes all ranks
 * out of their calls, so that they go on in another communicator (tuttiCommShrink, tuttiCommGrow). Calls that begin
 * afterwards are tuttiRevoked also where the communicator has failed before, with the text of that failure behind it;
 * calls that it has ended keep its code. An aborted communicator stays aborted. The revocation reaches all ranks that
 * live, whoever has died: rank 0, or the process that made the id, too. MPI's name is MPI_Comm_revoke. */
TUTTI_API tuttiResult_t tuttiCommRevoke(tuttiComm_t comm);
/* *result: tuttiSuccess, or why the communicator has failed, also in calls still running on streams; tuttiInProgress
 * while it is made or finalized in the background. Does not wait. */
TUTTI_API tuttiResult_t tuttiCommGetAsyncError(tuttiComm_t comm, tuttiResult_t* result);
/* Why this communicator has failed, as known when this was first called, or "". Valid until it is destroyed. */
TUTTI_API const char* tuttiCommGetErrorText(tuttiComm_t comm);

/* Which ranks have died, or stopped, before they left, as far as this rank knows: what tuttiCommShrink is to exclude
 * after tuttiPeerFailed. *count: on entry the room in `ranks`, on return how many there are; as many as there is room
 * for are written, in ascending order. `ranks` NULL: only counts. More may follow: each rank learns of a death by
 * itself, a stopped one after TUTTI_HEARTBEAT_TIMEOUT. */
TUTTI_API tuttiResult_t tuttiCommFailedRanks(tuttiComm_t comm, int* ranks, int* count);

/* How a call was executed, as seen by one rank; texts end with '\0'. Set `size` to sizeof(tuttiCallInfo) first: with an
 * older, shorter struct the fields that it lacks are left out. docs/selection.md explains the words. */
typedef struct {
  size_t size;
  char algorithm[40]; /* "ring"; "direct" if blocks go straight to their receivers; "none" */
  char transport[40]; /* of the links that this rank used: "shm", "shm+tcp"; "none" */
  char delivery[40];  /* "inline", "staged", "mapped", "pushed", "ll", "ll128", "copy_engine", "nvls", "zcopy", "cma",
                         "direct-store"; "a+b" */
  char method[24];    /* what ran the plan: "lanes", "slots", "get", "ll", "ll128", "copy_engine", "nvls"; "none" */
  size_t window;      /* bytes of a block (of a message, where blocks go straight to their receivers) a round */
  size_t width;       /* replicas of the plan's lanes, over disjoint windows */
  double model; /* seconds that the cost model predicts, idle machine and links assumed; 0: it has none of the call */
} tuttiCallInfo;
/* Describes this rank's last call on `comm`; waits for calls that are still queued on streams. Meant for people and
 * tools; programs should not depend on it. */
TUTTI_API tuttiResult_t tuttiCommGetLastCall(tuttiComm_t comm, tuttiCallInfo* info);

/* What one rank's calls on a communicator have sent. Set `size` to sizeof(tuttiTraffic) first. */
typedef struct {
  size_t size;
  uint64_t sent; /* bytes of payload in all messages of the plans that ran, one copy for each receiver; what a rank
                  * sends itself is not counted, nor what a transport adds or sends again */
} tuttiTraffic;
/* This rank's traffic since the communicator was made, by calls that succeeded; waits for calls that are still queued
 * on streams. Compare it with an algorithm's formula: a ring all-reduce of S bytes sends 2(n-1)/n * S. */
TUTTI_API tuttiResult_t tuttiCommGetTraffic(tuttiComm_t comm, tuttiTraffic* traffic);

/* What messages call the communicator. Valid until it is destroyed. */
TUTTI_API tuttiResult_t tuttiCommGetName(tuttiComm_t comm, const char** name);
TUTTI_API tuttiResult_t tuttiCommCount(tuttiComm_t comm, int* ranks);
TUTTI_API tuttiResult_t tuttiCommUserRank(tuttiComm_t comm, int* rank);

/* A sum in which this rank's input is first multiplied by *scalar (one element of `type`; ranks may differ). Local:
 * other ranks do not take part. A scalar of the host's is read now. One in memory of the communicator's GPU is read by
 * each call when it runs on its stream, also in a replayed graph: it must remain until then. */
TUTTI_API tuttiResult_t tuttiRedOpCreatePreMulSum(tuttiRedOp_t* op, const void* scalar, tuttiDataType_t type,
                                                  tuttiComm_t comm);
TUTTI_API tuttiResult_t tuttiRedOpDestroy(tuttiRedOp_t op, tuttiComm_t comm);

/* --- memory ------------------------------------------------------------------------------------------------------ */

/* Memory in which ranks of this host can read inputs in place and store results directly, which saves calls one or
 * two copies: zeroed, aligned to 2 MiB, allocated at once. After a fork() parent and child share it. Each block uses
 * a file descriptor. It is ordinary memory below 8 KiB, since such short messages are copied anyway. It is also
 * ordinary memory, with a warning in the log, if files may not be so large (ulimit -f), or if the descriptor would
 * be one of the last that this process may have: an eighth of them, from 12 to 64, is reserved for the program and
 * for connections. If a call failed while another process was stopped in the middle of a store, the part of the
 * buffer to which that process may still store becomes ordinary memory until it is freed. Calls accept any other
 * memory as well. */
TUTTI_API tuttiResult_t tuttiMemAlloc(void** pointer, size_t bytes);
/* tuttiMemAlloc with flags. TUTTI_MEM_MAPPED: memory of any size that peers can map, or else tuttiOutOfMemory. */
#define TUTTI_MEM_MAPPED 1u
/* TUTTI_MEM_DEVICE: memory of the GPU that the calling thread uses (cudaSetDevice), not zeroed. */
#define TUTTI_MEM_DEVICE 2u
TUTTI_API tuttiResult_t tuttiMemAllocWithFlags(void** pointer, size_t bytes, unsigned flags);
TUTTI_API tuttiResult_t tuttiMemFree(void* pointer);

/* Lets the other ranks' GPUs read a buffer of a GPU where it lies, without a copy, in calls of this communicator.
 * (Host memory needs no registration: see tuttiMemAlloc.) Each rank calls it alone, when it likes; a buffer may be
 * registered on one rank and not on another. At least one byte, of any length; all allocations that hold it are
 * registered. *registration is 0 where nothing is gained. Memory: of cudaMalloc, of tuttiMemAllocWithFlags, or mapped
 * (cuMemMap) if it was created with descriptors. Within a group, too, it happens at once. It waits until threads of
 * the peers have mapped the buffer, at most 2 s: some drivers map memory only when no kernel runs. Then calls use the
 * buffer as soon as all have. Buffers of calls that are captured in a graph are registered by themselves.
 * Errors: tuttiUnsupported, with the reason, if the memory cannot be given to the others, or one of them cannot map
 * it: calls work as without; tuttiInvalidArgument if it is not memory of the rank's GPU; tuttiPeerFailed;
 * tuttiSystemError and tuttiOutOfMemory of the driver. */
TUTTI_API tuttiResult_t tuttiCommRegister(tuttiComm_t comm, const void* buffer, size_t bytes, uint64_t* registration);
/* This rank's calls that are made later do not use the buffer, and peers unmap it when those made before have ended,
 * and the graphs that captured some are gone. Memory that was freed without a word is noticed when a call uses its
 * address again; graphs that use it must not be launched. Free memory of cudaMalloc only when the calls with it have
 * ended on all ranks. 0 is ignored. */
TUTTI_API tuttiResult_t tuttiCommDeregister(tuttiComm_t comm, uint64_t registration);

/* --- host streams and events ------------------------------------------------------------------------------------- */

/* A stream runs its calls in order on a thread of its own. Any thread may use a stream or an event, also while
 * another one destroys it: later calls get tuttiInvalidUsage. */
TUTTI_API tuttiResult_t tuttiStreamCreate(tuttiStream_t* stream);
/* Waits for all calls made on the stream; returns the first error among them since the last synchronisation. */
TUTTI_API tuttiResult_t tuttiStreamSynchronize(tuttiStream_t stream);
/* tuttiInProgress while calls on the stream are pending; then what tuttiStreamSynchronize would return, and still
 * will. Does not wait. */
TUTTI_API tuttiResult_t tuttiStreamQuery(tuttiStream_t stream);
/* Later calls on the stream run after the point that the event recorded last; no effect if it has recorded none. An
 * error recorded with it becomes this stream's too. */
TUTTI_API tuttiResult_t tuttiStreamWaitEvent(tuttiStream_t stream, tuttiEvent_t event);
/* Makes the stream's thread call function(argument) after all earlier calls on the stream, whether they succeeded or
 * not. Later calls on the stream wait for its return. It may make calls on streams; it must not wait for its own
 * stream. A C++ exception that leaves it becomes the stream's error (tuttiInvalidUsage). */
TUTTI_API tuttiResult_t tuttiStreamLaunchHostFunc(tuttiStream_t stream, tuttiHostFn_t function, void* argument);
/* Waits as tuttiStreamSynchronize does, then ends the thread. */
TUTTI_API tuttiResult_t tuttiStreamDestroy(tuttiStream_t stream);

/* An event marks a point in a stream's order. tuttiEventRecord, tuttiStreamWaitEvent and tuttiStreamLaunchHostFunc
 * are tuttiInvalidUsage inside a group, whose calls reach their streams only at its end. */
TUTTI_API tuttiResult_t tuttiEventCreate(tuttiEvent_t* event);
/* Records all calls made on the stream so far; replaces what the event recorded before. */
TUTTI_API tuttiResult_t tuttiEventRecord(tuttiEvent_t event, tuttiStream_t stream);
/* tuttiInProgress while recorded calls are pending; then tuttiSuccess (also if nothing was recorded), or the
 * stream's first error since its last synchronisation, which the stream still returns as well. Does not wait. */
TUTTI_API tuttiResult_t tuttiEventQuery(tuttiEvent_t event);
/* Waits for the recorded calls; returns as above. */
TUTTI_API tuttiResult_t tuttiEventSynchronize(tuttiEvent_t event);
/* Allowed at any time: streams that wait for the recorded calls continue to do so. */
TUTTI_API tuttiResult_t tuttiEventDestroy(tuttiEvent_t event);

/* --- collectives: n ranks ---------------------------------------------------------------------------------------- */

/* recvbuff[i] ← fold over all ranks of sendbuff[i], i < count, the same bits on all ranks.
 * In place: recvbuff == sendbuff. */
TUTTI_API tuttiResult_t tuttiAllReduce(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t type,
                                       tuttiRedOp_t op, tuttiComm_t comm, tuttiStream_t stream);
/* As tuttiAllReduce, but only `root` receives; others may pass recvbuff NULL. */
TUTTI_API tuttiResult_t tuttiReduce(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t type,
                                    tuttiRedOp_t op, int root, tuttiComm_t comm, tuttiStream_t stream);
/* recvbuff ← root's sendbuff, `count` elements. Others may pass sendbuff NULL. In place: recvbuff == sendbuff. */
TUTTI_API tuttiResult_t tuttiBroadcast(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t type,
                                       int root, tuttiComm_t comm, tuttiStream_t stream);
/* recvbuff (n·count) ← the ranks' sendbuffs (count each) in rank order.
 * In place: sendbuff == recvbuff + rank·count. */
TUTTI_API tuttiResult_t tuttiAllGather(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t type,
                                       tuttiComm_t comm, tuttiStream_t stream);
/* recvbuff (count) ← block `rank` of the fold of all sendbuffs (n·count).
 * In place: recvbuff == sendbuff + rank·count. */
TUTTI_API tuttiResult_t tuttiReduceScatter(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t type,
                                           tuttiRedOp_t op, tuttiComm_t comm, tuttiStream_t stream);
/* Block j of sendbuff (n·count) goes to block `rank` of rank j's recvbuff (n·count). Never in place. */
TUTTI_API tuttiResult_t tuttiAllToAll(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t type,
                                      tuttiComm_t comm, tuttiStream_t stream);
/* root's recvbuff (n·count) ← the ranks' sendbuffs (count each). Others may pass recvbuff NULL.
 * In place: root's sendbuff == recvbuff + root·count. */
TUTTI_API tuttiResult_t tuttiGather(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t type, int root,
                                    tuttiComm_t comm, tuttiStream_t stream);
/* recvbuff (count) ← block `rank` of root's sendbuff (n·count). Others may pass sendbuff NULL.
 * In place: root's recvbuff == sendbuff + root·count. */
TUTTI_API tuttiResult_t tuttiScatter(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t type, int root,
                                     tuttiComm_t comm, tuttiStream_t stream);

/* Vector calls: the same with blocks of different lengths. Counts and displacements are in elements; arrays have one
 * entry per rank; displacements NULL: the blocks are contiguous. Arrays are read during the call only, also with a
 * stream. Sender and receiver must agree on each block's length: a difference is tuttiMismatch, at that call or at
 * the next, naming both ranks and both lengths. Received blocks must not overlap; empty ones are allowed. In place:
 * the rank's own block is where it will be in the result. */

/* recvbuff's block r (recvcounts[r] at displs[r]) ← rank r's sendbuff. sendcount == recvcounts[rank]. */
TUTTI_API tuttiResult_t tuttiAllGatherV(const void* sendbuff, size_t sendcount, void* recvbuff,
                                        const size_t* recvcounts, const size_t* displs, tuttiDataType_t type,
                                        tuttiComm_t comm, tuttiStream_t stream);
/* recvbuff (counts[rank]) ← block `rank` of the fold of all sendbuffs, whose blocks (counts[r]) are contiguous. All
 * ranks pass the same counts: a difference is tuttiMismatch, at that call or at the next, naming both ranks and both
 * counts. */
TUTTI_API tuttiResult_t tuttiReduceScatterV(const void* sendbuff, void* recvbuff, const size_t* counts,
                                            tuttiDataType_t type, tuttiRedOp_t op, tuttiComm_t comm,
                                            tuttiStream_t stream);
/* Block j of sendbuff goes to block `rank` of rank j's recvbuff. Never in place. */
TUTTI_API tuttiResult_t tuttiAllToAllV(const void* sendbuff, const size_t* sendcounts, const size_t* sdispls,
                                       void* recvbuff, const size_t* recvcounts, const size_t* rdispls,
                                       tuttiDataType_t type, tuttiComm_t comm, tuttiStream_t stream);
/* As tuttiAllGatherV, but only `root` receives; others may pass recvbuff, recvcounts and displs NULL. */
TUTTI_API tuttiResult_t tuttiGatherV(const void* sendbuff, size_t sendcount, void* recvbuff, const size_t* recvcounts,
                                     const size_t* displs, tuttiDataType_t type, int root, tuttiComm_t comm,
                                     tuttiStream_t stream);
/* recvbuff (recvcount) ← block `rank` of root's sendbuff; others may pass sendbuff, sendcounts and displs NULL. */
TUTTI_API tuttiResult_t tuttiScatterV(const void* sendbuff, const size_t* sendcounts, const size_t* displs,
                                      void* recvbuff, size_t recvcount, tuttiDataType_t type, int root,
                                      tuttiComm_t comm, tuttiStream_t stream);

/* No rank leaves before every rank has entered. */
TUTTI_API tuttiResult_t tuttiBarrier(tuttiComm_t comm, tuttiStream_t stream);

/* --- point to point and groups ----------------------------------------------------------------------------------- */

/* Sends `count` elements to `peer`, which must receive the same count and type. Sends and receives between two ranks
 * match in order. Between tuttiGroupStart and tuttiGroupEnd all of them run at the same time, so exchanges cannot
 * deadlock. */
TUTTI_API tuttiResult_t tuttiSend(const void* sendbuff, size_t count, tuttiDataType_t type, int peer, tuttiComm_t comm,
                                  tuttiStream_t stream);
TUTTI_API tuttiResult_t tuttiRecv(void* recvbuff, size_t count, tuttiDataType_t type, int peer, tuttiComm_t comm,
                                  tuttiStream_t stream);

/* Calls between start and end are collected and run together by the outermost end, also calls on different
 * communicators: so one thread can drive several ranks. On each communicator all sends and receives of the group run
 * first, at the same time, then its collectives in order. The end waits if any call has no stream. Errors in
 * arguments are reported at the call, errors in execution at the end. */
TUTTI_API tuttiResult_t tuttiGroupStart(void);
TUTTI_API tuttiResult_t tuttiGroupEnd(void);
/* *seconds: how long the calls collected so far, on all levels, would take if they ran now, by the cost model that also
 * chooses algorithms. Runs and drops nothing. */
TUTTI_API tuttiResult_t tuttiGroupEstimate(double* seconds);
/* Ends one level of grouping and drops the whole group: for leaving a group because of an error. All calls collected
 * so far, on every level, are dropped. Outer levels remain open until they are ended or discarded; each call made
 * there returns tuttiInvalidUsage, and the outermost tuttiGroupEnd runs nothing and returns tuttiInvalidUsage. The
 * thread's next group is a new one. */
TUTTI_API tuttiResult_t tuttiGroupDiscard(void);
/* For the end of a scope that has forgotten tuttiGroupEnd: drops the whole group, on every level, and makes the
 * communicators that have calls in it fail on all ranks, with a text that begins with `why`. tuttiSuccess if there is
 * no group or nothing in it; otherwise tuttiInvalidUsage, with that text. */
TUTTI_API tuttiResult_t tuttiGroupAbandon(const char* why);

/* --- windows: one-sided calls ------------------------------------------------------------------------------------ */

/* A window is a buffer of each rank that every rank may write, read and signal, without a call there. docs/windows.md
 * has a program.
 *
 * Order. What a rank puts into a peer's part happens before the peer's tuttiWaitSignal that takes a signal which the
 * rank sent afterwards returns (a release and an acquire). Puts to one part without a signal between them may be seen
 * in any order. After tuttiFlush(peer) what the rank has put there is in place, and its loads and gets see what others
 * had flushed; tuttiWindowBarrier does so for all ranks. Concurrent accesses to the same bytes, of which one writes and
 * which no signal, flush or atomic operation orders, give undefined bytes there, and nothing worse. But where loads and
 * stores reach a part, 8 bytes that are aligned to 8, here and there, are put and got whole.
 *
 * Ranks of the same host reach memory of tuttiMemAlloc by loads and stores, and other memory through the kernel, if it
 * permits that. Memory of other hosts they reach by RDMA, or over a stream to a thread of the process that has it
 * (docs/windows.md). All parts may lie in memory of GPUs; those of one host must reach each other: then calls run on
 * streams of CUDA, by copy engines, and to other hosts through a thread of the process; without a stream they return
 * when they have ended. While such a window is registered or deregistered, nothing that waits for another rank may be
 * pending on this process's GPUs: mapping memory may wait for it.
 *
 * Calls on a window are calls on its communicator, and run in their order: at once (stream NULL: they return when
 * `source` may be changed and `target` holds its bytes), on a stream, or at the end of a group, where those that wait
 * for signals run last. A failure of the communicator ends them. */

/* Number of signals that each rank can send each other rank in a window, counted apart: 0 to TUTTI_SIGNALS - 1. */
#define TUTTI_SIGNALS 8

/* Called on all ranks, at the same place among their calls, and not within a group. Parts may differ in size, also be
 * empty. The buffer must remain until tuttiWindowDeregister. */
TUTTI_API tuttiResult_t tuttiWindowRegister(tuttiComm_t comm, void* buffer, size_t bytes, tuttiWindow_t* window);
/* Likewise. It waits until all calls on the window are done. When it returns, with whatever result, no other rank
 * writes to the buffer any more, and the handle is invalid. The exception: a process of the host that is stopped in the
 * middle of a put, where the buffer does not begin and end with a page or overlaps another window: then the result is
 * an error, whose text says which rank may still write to which bytes, and so does the log.
 * Deregister windows before their communicator is destroyed. */
TUTTI_API tuttiResult_t tuttiWindowDeregister(tuttiWindow_t window);
/* *address: where the loads and stores of this process, or of this rank's GPU if the window lies in memory of GPUs,
 * reach `peer`'s part; NULL where they do not. Valid until tuttiWindowDeregister. Order them by signals, or by atomic
 * operations of the language. */
TUTTI_API tuttiResult_t tuttiWindowPeer(tuttiWindow_t window, int peer, void** address);
/* *bytes: the size of `peer`'s part. */
TUTTI_API tuttiResult_t tuttiWindowSize(tuttiWindow_t window, int peer, size_t* bytes);

/* peer's part[offset, offset + bytes) ← source. Bytes that do not lie in the part: tuttiInvalidArgument. */
TUTTI_API tuttiResult_t tuttiPut(const void* source, size_t bytes, int peer, size_t offset, tuttiWindow_t window,
                                 tuttiStream_t stream);
/* target ← peer's part[offset, offset + bytes). */
TUTTI_API tuttiResult_t tuttiGet(void* target, size_t bytes, int peer, size_t offset, tuttiWindow_t window,
                                 tuttiStream_t stream);
/* One more signal of this number arrives at `peer`, after what this rank has put there. */
TUTTI_API tuttiResult_t tuttiSignal(int peer, int signal, tuttiWindow_t window, tuttiStream_t stream);
/* tuttiPut, then tuttiSignal. */
TUTTI_API tuttiResult_t tuttiPutSignal(const void* source, size_t bytes, int peer, size_t offset, int signal,
                                       tuttiWindow_t window, tuttiStream_t stream);
/* Waits until `count` more signals of this number have come from `peer` than earlier calls have waited for. */
TUTTI_API tuttiResult_t tuttiWaitSignal(int peer, int signal, uint64_t count, tuttiWindow_t window,
                                        tuttiStream_t stream);
/* The 8 bytes at `offset`, a multiple of 8, of peer's part, as one atomic step between all ranks: plus `operand`; or
 * `desired`, if they are `expected`. *before, unless it is NULL: what they were. */
TUTTI_API tuttiResult_t tuttiAtomicAdd(uint64_t operand, uint64_t* before, int peer, size_t offset,
                                       tuttiWindow_t window, tuttiStream_t stream);
TUTTI_API tuttiResult_t tuttiAtomicCompareSwap(uint64_t expected, uint64_t desired, uint64_t* before, int peer,
                                               size_t offset, tuttiWindow_t window, tuttiStream_t stream);
/* Returns when what this rank has put into peer's part, or with TUTTI_ALL_PEERS into all parts, is in place. */
#define TUTTI_ALL_PEERS (-1)
TUTTI_API tuttiResult_t tuttiFlush(int peer, tuttiWindow_t window, tuttiStream_t stream);
/* tuttiFlush of all peers, then tuttiBarrier of the window's communicator. On a window in memory of GPUs all ranks pass
 * a stream, or all pass NULL. */
TUTTI_API tuttiResult_t tuttiWindowBarrier(tuttiWindow_t window, tuttiStream_t stream);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_TUTTI_H_ */
