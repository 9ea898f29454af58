// Tutti for C++20: ranges, RAII, exceptions. A thin, header-only wrapper of tutti.h, whose conventions apply.
//
//   element.hpp   what can be moved and folded: element types, ranges and single values
//   blocks.hpp    where blocks of different lengths lie
//   memory.hpp    Memory, allocate; window.hpp: one-sided calls
//   stream.hpp    Stream, Event
//   reduce_op.hpp PreMulSum and built-in operators
//   group.hpp     Group; check.hpp: codes to exceptions; here: Communicator
#pragma once

#if __cplusplus < 201709L
#error \
    "tutti/tutti.hpp needs C++20: compile with -std=c++20 (CMake: target_compile_features(TARGET PRIVATE cxx_std_20)). From C++17 use tutti/tutti.h."
#endif

#include <algorithm>
#include <cstddef>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tutti/blocks.hpp"
#include "tutti/check.hpp"
#include "tutti/element.hpp"
#include "tutti/error.hpp"
#include "tutti/group.hpp"
#include "tutti/memory.hpp"
#include "tutti/reduce_op.hpp"
#include "tutti/stream.hpp"
#include "tutti/tutti.h"
#include "tutti/types.hpp"
#include "tutti/window.hpp"

namespace tutti {

/// One rank of a communicator.
///
/// Buffers are ranges (vectors, arrays, spans, …; ValueRange in element.hpp), whose sizes, in elements, are the counts,
/// or single variables, which count as one element. Calls that fold accept element types; calls that only move data,
/// except vector calls, accept any trivially copyable type. n is size(), the number of ranks. Without a stream a call
/// returns when this rank's part is done. In a group or on a stream it runs later, and its buffers must last until
/// Group::end or Stream::synchronize.
///
/// Every function throws Error. InvalidArgument, also for sizes that do not fit, is thrown before any buffer is touched
/// and leaves the communicator usable; other codes as in tutti.h. what() names the rank, the call and the cause.
class Communicator {
 public:
  /// Joins as the launcher's environment says; a single rank without a launcher.
  static Communicator from_environment() {
    Communicator made;
    check(tuttiCommInitEnv(made.comm_.get()));
    return made;
  }
  /// The job of `from_environment()`, as its launcher tells it; see tuttiGetJobState.
  static tuttiJobState_t job_state() {
    tuttiJobState_t state{};
    state.size = sizeof state;
    check(tuttiGetJobState(&state));
    return state;
  }
  /// The job ends in `seconds`, as a signal handler of this process has heard; see tuttiSetJobEnd.
  static void set_job_end(double seconds) noexcept { tuttiSetJobEnd(seconds); }
  /// All `ranks` ranks in this process, [i] being rank i, for one thread each, or for one thread in groups.
  static std::vector<Communicator> all_local(int ranks) {
    const auto handles = std::make_shared<std::vector<tuttiComm_t>>(static_cast<size_t>(std::max(ranks, 1)));
    check(tuttiCommInitAll(handles->data(), ranks));
    std::vector<Communicator> made;
    for (tuttiComm_t& handle : *handles) made.push_back(Communicator(std::shared_ptr<tuttiComm_t>(handles, &handle)));
    return made;
  }
  /// What all ranks need to join. Made by one of them, and passed to the others by any means you trust.
  static tuttiUniqueId unique_id() {
    tuttiUniqueId id;
    check(tuttiGetUniqueId(&id));
    return id;
  }
  /// Joins as `rank` of `ranks` and returns when all have joined. In a group it is `empty()` until the group's end and
  /// must last until then; it may be moved.
  Communicator(int ranks, const tuttiUniqueId& id, int rank) : Communicator() {
    check(tuttiCommInitRank(comm_.get(), ranks, id, rank));
  }
  /// The same with a configuration. Where that does not block, async_error() is Code::InProgress until it is made.
  Communicator(int ranks, const tuttiUniqueId& id, int rank, const tuttiConfig_t& config) : Communicator() {
    const tuttiResult_t result = tuttiCommInitRankConfig(comm_.get(), ranks, id, rank, &config);
    if (result != tuttiInProgress) check(result);
  }
  Communicator(Communicator&&) noexcept = default;
  Communicator& operator=(Communicator&& other) noexcept {
    std::swap(comm_, other.comm_);
    return *this;
  }
  /// Leaves, as `close()` does, and logs an error that no call has returned.
  ~Communicator() {
    if (!empty()) tuttiCommRelease(handle());
  }
  /// Waits for this communicator's calls on streams, and leaves.
  void close() {
    const tuttiComm_t leaving = handle();
    comm_ = nullptr;
    check(tuttiCommDestroy(leaving));
  }

  /// Waits for this communicator's calls on streams, and leaves; what is left is to destroy it, or close(). In the
  /// background where it was configured not to block.
  void finalize() {
    const tuttiResult_t result = tuttiCommFinalize(handle());
    if (result != tuttiInProgress) check(result);
  }

  /// What messages call it.
  std::string name() const {
    const char* name = nullptr;
    check(tuttiCommGetName(handle(), &name));
    return name;
  }
  int rank() const {
    int rank = 0;
    check(tuttiCommUserRank(handle(), &rank));
    return rank;
  }
  int size() const {
    int ranks = 0;
    check(tuttiCommCount(handle(), &ranks));
    return ranks;
  }
  /// For the C interface; null if `empty()`.
  tuttiComm_t handle() const { return comm_ == nullptr ? nullptr : *comm_; }
  /// True if moved from, closed, made by a split without a colour, or made in a group that has not ended.
  bool empty() const { return handle() == nullptr; }
  /// Ranks of the same colour, ordered by key, then by rank; `empty()` for TUTTI_NO_COLOUR. Every rank calls it. In a
  /// group: as the constructor.
  Communicator split(int colour, int key) const {
    Communicator made;
    check(tuttiCommSplit(handle(), colour, key, made.comm_.get()));
    return made;
  }

  /// How long this rank's calls may wait without progress; see tuttiCommSetTimeout.
  void set_timeout(double seconds) const { check(tuttiCommSetTimeout(handle(), seconds)); }

  /// The ranks that have died or stopped before they left, as far as this rank knows; see tuttiCommFailedRanks.
  std::vector<int> failed_ranks() const {
    std::vector<int> ranks(static_cast<size_t>(size()));
    int count = size();
    check(tuttiCommFailedRanks(handle(), ranks.data(), &count));
    ranks.resize(static_cast<size_t>(count));
    return ranks;
  }
  /// The ranks that are not excluded, in their order; those call it, also after a failure. See tuttiCommShrink.
  Communicator shrink(std::span<const int> excluded) const {
    Communicator made;
    check(tuttiCommShrink(handle(), excluded.data(), static_cast<int>(excluded.size()), made.comm_.get()));
    return made;
  }

  /// The ranks that are not replaced, under their numbers, and new processes in the other places up to `ranks`. See
  /// tuttiCommGrow.
  Communicator grow(std::span<const int> replaced, int ranks) const {
    Communicator made;
    check(tuttiCommGrow(handle(), replaced.data(), static_cast<int>(replaced.size()), ranks, made.comm_.get()));
    return made;
  }
  /// What new processes join with; on the first rank that stays, before its grow(). See tuttiCommGetGrowId.
  tuttiUniqueId grow_id(std::span<const int> replaced, int ranks) const {
    tuttiUniqueId id;
    check(tuttiCommGetGrowId(handle(), replaced.data(), static_cast<int>(replaced.size()), ranks, &id));
    return id;
  }

  /// Frees its memory, links and programs until resume(); every rank calls both. See tuttiCommSuspend.
  void suspend() { check(tuttiCommSuspend(handle())); }
  void resume() { check(tuttiCommResume(handle())); }
  /// Makes every rank's pending and later calls fail with Code::Revoked, so that all go on in another communicator.
  void revoke() { check(tuttiCommRevoke(handle())); }
  /// Makes every rank's pending and later calls fail with Code::Aborted, in bounded time. From any thread.
  void abort() { check(tuttiCommAbort(handle())); }
  /// Code::Ok, or why the communicator has failed, also in calls that run on streams; Code::InProgress while it is made
  /// or finalized in the background. Does not wait.
  Code async_error() const {
    tuttiResult_t result = tuttiSuccess;
    check(tuttiCommGetAsyncError(handle(), &result));
    return static_cast<Code>(result);
  }
  /// The text of this communicator's first failure, or "".
  std::string error_text() const { return tuttiCommGetErrorText(handle()); }

  /// Bytes that this rank's calls have sent, by the plans that ran; waits for calls that are queued on streams.
  uint64_t sent_bytes() const {
    tuttiTraffic traffic{};
    traffic.size = sizeof traffic;
    check(tuttiCommGetTraffic(handle(), &traffic));
    return traffic.sent;
  }
  /// How this rank's last call was executed: algorithm, method, transport, delivery. Waits for calls that are queued on
  /// streams.
  tuttiCallInfo last_call() const {
    tuttiCallInfo info{};
    info.size = sizeof info;
    check(tuttiCommGetLastCall(handle(), &info));
    return info;
  }

  /// A sum of the ranks' inputs, each multiplied by its rank's `scalar`; ranks may differ. For buffers of T:
  /// `pre_mul_sum(0.5f)` is for float, `pre_mul_sum(0.5)` for double.
  template <Element T>
  [[nodiscard]] PreMulSum pre_mul_sum(T scalar) const {
    return PreMulSum(handle(), scalar);
  }
  // ---- collectives; out.data() == in.data() is in place where tutti.h says so

  /// out[i] ← fold over all ranks of in[i]: the same bits on all ranks. Equal sizes.
  template <class In, class Out>
  requires SameElements<In, Out>
  void all_reduce(In&& in, Out&& out, const ReduceOp& op = Op::Sum, tuttiStream_t stream = nullptr) {
    must_have("all_reduce", "output", count(out), count(in));
    check(tuttiAllReduce(read(in), write(out), count(in), type<In>(), op.on(handle()), handle(), stream));
  }
  template <class Data>
  requires SameElements<Data, Data>
  void all_reduce(Data&& in_place, const ReduceOp& op = Op::Sum, tuttiStream_t stream = nullptr) {
    all_reduce(in_place, in_place, op, stream);
  }
  /// As all_reduce, but only the root receives: `out` is used there only.
  template <class In, class Out>
  requires SameElements<In, Out>
  void reduce(In&& in, Out&& out, int root, const ReduceOp& op = Op::Sum, tuttiStream_t stream = nullptr) {
    if (rank() == root) must_have("reduce", "output", count(out), count(in));
    check(tuttiReduce(read(in), write(out), count(in), type<In>(), op.on(handle()), root, handle(), stream));
  }
  /// In place: the root's data becomes the fold; the others' is not changed.
  template <class Data>
  requires SameElements<Data, Data>
  void reduce(Data&& in_place, int root, const ReduceOp& op = Op::Sum, tuttiStream_t stream = nullptr) {
    void* const out = rank() == root ? write(in_place) : nullptr;
    check(tuttiReduce(read(in_place), out, count(in_place), type<Data>(), op.on(handle()), root, handle(), stream));
  }
  /// out ← the root's `in`, which is used there only. Equal sizes.
  template <class In, class Out>
  requires SameValues<In, Out>
  void broadcast(In&& in, Out&& out, int root, tuttiStream_t stream = nullptr) {
    if (rank() == root) must_have("broadcast", "output", count(out), count(in));
    check(tuttiBroadcast(read(in), write(out), units(out), type<Out>(), root, handle(), stream));
  }
  template <Output Data>
  void broadcast(Data&& in_place, int root, tuttiStream_t stream = nullptr) {
    broadcast(in_place, in_place, root, stream);
  }
  /// out (n·in) ← the ranks' `in` in rank order.
  template <class In, class Out>
  requires SameValues<In, Out>
  void all_gather(In&& in, Out&& out, tuttiStream_t stream = nullptr) {
    must_have("all_gather", "output", count(out), count(in) * ranks());
    check(tuttiAllGather(read(in), write(out), units(in), type<In>(), handle(), stream));
  }
  /// out ← block `rank` of the fold of all ranks' `in` (n·out).
  template <class In, class Out>
  requires SameElements<In, Out>
  void reduce_scatter(In&& in, Out&& out, const ReduceOp& op = Op::Sum, tuttiStream_t stream = nullptr) {
    must_have("reduce_scatter", "input", count(in), count(out) * ranks());
    check(tuttiReduceScatter(read(in), write(out), count(out), type<In>(), op.on(handle()), handle(), stream));
  }
  /// Block j of `in` goes to block `rank` of rank j's `out`. Equal sizes, multiples of n. Never in place.
  template <class In, class Out>
  requires SameValues<In, Out>
  void all_to_all(In&& in, Out&& out, tuttiStream_t stream = nullptr) {
    must_have("all_to_all", "output", count(out), count(in));
    const size_t block = count(in) / ranks();
    if (block * ranks() != count(in)) {
      bad("all_to_all", "the input has " + std::to_string(count(in)) + " elements, which is not a multiple of the " +
                            std::to_string(ranks()) + " ranks");
    }
    check(tuttiAllToAll(read(in), write(out), block * kUnits<In>, type<In>(), handle(), stream));
  }
  /// The root's out (n·in) ← the ranks' `in` in rank order. `out` is used at the root only.
  template <class In, class Out>
  requires SameValues<In, Out>
  void gather(In&& in, Out&& out, int root, tuttiStream_t stream = nullptr) {
    if (rank() == root) must_have("gather", "output", count(out), count(in) * ranks());
    check(tuttiGather(read(in), write(out), units(in), type<In>(), root, handle(), stream));
  }
  /// out ← block `rank` of the root's `in` (n·out), which is used there only.
  template <class In, class Out>
  requires SameValues<In, Out>
  void scatter(In&& in, Out&& out, int root, tuttiStream_t stream = nullptr) {
    if (rank() == root) must_have("scatter", "input", count(in), count(out) * ranks());
    check(tuttiScatter(read(in), write(out), units(out), type<In>(), root, handle(), stream));
  }

  // ---- vector calls: blocks of different lengths; sender and receiver pass the same length for a block

  /// Block r of `out` ← rank r's `in`.
  template <class In, class Out>
  requires SameElements<In, Out>
  void all_gather_v(In&& in, Out&& out, const Blocks& out_blocks, tuttiStream_t stream = nullptr) {
    must_hold("all_gather_v", count(out), out_blocks);
    check(tuttiAllGatherV(read(in), count(in), write(out), out_blocks.counts(), out_blocks.displacements(), type<In>(),
                          handle(), stream));
  }
  /// out ← block `rank` of the fold of all ranks' `in`, whose blocks are contiguous. The same counts on all ranks.
  template <class In, class Out>
  requires SameElements<In, Out>
  void reduce_scatter_v(In&& in, Out&& out, std::span<const size_t> counts, const ReduceOp& op = Op::Sum,
                        tuttiStream_t stream = nullptr) {
    must_hold("reduce_scatter_v", count(in), counts);
    must_have("reduce_scatter_v", "output", count(out), counts[static_cast<size_t>(rank())]);
    check(tuttiReduceScatterV(read(in), write(out), counts.data(), type<In>(), op.on(handle()), handle(), stream));
  }
  /// Block j of `in` goes to block `rank` of rank j's `out`. Never in place.
  template <class In, class Out>
  requires SameElements<In, Out>
  void all_to_all_v(In&& in, const Blocks& in_blocks, Out&& out, const Blocks& out_blocks,
                    tuttiStream_t stream = nullptr) {
    must_hold("all_to_all_v", count(in), in_blocks);
    must_hold("all_to_all_v", count(out), out_blocks);
    check(tuttiAllToAllV(read(in), in_blocks.counts(), in_blocks.displacements(), write(out), out_blocks.counts(),
                         out_blocks.displacements(), type<In>(), handle(), stream));
  }
  /// Block r of the root's `out` ← rank r's `in`. `out` and its blocks are used at the root only.
  template <class In, class Out>
  requires SameElements<In, Out>
  void gather_v(In&& in, Out&& out, const Blocks& out_blocks, int root, tuttiStream_t stream = nullptr) {
    if (rank() == root) must_hold("gather_v", count(out), out_blocks);
    check(tuttiGatherV(read(in), count(in), write(out), out_blocks.counts(), out_blocks.displacements(), type<In>(),
                       root, handle(), stream));
  }
  /// out ← block `rank` of the root's `in`. `in` and its blocks are used at the root only.
  template <class In, class Out>
  requires SameElements<In, Out>
  void scatter_v(In&& in, const Blocks& in_blocks, Out&& out, int root, tuttiStream_t stream = nullptr) {
    if (rank() == root) must_hold("scatter_v", count(in), in_blocks);
    check(tuttiScatterV(read(in), in_blocks.counts(), in_blocks.displacements(), write(out), count(out), type<In>(),
                        root, handle(), stream));
  }

  /// No rank leaves before every rank has entered.
  void barrier(tuttiStream_t stream = nullptr) { check(tuttiBarrier(handle(), stream)); }

  /// Sends to rank `peer`, which receives as many elements of the same type. Sends and receives between two ranks match
  /// in order; in a group they run at the same time.
  template <Input In>
  void send(In&& in, int peer, tuttiStream_t stream = nullptr) {
    check(tuttiSend(read(in), units(in), type<In>(), peer, handle(), stream));
  }
  template <Output Out>
  void recv(Out&& out, int peer, tuttiStream_t stream = nullptr) {
    check(tuttiRecv(write(out), units(out), type<Out>(), peer, handle(), stream));
  }

 private:
  Communicator() : Communicator(std::make_shared<tuttiComm_t>(nullptr)) {}
  explicit Communicator(std::shared_ptr<tuttiComm_t> comm) : comm_(std::move(comm)) {}

  template <class D>
  static constexpr tuttiDataType_t type() {
    return static_cast<tuttiDataType_t>(type_of<D>());
  }
  template <class D>
  static size_t count(const D& data) {
    return detail::count(data);
  }
  /// The count in units of the C interface.
  template <class D>
  static size_t units(D& data) {
    return detail::count(data) * kUnits<D&>;
  }
  template <class D>
  static const void* read(D& data) {
    return detail::address(data);
  }
  template <class D>
  static void* write(D& data) {
    return detail::address(data);
  }
  size_t ranks() const { return static_cast<size_t>(size()); }
  [[noreturn]] void bad(const char* call, const std::string& text) const {
    throw Error(Code::InvalidArgument, "rank " + std::to_string(rank()) + ": " + call + ": " + text);
  }
  void must_have(const char* call, const char* what, size_t has, size_t needs) const {
    if (has == needs) return;
    bad(call, std::string("the ") + what + " has " + std::to_string(has) + " elements; it must have " +
                  std::to_string(needs));
  }
  void must_hold(const char* call, size_t elements, const Blocks& blocks) const {
    const std::string objection = blocks.objection(ranks(), elements);
    if (!objection.empty()) bad(call, objection);
  }

  std::shared_ptr<tuttiComm_t>
      comm_;  // the handle's address is constant when the object is moved: a group's end writes it
};

}  // namespace tutti
