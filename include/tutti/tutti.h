/* Tutti — communication collectives, checked before they run, explained when they run, named when they fail.
 *
 * The C interface: stable ABI, NCCL's shape (ncclAllReduce → tuttiAllReduce). Conventions that hold throughout:
 *
 *   - Every function returns a tuttiResult_t; tuttiGetLastError() has the words of this thread's last failure.
 *   - `count` is a number of elements. Of which buffer it is stated at each call.
 *   - Buffers may have any alignment their element type allows. Output may be input itself where "in place" says so;
 *     any other overlap of input and output is tuttiInvalidArgument.
 *   - `stream` NULL: the call blocks until this rank's part is done: output is valid, input may be reused.
 *     Otherwise the call returns at once and runs, in order, on that stream's worker (tuttiStreamCreate).
 *   - When a call has returned (on a stream: been synchronised), well or badly, its buffers are the caller's: no rank
 *     writes to them any more, nor succeeds with what it reads there later, even one that was stopped (SIGSTOP, a
 *     debugger) in the middle of a copy and goes on. After a failure the contents of the output, and of an input in
 *     place, are undefined. The promise has one limit: a process that is writing to ordinary memory by a system call of
 *     its own, and gets no processor for 10 seconds in the middle of it.
 *   - All ranks of a communicator make the same calls in the same order, with the same count, type, operator and root.
 *     Where they do not, every rank gets tuttiMismatch, at that call or at its next, naming both ranks and both calls.
 *     "At its next": a rank that only sends (the root of a broadcast) may be done before any other rank has noticed.
 *     The next call may be tuttiCommDestroy (which tells a process once: see there). What such a call has left in its
 *     output is undefined.
 *   - Ranks that wait for each other for ever, in one communicator or in several (in different orders of calls), get
 *     tuttiMismatch within seconds, with the circle of waits: where it is certain, that is, where every thread that
 *     could still make the missing calls is known to wait. Elsewhere the text of the time-out, and a warning after
 *     TUTTI_STALL_WARNING seconds, say who waits for whom, as far as it is known.
 *   - A communicator that has failed stays failed: each later call returns its first error.
 *   - An invalid argument is reported before anything is touched, and leaves the communicator usable.
 *   - Thread-safety: calls on different communicators may come from any threads at the same time; calls on one
 *     communicator too, and run in the order in which they were made. tuttiCommAbort may come from any thread at any
 *     time. A child of fork() must not use its parent's communicators: it gets tuttiInvalidUsage.
 *   - Nothing here calls exit, changes signal handlers or raises signals, and nothing is printed below TUTTI_LOG's
 *     level. No descriptor of the library's is 0, 1 or 2, also where a program was started with those closed.
 *   - Ranks of one host and user read and write each other's memory through the kernel where it lets them
 *     (TUTTI_CMA=off: never). Where Yama asks for it (ptrace_scope 1) a rank lets those processes attach to it, a
 *     debugger's right, that descend from the nearest ancestor of all ranks of its host: the launcher, as a rule.
 *     Ranks without one but the machine's first process let nobody (two of them: each other), and send by staging
 *     memory.
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

/* What became of a call. */
typedef enum {
  tuttiSuccess = 0,
  tuttiInvalidArgument = 1, /* an argument is wrong; nothing was touched */
  tuttiInvalidUsage = 2,    /* the call does not fit the state: after destroy, in a forked child, ... */
  tuttiSystemError = 3,     /* the operating system refused something */
  tuttiOutOfMemory = 4,     /* memory could not be had */
  tuttiTimeout = 5,         /* a wait passed its deadline (TUTTI_TIMEOUT) */
  tuttiPeerFailed = 6,      /* another rank died or its host was lost */
  tuttiMismatch = 7,        /* ranks called different things */
  tuttiAborted = 8,         /* the communicator was aborted */
  tuttiProtocolError = 9,   /* bytes from a peer did not make sense */
  tuttiUnsupported = 10,    /* this build or machine cannot do that */
  tuttiInternalError = 11,  /* a defect of Tutti itself */
  tuttiInProgress = 12      /* not finished yet */
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

/* Reduction operators: the built-in ones, and those that tuttiRedOpCreatePreMulSum made for a communicator.
 * Integer sums and products wrap; tuttiAvg of integers rounds towards zero.
 * NaN: an element that is NaN on any rank comes out as NaN, of tuttiMin and tuttiMax too (as IEEE 754's minimum and
 * maximum, not minimumNumber and C's fmin); which NaN, and its sign, is not promised. Zeros are equal: the minimum of
 * -0 and +0 is either of them. 8-bit floats saturate: what is too large becomes the largest finite value. */
typedef int tuttiRedOp_t;
enum { tuttiSum = 0, tuttiProd = 1, tuttiMin = 2, tuttiMax = 3, tuttiAvg = 4 };

typedef struct tuttiComm* tuttiComm_t;
typedef struct tuttiStream* tuttiStream_t;
typedef struct tuttiEvent* tuttiEvent_t;
/* A function of the program's that a stream runs. */
typedef void (*tuttiHostFn_t)(void* argument);

/* What all ranks of a communicator must know to meet: addresses, port and a 256-bit secret key. Pass it on by any means
 * you trust (MPI_Bcast, a file, a store); who has it can join. */
typedef struct {
  unsigned char bytes[128];
} tuttiUniqueId;

/* --- the library ------------------------------------------------------------------------------------------------- */

/* "0.1.0". Never fails. */
TUTTI_API const char* tuttiGetVersion(void);
/* A code in words, e.g. "peer failed". Never fails. */
TUTTI_API const char* tuttiGetErrorString(tuttiResult_t result);
/* What this thread's last failed call has to say: rank, call, cause, remedy. "" when none failed. Valid until this
 * thread's next call. */
TUTTI_API const char* tuttiGetLastError(void);

/* --- communicators ----------------------------------------------------------------------------------------------- */

/* Makes an id and opens the rendezvous server in this process, which must take part (usually as rank 0). */
TUTTI_API tuttiResult_t tuttiGetUniqueId(tuttiUniqueId* id);

/* Joins as `rank` of `ranks`; returns when all have come, or with an error that names who is missing after
 * TUTTI_INIT_TIMEOUT seconds. Ranks may be processes, of one host or many, or threads. Between tuttiGroupStart and
 * tuttiGroupEnd one thread can join as several ranks: *comm is valid after the group's end. */
TUTTI_API tuttiResult_t tuttiCommInitRank(tuttiComm_t* comm, int ranks, tuttiUniqueId id, int rank);
/* Joins as the launcher's environment says: tutti run, torchrun, srun, mpirun. Without a launcher: one rank, alone. */
TUTTI_API tuttiResult_t tuttiCommInitEnv(tuttiComm_t* comm);
/* All `ranks` ranks in this process: comms[i] is rank i, to be used by one thread each, or by one thread in groups. */
TUTTI_API tuttiResult_t tuttiCommInitAll(tuttiComm_t* comms, int ranks);
/* A communicator of the ranks that give the same `colour`, ordered by `key`, then by rank. Every rank of `comm` calls
 * it, in the same place among its calls: a rank that makes another call there is tuttiMismatch. Colour TUTTI_NO_COLOUR
 * takes part in none and gets *split = NULL. In a group *split is valid after the group's end; splits of a group run
 * before its other calls. */
#define TUTTI_NO_COLOUR (-1)
TUTTI_API tuttiResult_t tuttiCommSplit(tuttiComm_t comm, int colour, int key, tuttiComm_t* split);

/* Waits for the communicator's streams' calls and leaves. The process's last communicator waits, at most TUTTI_TIMEOUT
 * seconds, until all other ranks have left too, and reports a rank that made fewer or more calls (tuttiMismatch) or has
 * not left by then (tuttiTimeout). Where a process holds several communicators, or several ranks of one, the calls
 * before its last do not wait, for one thread may destroy them in turn: of calls that differed only the last one tells,
 * whichever communicator it destroys. `comm` is invalid afterwards, whatever is returned. */
TUTTI_API tuttiResult_t tuttiCommDestroy(tuttiComm_t comm);
/* Makes every rank's pending and later calls on this communicator fail with tuttiAborted, in bounded time. The
 * communicator must still be destroyed. */
TUTTI_API tuttiResult_t tuttiCommAbort(tuttiComm_t comm);
/* *result: tuttiSuccess, or why the communicator has failed, also in calls still running on streams. */
TUTTI_API tuttiResult_t tuttiCommGetAsyncError(tuttiComm_t comm, tuttiResult_t* result);
/* What went wrong first on this communicator, or "". Valid until the communicator is destroyed. */
TUTTI_API const char* tuttiCommGetErrorText(tuttiComm_t comm);

/* How a call was done, as one rank saw it; texts end with '\0'. Set `size` to sizeof(tuttiCallInfo) first. */
typedef struct {
  size_t size;
  char algorithm[40]; /* "ring"; "direct" where blocks go straight to who gets them; "none" */
  char transport[40]; /* of this rank's links in it: "shm", "shm+tcp"; "none" */
  char delivery[40];  /* of the messages it sent: "inline", "staged", "mapped", "zcopy", "cma", "direct-store"; "a+b" */
} tuttiCallInfo;
/* Tells of this rank's last call on `comm`; waits for those that are still queued on streams. For people and tools:
 * programs had better not depend on it. */
TUTTI_API tuttiResult_t tuttiCommGetLastCall(tuttiComm_t comm, tuttiCallInfo* info);

TUTTI_API tuttiResult_t tuttiCommCount(tuttiComm_t comm, int* ranks);
TUTTI_API tuttiResult_t tuttiCommUserRank(tuttiComm_t comm, int* rank);

/* A sum in which this rank's input is first multiplied by *scalar (one element of `type`; ranks may differ). Local: no
 * other rank takes part. */
TUTTI_API tuttiResult_t tuttiRedOpCreatePreMulSum(tuttiRedOp_t* op, const void* scalar, tuttiDataType_t type,
                                                  tuttiComm_t comm);
TUTTI_API tuttiResult_t tuttiRedOpDestroy(tuttiRedOp_t op, tuttiComm_t comm);

/* --- memory ------------------------------------------------------------------------------------------------------ */

/* Memory in which ranks of this host read inputs where they lie and store results where they are wanted, which spares
 * calls a copy or two: zeroed, aligned to 2 MiB, all of it at once. After a fork() parent and child see the same
 * memory. Each block takes a file descriptor. Below 8 KiB it is ordinary memory, which messages so short are copied
 * from anyway; and so it is, with a warning in the log, where files may not be as large (ulimit -f), and where the
 * descriptor would be one of the last that this process may have: an eighth of them, from 12 to 64, is left to the
 * program and to connections. Where a call has failed while another process was stopped in the middle of a store, the
 * part of the buffer that it may store to becomes ordinary memory, until it is freed and had again. Calls take any
 * other memory as well. */
TUTTI_API tuttiResult_t tuttiMemAlloc(void** pointer, size_t bytes);
TUTTI_API tuttiResult_t tuttiMemFree(void* pointer);
/* Announces that calls will use this memory. It stays what it is: no page of it is moved or replaced (but for what is
 * said of tuttiMemAlloc). */
TUTTI_API tuttiResult_t tuttiCommRegister(tuttiComm_t comm, void* buffer, size_t bytes, void** handle);
TUTTI_API tuttiResult_t tuttiCommDeregister(tuttiComm_t comm, void* handle);

/* --- host streams and events ------------------------------------------------------------------------------------- */

/* A stream runs its calls in order on a thread of its own. Any thread may use a stream or an event, also while another
 * one destroys it: who comes too late gets tuttiInvalidUsage. */
TUTTI_API tuttiResult_t tuttiStreamCreate(tuttiStream_t* stream);
/* Waits for all calls made on the stream; returns the first error among those since the last synchronisation. */
TUTTI_API tuttiResult_t tuttiStreamSynchronize(tuttiStream_t stream);
/* tuttiInProgress while calls made on the stream are still to run; then what tuttiStreamSynchronize would return, which
 * it still will. Does not wait. */
TUTTI_API tuttiResult_t tuttiStreamQuery(tuttiStream_t stream);
/* Calls made on the stream from now on run after what the event has recorded last; nothing, if it has recorded nothing.
 * An error recorded with it becomes this stream's too. */
TUTTI_API tuttiResult_t tuttiStreamWaitEvent(tuttiStream_t stream, tuttiEvent_t event);
/* Has the stream's thread call function(argument) after all calls made on the stream so far, whether they succeeded or
 * not. What follows on the stream waits for its return. It may make calls on streams; it must not wait for what runs on
 * its own. A C++ exception that leaves it becomes the stream's error (tuttiInvalidUsage). */
TUTTI_API tuttiResult_t tuttiStreamLaunchHostFunc(tuttiStream_t stream, tuttiHostFn_t function, void* argument);
/* Waits as tuttiStreamSynchronize, then ends the thread. */
TUTTI_API tuttiResult_t tuttiStreamDestroy(tuttiStream_t stream);

/* An event marks a point in a stream's order. The three calls that give a stream something to do
 * (tuttiEventRecord, tuttiStreamWaitEvent, tuttiStreamLaunchHostFunc) are tuttiInvalidUsage inside a group, whose calls
 * reach their streams only at its end. */
TUTTI_API tuttiResult_t tuttiEventCreate(tuttiEvent_t* event);
/* Records all calls made on the stream so far, in place of what the event has recorded before. */
TUTTI_API tuttiResult_t tuttiEventRecord(tuttiEvent_t event, tuttiStream_t stream);
/* tuttiInProgress while recorded calls are still to run; then tuttiSuccess (also if nothing was recorded), or the
 * stream's first error since its last synchronisation, which the stream still returns as well. Does not wait. */
TUTTI_API tuttiResult_t tuttiEventQuery(tuttiEvent_t event);
/* Waits for the recorded calls; returns as above. */
TUTTI_API tuttiResult_t tuttiEventSynchronize(tuttiEvent_t event);
/* At any time: streams that wait for what it has recorded go on waiting for that. */
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

/* The same with blocks of different lengths. Counts and displacements are in elements, arrays hold one entry a rank;
 * displacements NULL: the blocks lie one after the other. Arrays are read during the call only, also with a stream.
 * Every two ranks must agree on what goes between them: a difference is tuttiMismatch, at that call or at its next,
 * naming both ranks and both lengths. Blocks that are received must not overlap; empty ones are fine. In place: the
 * rank's own block is where it will be. */

/* recvbuff's block r (recvcounts[r] at displs[r]) ← rank r's sendbuff. sendcount == recvcounts[rank]. */
TUTTI_API tuttiResult_t tuttiAllGatherV(const void* sendbuff, size_t sendcount, void* recvbuff,
                                        const size_t* recvcounts, const size_t* displs, tuttiDataType_t type,
                                        tuttiComm_t comm, tuttiStream_t stream);
/* recvbuff (counts[rank]) ← block `rank` of the fold of all sendbuffs, whose blocks (counts[r]) lie one after the
 * other. All ranks pass the same counts: a difference is tuttiMismatch, at that call or at its next, naming both ranks
 * and both counts. */
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

/* Nobody leaves before everybody has entered. */
TUTTI_API tuttiResult_t tuttiBarrier(tuttiComm_t comm, tuttiStream_t stream);

/* --- point to point and groups ----------------------------------------------------------------------------------- */

/* Sends `count` elements to `peer`, which must receive the same count and type. Sends and receives between two ranks
 * match in order. Between tuttiGroupStart and tuttiGroupEnd they run all at the same time, so exchanges cannot
 * deadlock. */
TUTTI_API tuttiResult_t tuttiSend(const void* sendbuff, size_t count, tuttiDataType_t type, int peer, tuttiComm_t comm,
                                  tuttiStream_t stream);
TUTTI_API tuttiResult_t tuttiRecv(void* recvbuff, size_t count, tuttiDataType_t type, int peer, tuttiComm_t comm,
                                  tuttiStream_t stream);

/* Calls between start and end are collected and run together by the outermost end, also those on different
 * communicators: so one thread can drive several ranks. On each communicator all sends and receives of the group run
 * first, at the same time, then its collectives in their order. The end waits if any call has no stream. Errors in
 * arguments are reported at the call; errors in running at the end. */
TUTTI_API tuttiResult_t tuttiGroupStart(void);
TUTTI_API tuttiResult_t tuttiGroupEnd(void);
/* Ends one level of grouping and gives up the whole group: for leaving a group because of an error. All calls collected
 * so far, on every level, are forgotten. Where outer levels are open, they stay so until they are ended or discarded;
 * each call made there is refused with tuttiInvalidUsage, and the outermost tuttiGroupEnd runs nothing and returns
 * tuttiInvalidUsage. The thread's next group is a new one. */
TUTTI_API tuttiResult_t tuttiGroupDiscard(void);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_TUTTI_H_ */
