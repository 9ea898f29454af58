// Making and ending communicators.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "compat/nccl/config.hpp"
#include "compat/nccl/device.hpp"
#include "compat/nccl/environment.hpp"
#include "compat/nccl/handles.hpp"
#include "compat/nccl/making.hpp"
#include "compat/nccl/registering.hpp"

namespace tutti::nccl {
namespace {

/// A communicator's end: its handle is Gone, whatever Tutti says, unless the open group has calls on it.
ncclResult_t end(ncclComm& handle, bool abort) {
  {
    const std::lock_guard lock(handle.mutex);  // nobody asks for its state now
    auto expected = ncclComm::State::Live;
    if (!handle.state.compare_exchange_strong(expected, ncclComm::State::Gone)) refuse_handle(&handle);
  }
  if (abort) tuttiCommAbort(handle.comm);
  const tuttiResult_t result = tuttiCommDestroy(handle.comm);
  if (result == tuttiInvalidUsage && group_depth() > 0) {  // the open group has calls on it, and nothing was done
    handle.state.store(ncclComm::State::Live, std::memory_order_release);
    return done(result);
  }
  retire_handle(&handle);
  return abort || (result != tuttiSuccess && handle.revoked.load()) ? ncclSuccess : done(result);
}

/// The GPU of each rank; empty where the program uses none. Throws Refusal.
std::vector<int> devices_of(int ranks, const int* devices) {
  const int count = device_count();
  std::vector<int> all;
  for (int i = 0; i < ranks && (devices != nullptr || count > 0); ++i) {
    const int device = devices != nullptr ? devices[i] : i;
    if (device < 0 || (count > 0 && device >= count)) {
      const std::string known = count > 0 ? ": there are GPUs 0 to " + std::to_string(count - 1) : "";
      if (devices != nullptr) refuse_argument("devlist[", i, "] is ", device, known);
      refuse_argument("ndev is ", ranks, known, ". To have several ranks on one, name it in devlist");
    }
    all.push_back(device);
  }
  return all;
}

/// Each rank joins with its GPU current.
ncclResult_t init_all(std::vector<tuttiComm_t>& made, const std::vector<int>& devices) {
  const int ranks = static_cast<int>(made.size());
  if (device_count() == 0) return done(tuttiCommInitAll(made.data(), ranks));
  const Context before;
  tuttiUniqueId id;
  ncclResult_t result = done(tuttiGetUniqueId(&id));
  if (result == ncclSuccess) result = done(tuttiGroupStart());
  if (result != ncclSuccess) return result;
  try {
    for (int i = 0; i < ranks && result == ncclSuccess; ++i) {
      const auto at = static_cast<size_t>(i);
      Context(devices[at]).use();
      result = done(tuttiCommInitRank(&made[at], ranks, id, i));
    }
  } catch (...) {
    before.use();
    tuttiGroupDiscard();
    throw;
  }
  before.use();
  if (result != ncclSuccess) {
    tuttiGroupDiscard();
    return result;
  }
  result = done(tuttiGroupEnd());
  for (size_t i = 0; i < made.size() && result != ncclSuccess; ++i) {
    if (made[i] == nullptr) continue;
    tuttiCommAbort(made[i]);
    tuttiCommDestroy(made[i]);
  }
  return result;
}

}  // namespace

ncclResult_t make(ncclComm_t* out, const std::function<tuttiResult_t(tuttiComm_t*)>& create) {
  required(out, "newcomm") = nullptr;
  ncclComm* const handle = make_handle();
  find_driver();
  handle->device = current_device();
  tuttiResult_t result;
  try {
    result = create(&handle->comm);
  } catch (...) {
    drop_handle(handle);
    throw;
  }
  if (result != tuttiSuccess && result != tuttiInProgress) {
    drop_handle(handle);
    return failed(result, nullptr);
  }
  if (handle->comm != nullptr) {
    handle->state.store(ncclComm::State::Live, std::memory_order_release);
    *out = handle;
  } else if (group_depth() > 0) {
    add_pending({handle, out});
    *out = handle;
  } else {
    drop_handle(handle);  // the rank joins none
  }
  return result == tuttiInProgress ? ncclInProgress : ncclSuccess;
}

ncclResult_t make_apart(ncclComm_t* out, const std::function<tuttiResult_t(tuttiComm_t*)>& create) {
  if (group_depth() == 0) return make(out, create);
  required(out, "newcomm") = nullptr;
  ncclComm* const handle = make_handle();
  find_driver();
  handle->device = current_device();
  *out = handle;
  add_pending({handle, out});
  add_maker([handle, create] { return done(create(&handle->comm)); });
  return ncclSuccess;
}

ncclResult_t join(ncclComm_t* out, int ranks, const ncclUniqueId& id, int rank, const ncclConfig_t* config) {
  read_environment();
  const tuttiConfig_t settings = converted(config);
  ncclUniqueId real = id;
  if (is_served_id(id)) real = exchange_served_id(ranks, rank);
  const ncclResult_t result = make(
      out, [&](tuttiComm_t* comm) { return tuttiCommInitRankConfig(comm, ranks, converted(real), rank, &settings); });
  if (result == ncclSuccess || result == ncclInProgress) set_signals(**out, config);
  return result;
}

}  // namespace tutti::nccl

using namespace tutti::nccl;  // NOLINT: this file is the border

TUTTI_NCCL_API(ncclResult_t, ncclGetUniqueId, ncclUniqueId* id) {
  return guarded(nullptr, [&]() -> ncclResult_t {
    read_environment();
    ncclUniqueId& out = required(id, "uniqueId");
    if (serves_id()) {
      out = served_id();
      return ncclSuccess;
    }
    tuttiUniqueId made;
    const ncclResult_t result = done(tuttiGetUniqueId(&made));
    if (result == ncclSuccess) std::memcpy(out.internal, made.bytes, sizeof out.internal);
    return result;
  });
}

TUTTI_NCCL_API(ncclResult_t, ncclCommInitRankConfig, ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
               ncclConfig_t* config) {
  return guarded(nullptr, [&] { return join(comm, ranks, id, rank, config); });
}

TUTTI_NCCL_API(ncclResult_t, ncclCommInitRank, ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return guarded(nullptr, [&] { return join(comm, ranks, id, rank, nullptr); });
}

// Several ids spread NCCL's rendezvous over several processes. Tutti's needs one: the first, on every rank.
TUTTI_NCCL_API(ncclResult_t, ncclCommInitRankScalable, ncclComm_t* comm, int ranks, int rank, int count,
               ncclUniqueId* ids, ncclConfig_t* config) {
  return guarded(nullptr, [&] {
    required(ids, "commIds");
    if (count < 1 || count > ranks) {
      refuse_argument("nId is ", count, ": there are from 1 id to one for each of the ", ranks, " ranks");
    }
    return join(comm, ranks, ids[0], rank, config);
  });
}

TUTTI_NCCL_API(ncclResult_t, ncclCommInitAll, ncclComm_t* comms, int ranks, const int* devices) {
  return guarded(nullptr, [&]() -> ncclResult_t {
    read_environment();
    required(comms, "comms");
    if (group_depth() > 0) refuse(ncclInvalidUsage, "ncclCommInitAll within a group: call it outside, it needs none");
    if (ranks < 1 || ranks > 65536) refuse_argument("ndev is ", ranks, ": it is 1 to 65536");
    find_driver();
    const std::vector<int> numbers = devices_of(ranks, devices);
    std::vector<tuttiComm_t> made(static_cast<size_t>(ranks));
    const ncclResult_t result = init_all(made, numbers);
    if (result != ncclSuccess) return result;
    for (int i = 0; i < ranks; ++i) {
      ncclComm* const handle = make_handle();
      handle->comm = made[static_cast<size_t>(i)];
      handle->device = numbers.empty() ? -1 : numbers[static_cast<size_t>(i)];
      handle->state.store(ncclComm::State::Live, std::memory_order_release);
      comms[i] = handle;
    }
    return ncclSuccess;
  });
}

TUTTI_NCCL_API(ncclResult_t, ncclCommFinalize, ncclComm_t comm) {
  return guarded(comm, [&] {
    ncclComm& handle = live(comm);
    if (handle.revoked.load())
      refuse(ncclInvalidUsage, "the communicator was revoked: what is left is ncclCommDestroy");
    return done(tuttiCommFinalize(handle.comm), comm);
  });
}

TUTTI_NCCL_API(ncclResult_t, ncclCommDestroy, ncclComm_t comm) {
  return guarded(comm, [&] { return comm == nullptr ? ncclSuccess : end(live(comm), false); });
}

// As in NCCL it also frees the communicator. Tutti tells the other ranks, whose calls fail too.
TUTTI_NCCL_API(ncclResult_t, ncclCommAbort, ncclComm_t comm) {
  return guarded(comm, [&] { return comm == nullptr ? ncclSuccess : end(live(comm), true); });
}

TUTTI_NCCL_API(ncclResult_t, ncclCommRevoke, ncclComm_t comm, int flags) {
  return guarded(comm, [&] {
    ncclComm& handle = live(comm);
    if (flags != NCCL_REVOKE_DEFAULT) refuse_argument("revokeFlags is ", flags, ": it must be 0");
    if (handle.revoked.exchange(true)) refuse(ncclInvalidUsage, "the communicator was revoked before");
    return done(tuttiCommRevoke(handle.comm), comm);
  });
}

// NCCL keeps the addresses of what it frees, so that graphs and windows stay; Tutti refuses while there are any.
TUTTI_NCCL_API(ncclResult_t, ncclCommSuspend, ncclComm_t comm, int flags) {
  return guarded(comm, [&] {
    ncclComm& handle = live(comm);
    if (flags != NCCL_SUSPEND_MEM) refuse_argument("flags is ", flags, ": it must be NCCL_SUSPEND_MEM");
    if (group_depth() > 0) refuse(ncclInvalidUsage, "ncclCommSuspend within a group: ncclGroupEnd comes first");
    if (handle.suspended.load()) refuse(ncclInvalidUsage, "the communicator is suspended: ncclCommResume comes first");
    ncclResult_t result = end_signals(handle);
    if (result == ncclSuccess) result = done(tuttiCommSuspend(handle.comm), comm);
    if (result == ncclSuccess) handle.suspended.store(true);
    return result;
  });
}

TUTTI_NCCL_API(ncclResult_t, ncclCommResume, ncclComm_t comm) {
  return guarded(comm, [&] {
    ncclComm& handle = live(comm);
    if (group_depth() > 0) refuse(ncclInvalidUsage, "ncclCommResume within a group: ncclGroupEnd comes first");
    const ncclResult_t result = done(tuttiCommResume(handle.comm), comm);
    if (result == ncclSuccess) handle.suspended.store(false);
    return result;
  });
}

TUTTI_NCCL_API(ncclResult_t, ncclCommGetAsyncError, ncclComm_t comm, ncclResult_t* error) {
  return guarded(comm, [&] {
    ncclComm& handle = live(comm);
    ncclResult_t& out = required(error, "asyncError");
    const std::lock_guard lock(handle.mutex);  // a watchdog may ask while another thread destroys the communicator
    live(comm);
    tuttiResult_t state = tuttiSuccess;
    const ncclResult_t result = done(tuttiCommGetAsyncError(handle.comm, &state), comm);
    const bool quiescent = state == tuttiRevoked && handle.revoked.load();  // what was asked for is no error
    if (result != ncclSuccess) return result;
    out = quiescent ? ncclSuccess : kResults[static_cast<size_t>(state)];
    // What ncclGetLastError says next, whatever this thread has done wrong before.
    if (out != ncclSuccess && out != ncclInProgress) set_error(tuttiCommGetErrorText(handle.comm), comm);
    return ncclSuccess;
  });
}

TUTTI_NCCL_API(ncclResult_t, ncclCommCount, const ncclComm_t comm, int* count) {
  return guarded(comm, [&] { return ready(done(tuttiCommCount(live(comm).comm, &required(count, "count")), comm)); });
}

TUTTI_NCCL_API(ncclResult_t, ncclCommUserRank, const ncclComm_t comm, int* rank) {
  return guarded(comm, [&] { return ready(done(tuttiCommUserRank(live(comm).comm, &required(rank, "rank")), comm)); });
}

TUTTI_NCCL_API(ncclResult_t, ncclCommCuDevice, const ncclComm_t comm, int* device) {
  return guarded(comm, [&] {
    required(device, "device") = live(comm).device;
    return ncclSuccess;
  });
}
