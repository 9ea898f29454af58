// The C interface: calls that move data. Converts arguments to Calls.
#include <utility>

#include "base/format.hpp"
#include "capi/handles.hpp"
#include "comm/placement.hpp"
#include "comm/submit.hpp"
#include "comm/vector_calls.hpp"

namespace tutti::capi {
namespace {

// The table of types.hpp and the enumerators of tutti.h: typed() casts one to the other.
#define TUTTI_OPERATOR(name, text, others) \
  static_assert(static_cast<int>(Op::name) == tutti##name, "tutti.h gives tutti" #name " another value");
TUTTI_OPERATORS(TUTTI_OPERATOR)
#undef TUTTI_OPERATOR
#define TUTTI_TYPE(name, text, bytes, kind, c, ...) \
  static_assert(static_cast<int>(DType::name) == tutti##c, "tutti.h gives tutti" #c " another value");
TUTTI_TYPES(TUTTI_TYPE)
#undef TUTTI_TYPE
static_assert(kNamedOps == tuttiNumOps, "tutti.h has operators that types.hpp lacks, or another tuttiNumOps");
static_assert(tuttiNumOps <= comm::kFirstPreMulSum, "values from kFirstPreMulSum on are handles");

[[noreturn]] void refuse(const comm::Communicator& communicator, const comm::Call& call, const std::string& why) {
  throw_error(Code::InvalidArgument, "rank {}: {}: {}", communicator.rank(), name_of(call.spec.collective), why);
}

/// An operator that is a handle, or none.
[[gnu::noinline]] void apply_made(comm::Communicator& communicator, comm::Call& call, tuttiRedOp_t op) {
  if (op < comm::kFirstPreMulSum) refuse(communicator, call, fmt::format("{} is not a reduction operator", op));
  const std::string why_not = communicator.pre_mul_scalars().apply(op - comm::kFirstPreMulSum, call);
  if (!why_not.empty()) refuse(communicator, call, fmt::format("operator {} {}", op, why_not));
}

/// Sets a call's type and operator.
[[gnu::always_inline]] inline comm::Call& typed(comm::Communicator& communicator, comm::Call& call, int type,
                                                tuttiRedOp_t op) {
  if (static_cast<unsigned>(type) >= kDTypes) {
    refuse(communicator, call, fmt::format("{} is not an element type", type));
  }
  call.spec.type = static_cast<DType>(type);
  call.spec.op = static_cast<Op>(op);
  if (static_cast<unsigned>(op) >= tuttiNumOps) apply_made(communicator, call, op);
  return call;
}

/// Submits a call. Where a rank of this process uses other backends than the host's, its buffers say which one runs it,
/// and its stream is one of that backend's.
[[gnu::noinline]] void submit_anywhere(const std::shared_ptr<comm::Communicator>& communicator, comm::Call& call,
                                       tuttiStream_t stream) {
  call.backend = comm::backend_of(call, stream != nullptr && !is_stream(stream));
  if (call.backend == comm::kHostBackend) {
    if (call.scale_by_address) {
      throw_error(Code::InvalidArgument,
                  "{}: the operator's scalar lies in memory of a device, and the buffers on the host",
                  describe(call.spec));
    }
    return comm::submit(communicator, call, stream_of(stream));
  }
  call.stream = stream;
  comm::submit(communicator, call, nullptr);
}

void submit(const std::shared_ptr<comm::Communicator>& communicator, comm::Call& call, tuttiStream_t stream) {
  if (comm::other_backends_in_use()) return submit_anywhere(communicator, call, stream);
  comm::submit(communicator, call, stream_of(stream));
}

/// The common path of all collectives' functions, in one place so that it stays in the instruction cache.
[[gnu::noinline]] tuttiResult_t run(comm::Call&& call, int type, tuttiRedOp_t op, tuttiComm_t comm,
                                    tuttiStream_t stream) {
  const auto submit_it = [&] {
    const auto& communicator = communicator_of(comm);
    submit(communicator, typed(*communicator, call, type, op), stream);
  };
  return guarded_as(submit_it, [&] { return name_of(call.spec.collective); });
}

/// A call without its type and operator.
comm::Call call_of(Collective collective, const void* in, void* out, size_t count, int root = 0, bool sends = false) {
  return {.spec = {.collective = collective, .sends = sends, .root = root, .count = count}, .in = in, .out = out};
}

/// The same for vector calls.
tuttiResult_t run(Collective collective, const void* in, size_t in_count, comm::UserBlocks in_blocks, void* out,
                  size_t out_count, comm::UserBlocks out_blocks, int type, tuttiRedOp_t op, int root, tuttiComm_t comm,
                  tuttiStream_t stream) {
  const auto submit_it = [&] {
    const auto& communicator = communicator_of(comm);
    comm::Call call{.spec = {.collective = collective, .is_vector = true, .root = root}, .in = in, .out = out};
    call = vector_call(typed(*communicator, call, type, op), communicator->rank(), communicator->ranks(), in_count,
                       in_blocks, out_count, out_blocks);
    submit(communicator, call, stream);
  };
  return guarded_as(submit_it, [=] { return name_of(collective); });
}

}  // namespace
}  // namespace tutti::capi

using namespace tutti;        // NOLINT: this file is the border
using namespace tutti::capi;  // NOLINT

tuttiResult_t tuttiAllReduce(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t type, tuttiRedOp_t op,
                             tuttiComm_t comm, tuttiStream_t stream) {
  return run(call_of(Collective::AllReduce, sendbuff, recvbuff, count), type, op, comm, stream);
}

tuttiResult_t tuttiReduce(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t type, tuttiRedOp_t op,
                          int root, tuttiComm_t comm, tuttiStream_t stream) {
  return run(call_of(Collective::Reduce, sendbuff, recvbuff, count, root), type, op, comm, stream);
}

tuttiResult_t tuttiBroadcast(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t type, int root,
                             tuttiComm_t comm, tuttiStream_t stream) {
  return run(call_of(Collective::Broadcast, sendbuff, recvbuff, count, root), type, tuttiSum, comm, stream);
}

tuttiResult_t tuttiAllGather(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t type, tuttiComm_t comm,
                             tuttiStream_t stream) {
  return run(call_of(Collective::AllGather, sendbuff, recvbuff, count), type, tuttiSum, comm, stream);
}

tuttiResult_t tuttiReduceScatter(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t type,
                                 tuttiRedOp_t op, tuttiComm_t comm, tuttiStream_t stream) {
  return run(call_of(Collective::ReduceScatter, sendbuff, recvbuff, count), type, op, comm, stream);
}

tuttiResult_t tuttiAllToAll(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t type, tuttiComm_t comm,
                            tuttiStream_t stream) {
  return run(call_of(Collective::AllToAll, sendbuff, recvbuff, count), type, tuttiSum, comm, stream);
}

tuttiResult_t tuttiGather(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t type, int root,
                          tuttiComm_t comm, tuttiStream_t stream) {
  return run(call_of(Collective::Gather, sendbuff, recvbuff, count, root), type, tuttiSum, comm, stream);
}

tuttiResult_t tuttiScatter(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t type, int root,
                           tuttiComm_t comm, tuttiStream_t stream) {
  return run(call_of(Collective::Scatter, sendbuff, recvbuff, count, root), type, tuttiSum, comm, stream);
}

tuttiResult_t tuttiBarrier(tuttiComm_t comm, tuttiStream_t stream) {
  return run(call_of(Collective::Barrier, nullptr, nullptr, 0), tuttiUint8, tuttiSum, comm, stream);
}

tuttiResult_t tuttiSend(const void* sendbuff, size_t count, tuttiDataType_t type, int peer, tuttiComm_t comm,
                        tuttiStream_t stream) {
  return run(call_of(Collective::SendRecv, sendbuff, nullptr, count, peer, true), type, tuttiSum, comm, stream);
}

tuttiResult_t tuttiRecv(void* recvbuff, size_t count, tuttiDataType_t type, int peer, tuttiComm_t comm,
                        tuttiStream_t stream) {
  return run(call_of(Collective::SendRecv, nullptr, recvbuff, count, peer), type, tuttiSum, comm, stream);
}

tuttiResult_t tuttiAllGatherV(const void* sendbuff, size_t sendcount, void* recvbuff, const size_t* recvcounts,
                              const size_t* displs, tuttiDataType_t type, tuttiComm_t comm, tuttiStream_t stream) {
  return run(Collective::AllGather, sendbuff, sendcount, {}, recvbuff, 0, {recvcounts, displs}, type, tuttiSum, 0, comm,
             stream);
}

tuttiResult_t tuttiReduceScatterV(const void* sendbuff, void* recvbuff, const size_t* counts, tuttiDataType_t type,
                                  tuttiRedOp_t op, tuttiComm_t comm, tuttiStream_t stream) {
  return run(Collective::ReduceScatter, sendbuff, 0, {counts, nullptr}, recvbuff, 0, {}, type, op, 0, comm, stream);
}

tuttiResult_t tuttiAllToAllV(const void* sendbuff, const size_t* sendcounts, const size_t* sdispls, void* recvbuff,
                             const size_t* recvcounts, const size_t* rdispls, tuttiDataType_t type, tuttiComm_t comm,
                             tuttiStream_t stream) {
  return run(Collective::AllToAll, sendbuff, 0, {sendcounts, sdispls}, recvbuff, 0, {recvcounts, rdispls}, type,
             tuttiSum, 0, comm, stream);
}

tuttiResult_t tuttiGatherV(const void* sendbuff, size_t sendcount, void* recvbuff, const size_t* recvcounts,
                           const size_t* displs, tuttiDataType_t type, int root, tuttiComm_t comm,
                           tuttiStream_t stream) {
  return run(Collective::Gather, sendbuff, sendcount, {}, recvbuff, 0, {recvcounts, displs}, type, tuttiSum, root, comm,
             stream);
}

tuttiResult_t tuttiScatterV(const void* sendbuff, const size_t* sendcounts, const size_t* displs, void* recvbuff,
                            size_t recvcount, tuttiDataType_t type, int root, tuttiComm_t comm, tuttiStream_t stream) {
  return run(Collective::Scatter, sendbuff, 0, {sendcounts, displs}, recvbuff, recvcount, {}, type, tuttiSum, root,
             comm, stream);
}
