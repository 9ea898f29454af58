// The C interface except the calls that move data: converts exceptions to codes. No other logic.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/version.hpp"
#include "capi/handles.hpp"
#include "comm/submit.hpp"
#include "control/bootstrap/launch.hpp"
#include "control/messages.hpp"

namespace tutti::capi {
namespace {

control::UniqueId id_from(const tuttiUniqueId& raw) {
  control::UniqueId::Bytes bytes;
  std::memcpy(bytes.data(), raw.bytes, bytes.size());
  return control::UniqueId::from_bytes(bytes);
}

void check_place(int ranks, int rank) {
  if (ranks < 1) throw_error(Code::InvalidArgument, "a communicator of {} ranks: at least 1 is needed", ranks);
  if (ranks > control::kMaxRanks)
    throw_error(Code::InvalidArgument, "a communicator of {} ranks: at most {} are supported", ranks,
                control::kMaxRanks);
  if (rank < 0 || rank >= ranks) {
    throw_error(Code::InvalidArgument, "rank {} of {}: ranks are 0 to {}", rank, ranks, ranks - 1);
  }
}

/// A mistake in one rank's environment must also end the other ranks' wait.
std::optional<control::Launch> recognise_own_launch() {
  try {
    return control::recognise_launch();
  } catch (const Error& error) {
    if (const auto launch = control::recognise_launch_despite_mistakes()) control::withdraw(*launch, error);
    throw;
  }
}

std::shared_ptr<comm::Communicator> join_from_environment() {
  const auto launch = recognise_own_launch();
  if (!launch)
    return comm::Communicator::join(control::on_this_host([] { return control::create_unique_id(); }), 1, 0, nullptr,
                                    "world");
  const control::UniqueId id = control::exchange_unique_id(*launch, Deadline::in(env().init_timeout));
  return comm::Communicator::join(id, launch->size, launch->rank, nullptr, "world");
}

}  // namespace
}  // namespace tutti::capi

using namespace tutti;        // NOLINT: this file is the border
using namespace tutti::capi;  // NOLINT

const char* tuttiGetVersion(void) { return version(); }
const char* tuttiGetErrorString(tuttiResult_t result) { return name_of(static_cast<Code>(result)); }
const char* tuttiGetLastError(void) { return last_error(); }

tuttiResult_t tuttiGetUniqueId(tuttiUniqueId* id) {
  return guarded([&] {
    tuttiUniqueId& raw = required(id, "id");
    const control::UniqueId::Bytes bytes = control::on_this_host([] { return control::create_unique_id(); }).to_bytes();
    static_assert(sizeof raw.bytes == sizeof bytes);
    std::memcpy(raw.bytes, bytes.data(), bytes.size());
  });
}

tuttiResult_t tuttiCommInitRank(tuttiComm_t* comm, int ranks, tuttiUniqueId id, int rank) {
  return guarded([&] {
    required(comm, "comm") = nullptr;
    check_place(ranks, rank);
    const auto join = [=, parsed = id_from(id)] { *comm = make_handle(comm::Communicator::join(parsed, ranks, rank)); };
    comm::in_group() ? comm::group_add(join) : join();
  });
}

tuttiResult_t tuttiCommInitEnv(tuttiComm_t* comm) {
  return guarded([&] {
    required(comm, "comm") = nullptr;
    *comm = make_handle(join_from_environment());
  });
}

tuttiResult_t tuttiCommInitAll(tuttiComm_t* comms, int ranks) {
  return guarded([&] {
    required(comms, "comms");
    check_place(ranks, 0);
    const control::UniqueId id = control::on_this_host([] { return control::create_unique_id(); });
    std::fill_n(comms, ranks, nullptr);
    comm::group_start();
    try {
      for (int rank = 0; rank < ranks; ++rank) {
        comm::group_add([=] { comms[rank] = make_handle(comm::Communicator::join(id, ranks, rank)); });
      }
    } catch (...) {
      comm::group_discard();
      throw;
    }
    try {
      comm::group_end();
    } catch (const Error&) {  // the ranks that joined must not be left behind
      for (int rank = 0; rank < ranks; ++rank) {
        if (comms[rank] == nullptr) continue;
        comms[rank]->comm->abort();
        tuttiCommDestroy(std::exchange(comms[rank], nullptr));
      }
      throw;
    }
  });
}

tuttiResult_t tuttiCommSplit(tuttiComm_t comm, int colour, int key, tuttiComm_t* split) {
  return guarded([&] {
    required(split, "split") = nullptr;
    if (colour < TUTTI_NO_COLOUR) throw_error(Code::InvalidArgument, "split: colour {} is negative", colour);
    comm::submit_split(communicator_of(comm), colour, key, [split](std::shared_ptr<comm::Communicator> made) {
      if (made != nullptr) *split = make_handle(std::move(made));
    });
  });
}

tuttiResult_t tuttiCommDestroy(tuttiComm_t comm) {
  return guarded([&] {
    const auto communicator = begin_destroy(comm);
    communicator->await_ticket(communicator->take_ticket());
    const Status status = communicator->leave();
    communicator->end_ticket();  // calls that still hold a ticket then return an error
    end_destroy(comm);
    status.throw_if_bad();
  });
}

tuttiResult_t tuttiCommAbort(tuttiComm_t comm) {
  return guarded([&] { communicator_until_gone(comm)->abort(); });
}

tuttiResult_t tuttiCommGetAsyncError(tuttiComm_t comm, tuttiResult_t* result) {
  return guarded([&] {
    required(result, "result");
    *result = static_cast<tuttiResult_t>(communicator_until_gone(comm)->failure().code);
  });
}

const char* tuttiCommGetErrorText(tuttiComm_t comm) {
  const tuttiResult_t result = guarded([&] {
    const Status failure = communicator_until_gone(comm)->failure();
    const std::lock_guard lock(comm->mutex);
    if (comm->error_text.empty()) comm->error_text = failure.text;
  });
  return result == tuttiSuccess ? comm->error_text.c_str() : last_error();
}

tuttiResult_t tuttiCommGetLastCall(tuttiComm_t comm, tuttiCallInfo* info) {
  return guarded([&] {
    if (required(info, "info").size < sizeof(tuttiCallInfo)) {
      throw_error(Code::InvalidArgument, "info->size is {}; set it to sizeof(tuttiCallInfo), which is {}", info->size,
                  sizeof(tuttiCallInfo));
    }
    const comm::CallInfo known = comm::last_call(*communicator_of(comm));
    const auto put = [](auto& room, const std::string& text) { room[text.copy(room, sizeof room - 1)] = '\0'; };
    put(info->algorithm, known.algorithm);
    put(info->transport, known.transport);
    put(info->delivery, known.delivery);
  });
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
    *op = comm::kFirstPreMulSum + communicator_of(comm)->pre_mul_scalars().add(static_cast<DType>(type), scalar);
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

tuttiResult_t tuttiGroupDiscard(void) {
  return guarded([] { comm::group_discard(); });
}
