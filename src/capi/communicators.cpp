// The C interface except the calls that move data: converts exceptions to codes. No other logic.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/format.hpp"
#include "base/version.hpp"
#include "capi/handles.hpp"
#include "comm/join.hpp"
#include "comm/placement.hpp"
#include "comm/submit.hpp"
#include "comm/suspend.hpp"

using namespace tutti;        // NOLINT: this file is the border
using namespace tutti::capi;  // NOLINT

const char* tuttiGetVersion(void) { return version(); }
const char* tuttiGetErrorString(tuttiResult_t result) { return name_of(static_cast<Code>(result)); }
const char* tuttiGetLastError(void) { return last_error(); }

tuttiResult_t tuttiWriteTrace(const char* path) {
  return guarded([&] { comm::Communicator::write_trace(&required(path, "path")); });
}

namespace {

void pass_on(const comm::UniqueId& id, tuttiUniqueId& raw) {
  const comm::UniqueId::Bytes bytes = id.to_bytes();
  static_assert(sizeof raw.bytes == sizeof bytes);
  std::memcpy(raw.bytes, bytes.data(), bytes.size());
}

}  // namespace

tuttiResult_t tuttiGetUniqueId(tuttiUniqueId* id) {
  return guarded([&] {
    tuttiUniqueId& raw = required(id, "id");
    pass_on(comm::create_unique_id(), raw);
  });
}

tuttiResult_t tuttiCommInitEnv(tuttiComm_t* comm) {
  return guarded([&] {
    required(comm, "comm") = nullptr;
    *comm = make_handle(comm::join_from_environment());
  });
}

tuttiResult_t tuttiCommSplit(tuttiComm_t comm, int colour, int key, tuttiComm_t* split) {
  return guarded([&] {
    required(split, "split") = nullptr;
    if (colour < TUTTI_NO_COLOUR) {
      throw_error(Code::InvalidArgument, "split: colour {} is negative; TUTTI_NO_COLOUR ({}) joins none", colour,
                  TUTTI_NO_COLOUR);
    }
    comm::submit_split(communicator_of(comm), colour, key, [split](std::shared_ptr<comm::Communicator> made) {
      if (made != nullptr) *split = make_handle(std::move(made));
    });
  });
}

tuttiResult_t tuttiGetJobState(tuttiJobState_t* state) {
  return guarded([&] {
    if (required(state, "state").size < sizeof(tuttiJobState_t)) {
      throw_error(Code::InvalidArgument, "state->size is {}; set it to sizeof(tuttiJobState_t), which is {}",
                  state->size, sizeof(tuttiJobState_t));
    }
    const comm::JobState known = comm::job_state();
    state->generation = known.generation;
    state->newcomer = known.newcomer ? 1 : 0;
    state->waiting = known.waiting;
    state->ends_in = known.ends_in.value_or(-1);
  });
}

void tuttiSetJobEnd(double seconds) { comm::set_job_end(seconds); }

namespace {

/// Ranks of the communicator that a call names. Throws Error(InvalidArgument | InvalidUsage).
std::vector<Rank> named_ranks(const char* function, const char* word, const int* ranks, int count,
                              const comm::Communicator& of) {
  if (count < 0 || count > of.ranks()) {  // before any entry is read
    throw_error(Code::InvalidArgument, "{}: {} {} ranks, of {}", function, count, word, of.ranks());
  }
  if (comm::in_group()) throw_error(Code::InvalidUsage, "{} cannot be called within a group", function);
  if (count == 0) return {};
  return {&required(ranks, word), ranks + count};
}

}  // namespace

tuttiResult_t tuttiCommShrink(tuttiComm_t comm, const int* excluded, int count, tuttiComm_t* shrunk) {
  return guarded([&] {
    required(shrunk, "shrunk") = nullptr;
    const auto communicator = communicator_of(comm);
    *shrunk =
        make_handle(communicator->shrink(named_ranks("tuttiCommShrink", "excluded", excluded, count, *communicator)));
  });
}

tuttiResult_t tuttiCommGetGrowId(tuttiComm_t comm, const int* replaced, int count, int ranks, tuttiUniqueId* id) {
  return guarded([&] {
    required(id, "id");
    const auto communicator = communicator_of(comm);
    auto gone = named_ranks("tuttiCommGetGrowId", "replaced", replaced, count, *communicator);
    pass_on(communicator->grow_id(std::move(gone), ranks), *id);
  });
}

tuttiResult_t tuttiCommGrow(tuttiComm_t comm, const int* replaced, int count, int ranks, tuttiComm_t* grown) {
  return guarded([&] {
    required(grown, "grown") = nullptr;
    const auto communicator = communicator_of(comm);
    auto gone = named_ranks("tuttiCommGrow", "replaced", replaced, count, *communicator);
    *grown = make_handle(communicator->grow(std::move(gone), ranks));
  });
}

tuttiResult_t tuttiCommSuspend(tuttiComm_t comm) {
  return guarded([&] { comm::suspend(communicator_of(comm)); });
}

tuttiResult_t tuttiCommResume(tuttiComm_t comm) {
  return guarded([&] { comm::resume(communicator_of(comm)); });
}

tuttiResult_t tuttiCommRevoke(tuttiComm_t comm) {
  return guarded([&] { communicator_of(comm)->revoke(); });
}

tuttiResult_t tuttiCommFailedRanks(tuttiComm_t comm, int* ranks, int* count) {
  return guarded([&] {
    const int room = ranks == nullptr ? 0 : required(count, "count");
    if (room < 0) throw_error(Code::InvalidArgument, "*count is {}: it is the room in `ranks`", room);
    const auto communicator = communicator_until_gone(comm);
    if (communicator == nullptr) communicator_of(comm);  // throws: it was not made, or is not yet
    const std::vector<Rank> lost = communicator->lost_ranks();
    std::copy_n(lost.begin(), std::min(lost.size(), static_cast<size_t>(room)), ranks);
    required(count, "count") = static_cast<int>(lost.size());
  });
}

tuttiResult_t tuttiCommRegister(tuttiComm_t comm, const void* buffer, size_t bytes, uint64_t* registration) {
  return guarded([&] {
    required(registration, "registration") = 0;
    if (buffer == nullptr) throw_error(Code::InvalidArgument, "register: the buffer is NULL");
    if (bytes == 0) throw_error(Code::InvalidArgument, "register: the buffer has no bytes");
    if (reinterpret_cast<uintptr_t>(buffer) + bytes < bytes) {
      throw_error(Code::InvalidArgument, "register: the buffer of {} bytes would pass the end of memory", bytes);
    }
    *registration = comm::add_buffer(communicator_of(comm), buffer, bytes);
  });
}

tuttiResult_t tuttiCommDeregister(tuttiComm_t comm, uint64_t registration) {
  return guarded([&] {
    const auto& communicator = communicator_of(comm);
    if (registration != 0) comm::drop_buffer(communicator, registration);
  });
}

tuttiResult_t tuttiCommGetLastCall(tuttiComm_t comm, tuttiCallInfo* info) {
  return guarded([&] {
    constexpr size_t kShortest = offsetof(tuttiCallInfo, method);
    if (required(info, "info").size < kShortest) {
      throw_error(Code::InvalidArgument, "info->size is {}; set it to sizeof(tuttiCallInfo), which is {}", info->size,
                  sizeof(tuttiCallInfo));
    }
    const comm::CallInfo known = comm::last_call(*communicator_of(comm));
    const auto put = [](auto& room, const std::string& text) { room[text.copy(room, sizeof room - 1)] = '\0'; };
    put(info->algorithm, known.algorithm);
    put(info->transport, known.transport);
    put(info->delivery, known.delivery);
    if (info->size < offsetof(tuttiCallInfo, model)) return;
    put(info->method, known.method);
    info->window = known.window;
    info->width = known.width;
    if (info->size < sizeof(tuttiCallInfo)) return;
    info->model = known.model;
  });
}

tuttiResult_t tuttiCommGetTraffic(tuttiComm_t comm, tuttiTraffic* traffic) {
  return guarded([&] {
    if (required(traffic, "traffic").size < sizeof(tuttiTraffic)) {
      throw_error(Code::InvalidArgument, "traffic->size is {}; set it to sizeof(tuttiTraffic), which is {}",
                  traffic->size, sizeof(tuttiTraffic));
    }
    traffic->sent = comm::sent_bytes(*communicator_of(comm));
  });
}

tuttiResult_t tuttiCommGetName(tuttiComm_t comm, const char** name) {
  return guarded([&] { required(name, "name") = communicator_of(comm)->title().c_str(); });
}

tuttiResult_t tuttiCommCount(tuttiComm_t comm, int* ranks) {
  return guarded([&] { required(ranks, "ranks") = communicator_of(comm)->ranks(); });
}

tuttiResult_t tuttiCommUserRank(tuttiComm_t comm, int* rank) {
  return guarded([&] { required(rank, "rank") = communicator_of(comm)->rank(); });
}

tuttiResult_t tuttiRedOpCreatePreMulSum(tuttiRedOp_t* op, const void* scalar, tuttiDataType_t type, tuttiComm_t comm) {
  return guarded([&] {
    required(op, "op");
    if (scalar == nullptr) throw Error(Code::InvalidArgument, "scalar is null");
    const int kind = static_cast<int>(type);
    if (kind < 0 || kind >= kDTypes) throw_error(Code::InvalidArgument, "{} is not an element type", kind);
    const auto& communicator = communicator_of(comm);
    const bool elsewhere = comm::other_backends_in_use() && comm::backend_of(scalar) != comm::kHostBackend;
    *op = comm::kFirstPreMulSum + communicator->pre_mul_scalars().add(static_cast<DType>(type), scalar, elsewhere);
  });
}

tuttiResult_t tuttiRedOpDestroy(tuttiRedOp_t op, tuttiComm_t comm) {
  return guarded([&] {
    if (op < comm::kFirstPreMulSum || !communicator_of(comm)->pre_mul_scalars().remove(op - comm::kFirstPreMulSum)) {
      throw_error(Code::InvalidArgument, "operator {} was not made on this communicator", op);
    }
  });
}

tuttiResult_t tuttiGroupStart(void) {
  return guarded([] { comm::group_start(); });
}

tuttiResult_t tuttiGroupEnd(void) {
  return guarded([] { comm::group_end(); });
}

tuttiResult_t tuttiGroupEstimate(double* seconds) {
  return guarded([&] { required(seconds, "seconds") = comm::group_estimate(); });
}

tuttiResult_t tuttiGroupAbandon(const char* why) {
  return guarded([&] {
    const std::string heard = comm::group_abandon(&required(why, "why"));
    if (!heard.empty()) throw Error(Code::InvalidUsage, heard);
  });
}

tuttiResult_t tuttiGroupDiscard(void) {
  return guarded([] { comm::group_discard(); });
}
