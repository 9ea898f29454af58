// Calls that move data: arguments converted, and passed on.
#include <cstring>
#include <string>
#include <utility>

#include "compat/nccl/arguments.hpp"
#include "compat/nccl/config.hpp"

namespace tutti::nccl {
namespace {

/// The scalar of an operator that is read at each call, and its type. Under the communicator's lock.
std::pair<const void*, tuttiDataType_t>& late_scalar(ncclComm& comm, int op) {
  const auto index = static_cast<size_t>(op - kFirstLateScalar);
  if (index >= comm.late_scalars.size() || comm.late_scalars[index].first == nullptr) {
    refuse_argument("the operator was not made on this communicator, or was destroyed");
  }
  return comm.late_scalars[index];
}

/// Tutti's operator for one call.
class Operator {
 public:
  Operator(ncclComm& comm, const ncclRedOp_t& op) : comm_(comm.comm) {
    const int value = number_of(op);
    if (value >= 0 && value < ncclNumOps) {
      value_ = kOperators[static_cast<size_t>(value)];
    } else if (value >= ncclNumOps && value < tuttiNumOps) {  // one that Tutti has and NCCL has not
      refuse_argument("op: ", value, " is not a reduction operator");
    } else if (value < kFirstLateScalar) {
      value_ = value;  // Tutti's own, or none: then Tutti says so
    } else {
      make(comm, value);
    }
  }
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;
  ~Operator() {
    if (made_) tuttiRedOpDestroy(value_, comm_);
  }
  tuttiRedOp_t value() const { return value_; }

 private:
  /// The scalar has its value now.
  void make(ncclComm& comm, int op) {
    const std::lock_guard lock(comm.mutex);
    const auto [scalar, type] = late_scalar(comm, op);
    if (tuttiRedOpCreatePreMulSum(&value_, scalar, type, comm_) != tuttiSuccess) refuse_argument(tuttiGetLastError());
    made_ = true;
  }

  tuttiComm_t comm_;
  tuttiRedOp_t value_ = tuttiSum;
  bool made_ = false;
};

/// Checks what both kinds of calls have, and runs `call` with Tutti's communicator, type and stream.
template <class Function>
[[gnu::always_inline]] inline ncclResult_t run(const ncclDataType_t& type, const void* buffer, ncclComm_t comm,
                                               cudaStream_t stream, const ncclCollConfig_t* config, Function&& call) {
  return guarded(comm, [&]() -> ncclResult_t {
    ncclComm& handle = live(comm);
    const tuttiDataType_t converted_type = type_of(type);
    if (config != nullptr) [[unlikely]]
      check_call_config(config);
    return moved(call(handle, converted_type, stream_of(stream, buffer)), comm);
  });
}

}  // namespace
}  // namespace tutti::nccl

using namespace tutti::nccl;  // NOLINT: this file is the border

/// A function that makes Tutti's `call`, on the communicator c, with the type t and the stream s. `buffer` is one of
/// the arguments that every rank has.
#define TUTTI_NCCL_MOVES(name, buffer, config, call, ...)                              \
  TUTTI_NCCL_API(ncclResult_t, name, __VA_ARGS__) {                                    \
    return run(type, buffer, comm, stream, config,                                     \
               [&](ncclComm& c, tuttiDataType_t t, tuttiStream_t s) { return call; }); \
  }
/// The two functions of a collective: without a configuration of the call, and with one. Beside the parameters that all
/// have, they have their own.
#define TUTTI_NCCL_COLLECTIVE(name, buffer, call, ...)                                                           \
  TUTTI_NCCL_MOVES(name, buffer, nullptr, call, const void* send, void* recv, size_t count, ncclDataType_t type, \
                   __VA_ARGS__ __VA_OPT__(, ) ncclComm_t comm, cudaStream_t stream)                              \
  TUTTI_NCCL_MOVES(name##Config, buffer, config, call, const void* send, void* recv, size_t count,               \
                   ncclDataType_t type, __VA_ARGS__ __VA_OPT__(, ) ncclComm_t comm, cudaStream_t stream,         \
                   const ncclCollConfig_t* config)

TUTTI_NCCL_COLLECTIVE(ncclAllReduce, recv, tuttiAllReduce(send, recv, count, t, Operator(c, op).value(), c.comm, s),
                      ncclRedOp_t op)
TUTTI_NCCL_COLLECTIVE(ncclReduce, send, tuttiReduce(send, recv, count, t, Operator(c, op).value(), root, c.comm, s),
                      ncclRedOp_t op, int root)
TUTTI_NCCL_COLLECTIVE(ncclReduceScatter, recv,
                      tuttiReduceScatter(send, recv, count, t, Operator(c, op).value(), c.comm, s), ncclRedOp_t op)
TUTTI_NCCL_COLLECTIVE(ncclBroadcast, recv, tuttiBroadcast(send, recv, count, t, root, c.comm, s), int root)
TUTTI_NCCL_COLLECTIVE(ncclAllGather, recv, tuttiAllGather(send, recv, count, t, c.comm, s))
TUTTI_NCCL_COLLECTIVE(ncclAlltoAll, recv, tuttiAllToAll(send, recv, count, t, c.comm, s))
TUTTI_NCCL_COLLECTIVE(ncclGather, send, tuttiGather(send, recv, count, t, root, c.comm, s), int root)
TUTTI_NCCL_COLLECTIVE(ncclScatter, recv, tuttiScatter(send, recv, count, t, root, c.comm, s), int root)
TUTTI_NCCL_MOVES(ncclBcast, buffer, nullptr, tuttiBroadcast(buffer, buffer, count, t, root, c.comm, s), void* buffer,
                 size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream)
TUTTI_NCCL_MOVES(ncclSend, send, nullptr, tuttiSend(send, count, t, peer, c.comm, s), const void* send, size_t count,
                 ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
TUTTI_NCCL_MOVES(ncclRecv, recv, nullptr, tuttiRecv(recv, count, t, peer, c.comm, s), void* recv, size_t count,
                 ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)

TUTTI_NCCL_API(ncclResult_t, ncclRedOpCreatePreMulSum, ncclRedOp_t* op, void* scalar, ncclDataType_t type,
               ncclScalarResidence_t residence, ncclComm_t comm) {
  return guarded(comm, [&]() -> ncclResult_t {
    ncclComm& handle = live(comm);
    ncclRedOp_t& made = required(op, "op");
    if (scalar == nullptr) refuse_argument("scalar is NULL");
    const tuttiDataType_t converted_type = type_of(type);
    const bool on_device = has_driver() && is_device_memory(scalar);
    if (number_of(residence) == ncclScalarHostImmediate && on_device) {
      refuse_argument("scalar is device memory: its residence is ncclScalarDevice");
    }
    if (number_of(residence) == ncclScalarHostImmediate || (number_of(residence) == ncclScalarDevice && on_device)) {
      if (on_device && handle.device < 0) {
        refuse(ncclInvalidUsage, "scalar is device memory, and no GPU was current when the communicator was made");
      }
      tuttiRedOp_t value = 0;  // Tutti's calls read a scalar in device memory themselves, when they run
      const ncclResult_t result = moved(tuttiRedOpCreatePreMulSum(&value, scalar, converted_type, handle.comm), comm);
      if (result == ncclSuccess) std::memcpy(&made, &value, sizeof made);
      return result;
    }
    if (number_of(residence) != ncclScalarDevice) {
      refuse_argument("residence ", number_of(residence), " is not an ncclScalarResidence_t");
    }
    const std::lock_guard lock(handle.mutex);
    handle.late_scalars.emplace_back(scalar, converted_type);
    made = static_cast<ncclRedOp_t>(kFirstLateScalar + static_cast<int>(handle.late_scalars.size()) - 1);
    return ncclSuccess;
  });
}

TUTTI_NCCL_API(ncclResult_t, ncclRedOpDestroy, ncclRedOp_t op, ncclComm_t comm) {
  return guarded(comm, [&]() -> ncclResult_t {
    ncclComm& handle = live(comm);
    const int value = number_of(op);
    if (value >= 0 && value < ncclNumOps) refuse_argument("a built-in operator cannot be destroyed");
    if (value < kFirstLateScalar) return moved(tuttiRedOpDestroy(value, handle.comm), comm);
    const std::lock_guard lock(handle.mutex);
    late_scalar(handle, value).first = nullptr;
    return ncclSuccess;
  });
}
