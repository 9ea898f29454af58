// The library, memory and its registration, and what can be said of a communicator.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "compat/nccl/config.hpp"
#include "compat/nccl/device.hpp"
#include "compat/nccl/device_api.hpp"
#include "compat/nccl/environment.hpp"
#include "compat/nccl/handles.hpp"
#include "compat/nccl/making.hpp"
#include "compat/nccl/registering.hpp"

namespace tutti::nccl {
namespace {

constexpr std::array<const char*, ncclNumResults> kTexts = {
    "no error",
    "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
    "system error",
    "internal error: a defect of Tutti",
    "invalid argument",
    "invalid usage",
    "remote process exited, a network error occurred, or the call was aborted",
    "in progress",
    "a wait passed its deadline"};

}  // namespace

ncclResult_t add_buffer(ncclComm_t comm, const void* buffer, size_t size, uint64_t& registration) {
  const tuttiResult_t result = tuttiCommRegister(comm->comm, buffer, size, &registration);
  if (result != tuttiUnsupported) return done(result, comm);
  tuttiLog("info", (std::string("the buffer is not registered: ") + tuttiGetLastError()).c_str());
  return ncclSuccess;
}

void check_range(const void* buffer, size_t size) {
  if (buffer == nullptr) refuse_argument("buff is NULL");
  if (size == 0) refuse_argument("size is 0");
  if (reinterpret_cast<uintptr_t>(buffer) + size < reinterpret_cast<uintptr_t>(buffer)) {
    refuse_argument("the buffer of ", size, " bytes would pass the end of memory");
  }
}

}  // namespace tutti::nccl

using namespace tutti::nccl;  // NOLINT: this file is the border

TUTTI_NCCL_API(ncclResult_t, ncclGetVersion, int* version) {
  return guarded(nullptr, [&] {
    int& out = required(version, "version");
    const char* value = nullptr;
    const ncclResult_t result = done(tuttiGetVariable("TUTTI_NCCL_VERSION", &value));
    if (result == ncclSuccess) out = std::stoi(value);
    return result;
  });
}

TUTTI_NCCL_API(const char*, ncclGetErrorString, ncclResult_t result) {
  const auto index = static_cast<unsigned>(number_of(result));
  return index < kTexts.size() ? kTexts[index] : "unknown result code";
}

TUTTI_NCCL_API(const char*, ncclGetLastError, ncclComm_t comm) { return last_error(comm); }

// The log's settings are read once: nothing to reset.
TUTTI_NCCL_API(void, ncclResetDebugInit) {}
extern "C" __attribute__((visibility("default"))) void ncclResetDebugInitInternal() {}

TUTTI_NCCL_API(ncclResult_t, ncclSetEncryption, const ncclEncryptionConfig_t* config) {
  return guarded(nullptr, [&] {
    check_header(config, "ncclEncryptionConfig_t", "NCCL_ENCRYPTION_CONFIG_INITIALIZER");
    if (config->size < sizeof *config) refuse_argument("the ncclEncryptionConfig_t is too short");
    if (config->mode == NCCL_ENCRYPTION_MODE_NONE) return ncclSuccess;
    refuse(ncclInvalidUsage, "Tutti does not encrypt data on TCP: see SECURITY.md. Use NCCL_ENCRYPTION_MODE_NONE");
  });
}

TUTTI_NCCL_API(ncclResult_t, ncclMemAlloc, void** pointer, size_t size) {
  return guarded(nullptr, [&] {
    void*& out = required(pointer, "ptr");
    find_driver();
    if (current_device() < 0) return done(tuttiMemAlloc(&out, size));
    return done(tuttiMemAllocWithFlags(&out, size, TUTTI_MEM_DEVICE));
  });
}

TUTTI_NCCL_API(ncclResult_t, ncclMemFree, void* pointer) {
  return guarded(nullptr, [&] { return pointer == nullptr ? ncclSuccess : done(tuttiMemFree(pointer)); });
}

TUTTI_NCCL_API(ncclResult_t, ncclCommRegister, const ncclComm_t comm, void* buffer, size_t size, void** handle) {
  return guarded(comm, [&] {
    live(comm);
    check_range(buffer, size);
    required(handle, "handle") = nullptr;
    if (!local_registration()) return ncclSuccess;
    uint64_t registration = 0;
    const ncclResult_t result = add_buffer(comm, buffer, size, registration);
    *handle = reinterpret_cast<void*>(registration);
    return result;
  });
}

TUTTI_NCCL_API(ncclResult_t, ncclCommDeregister, const ncclComm_t comm, void* handle) {
  return guarded(comm,
                 [&] { return done(tuttiCommDeregister(live(comm).comm, reinterpret_cast<uintptr_t>(handle)), comm); });
}

// Tutti counts no memory of GPUs; a communicator without a GPU has none, and a suspended one keeps none.
TUTTI_NCCL_API(ncclResult_t, ncclCommMemStats, ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value) {
  return guarded(comm, [&] {
    const ncclComm& handle = live(comm);
    if (static_cast<unsigned>(number_of(stat)) > ncclStatGpuMemTotal) {
      refuse_argument("stat ", number_of(stat), " is not an ncclCommMemStat_t");
    }
    const bool suspended = handle.suspended.load();
    required(value, "value") = stat == ncclStatGpuMemSuspended && suspended ? 1 : 0;
    const bool counts = stat == ncclStatGpuMemSuspend || stat == ncclStatGpuMemTotal;
    if (handle.device >= 0 && counts && !suspended) {
      refuse(ncclInvalidUsage, "ncclCommMemStats: Tutti does not count a communicator's memory on GPUs");
    }
    return ncclSuccess;
  });
}

namespace {

/// With GPUs it is known from the first window on: they may not reach each other's memory.
bool has_one_sided(ncclComm_t comm) {
  const std::lock_guard lock(comm->mutex);
  return comm->device < 0 || comm->signals_on_device;
}

}  // namespace

TUTTI_NCCL_API(ncclResult_t, ncclCommQueryProperties, ncclComm_t comm, CommProperties* properties) {
  return guarded(comm, [&] {
    const ncclComm& handle = live(comm);
    check_header(properties, "ncclCommProperties_t", "NCCL_COMM_PROPERTIES_INITIALIZER");
    CommProperties known = {};
    const char* name = "";
    ncclResult_t result = done(tuttiCommUserRank(handle.comm, &known.rank), comm);
    if (result == ncclSuccess) result = done(tuttiCommCount(handle.comm, &known.nRanks), comm);
    if (result == ncclSuccess) result = done(tuttiCommGetName(handle.comm, &name), comm);
    if (result != ncclSuccess) return ready(result);
    known.cudaDev = known.nvmlDev = handle.device;
    known.nLsaTeams = known.nRanks;  // no rank is given another's device memory
    known.hostRmaSupport = has_one_sided(comm);
    known.commHash = 14695981039346656037u;  // FNV-1a
    for (const char* c = name; *c != '\0'; ++c)
      known.commHash = (known.commHash ^ static_cast<uint8_t>(*c)) * 1099511628211u;
    const size_t begin = offsetof(CommProperties, rank), end = std::min(properties->size, sizeof known);
    if (end > begin) std::memcpy(&properties->rank, &known.rank, end - begin);
    return ncclSuccess;
  });
}

namespace {

/// A failure gives an empty team: there is no code to return.
Team team(ncclComm_t comm, bool alone) {
  Team made{0, 0, 0};
  guarded(comm, [&] {
    const ncclComm& handle = live(comm);
    made.stride = 1;
    if (alone) {
      made.nRanks = 1;
      return ncclSuccess;
    }
    const ncclResult_t result = done(tuttiCommCount(handle.comm, &made.nRanks), comm);
    return result != ncclSuccess ? result : done(tuttiCommUserRank(handle.comm, &made.rank), comm);
  });
  return made;
}

Team no_team(const char* name) {
  set_error((std::string(name) + ": Tutti has no fabric of this kind; the team is empty").c_str());
  return {0, 0, 0};
}

}  // namespace

// No rank is given another's device memory: each is alone in its LSA team, and the rail team is everybody.
TUTTI_NCCL_API(Team, ncclTeamWorld, ncclComm_t comm) { return team(comm, false); }
TUTTI_NCCL_API(Team, ncclTeamRail, ncclComm_t comm) { return team(comm, false); }
TUTTI_NCCL_API(Team, ncclTeamLsa, ncclComm_t comm) { return team(comm, true); }
TUTTI_NCCL_API(int, ncclTeamRankToWorld, ncclComm_t comm, Team of, int rank) {
  return team(comm, false).rank + (rank - of.rank) * of.stride;
}
TUTTI_NCCL_API(int, ncclTeamRankToLsa, ncclComm_t comm, Team of, int rank) {
  return team(comm, true).rank + (rank - of.rank) * of.stride;
}
TUTTI_NCCL_API(Team, ncclTeamCft, ncclComm_t, int) { return no_team("ncclTeamCft"); }
TUTTI_NCCL_API(Team, ncclTeamCftMultimem, ncclComm_t) { return no_team("ncclTeamCftMultimem"); }
