// Communicators made from others: split, shrink, grow.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "compat/nccl/config.hpp"
#include "compat/nccl/environment.hpp"
#include "compat/nccl/handles.hpp"
#include "compat/nccl/making.hpp"

namespace tutti::nccl {
namespace {

struct Place {
  int rank = 0, ranks = 0;
};

Place place_of(ncclComm_t comm) {
  Place place;
  const ncclComm& handle = live(comm);
  if (tuttiCommUserRank(handle.comm, &place.rank) != tuttiSuccess ||
      tuttiCommCount(handle.comm, &place.ranks) != tuttiSuccess) {
    refuse_argument(tuttiGetLastError());
  }
  return place;
}

void refuse_in_group(const char* call) {
  if (group_depth() > 0) refuse(ncclInvalidUsage, std::string(call) + " within a group: Tutti makes it outside only");
}

/// All ranks of the parent learn the id that its root passed. Throws Refusal.
ncclResult_t id_of_root(ncclComm_t comm, const Place& place, const ncclUniqueId* mine, ncclUniqueId& id) {
  std::vector<ncclUniqueId> all(static_cast<size_t>(place.ranks));
  ncclUniqueId own = {};
  if (mine != nullptr) own = *mine;
  const ncclResult_t result = done(tuttiAllGather(&own, all.data(), sizeof own, tuttiInt8, comm->comm, nullptr), comm);
  if (result != ncclSuccess) return result;
  const ncclUniqueId none = {};
  const auto is_set = [&](const ncclUniqueId& one) { return std::memcmp(&one, &none, sizeof one) != 0; };
  const auto roots = std::count_if(all.begin(), all.end(), is_set);
  if (roots != 1) {
    refuse_argument(std::to_string(roots) +
                    " of the communicator's ranks passed an id: exactly one does, which got it "
                    "from ncclCommGetUniqueId");
  }
  id = *std::find_if(all.begin(), all.end(), is_set);
  return ncclSuccess;
}

}  // namespace
}  // namespace tutti::nccl

using namespace tutti::nccl;  // NOLINT: this file is the border

TUTTI_NCCL_API ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t* config) {
  return guarded(comm, [&] {
    ncclComm& parent = live(comm);
    converted(config);  // checked; Tutti's splits take over the parent's configuration
    const ncclResult_t result =
        make(made, [&](tuttiComm_t* split) { return tuttiCommSplit(parent.comm, color, key, split); });
    return ready(result);
  });
}

TUTTI_NCCL_API ncclResult_t ncclCommShrink(ncclComm_t comm, int* excluded, int count, ncclComm_t* made,
                                           ncclConfig_t* config, int flags) {
  return guarded(comm, [&]() -> ncclResult_t {
    ncclComm& parent = live(comm);
    required(made, "newcomm") = nullptr;
    refuse_in_group("ncclCommShrink");
    if (flags != NCCL_SHRINK_DEFAULT && flags != NCCL_SHRINK_ABORT) {
      refuse_argument("shrinkFlags is " + std::to_string(flags) + ": it is NCCL_SHRINK_DEFAULT or NCCL_SHRINK_ABORT");
    }
    converted(config);  // checked; Tutti's shrunk communicators take over the parent's configuration
    if (count < 1) refuse_argument("excludeRanksCount is " + std::to_string(count) + ": at least 1 rank is excluded");
    required(excluded, "excludeRanksList");
    tuttiResult_t state = tuttiSuccess;
    if (flags == NCCL_SHRINK_ABORT && tuttiCommGetAsyncError(parent.comm, &state) == tuttiSuccess &&
        state == tuttiSuccess) {
      tuttiCommAbort(parent.comm);
    }
    const ncclResult_t result =
        make(made, [&](tuttiComm_t* shrunk) { return tuttiCommShrink(parent.comm, excluded, count, shrunk); });
    return ready(result);
  });
}

TUTTI_NCCL_API ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* id) {
  return guarded(comm, [&]() -> ncclResult_t {
    ncclComm& handle = live(comm);
    ncclUniqueId& out = required(id, "uniqueId");
    const std::lock_guard lock(handle.mutex);
    if (handle.grows) refuse(ncclInvalidUsage, "the communicator has an id already that ncclCommGrow has not used");
    tuttiUniqueId made;
    const ncclResult_t result = done(tuttiGetUniqueId(&made), comm);
    if (result != ncclSuccess) return result;
    std::memcpy(out.internal, made.bytes, sizeof out.internal);
    handle.grows = true;
    return ncclSuccess;
  });
}

TUTTI_NCCL_API ncclResult_t ncclCommGrow(ncclComm_t comm, int ranks, const ncclUniqueId* id, int rank, ncclComm_t* made,
                                         ncclConfig_t* config) {
  return guarded(comm, [&]() -> ncclResult_t {
    required(made, "newcomm") = nullptr;
    refuse_in_group("ncclCommGrow");
    if (comm == nullptr) return join(made, ranks, required(id, "uniqueId"), rank, config);  // a new rank
    ncclComm& parent = live(comm);
    const Place place = place_of(comm);
    if (rank != -1) refuse_argument("rank is " + std::to_string(rank) + ": a rank of the communicator passes -1");
    if (ranks <= place.ranks) {
      refuse_argument("nRanks is " + std::to_string(ranks) + ": more than the communicator's " +
                      std::to_string(place.ranks) + " are needed");
    }
    ncclUniqueId shared = {};
    const ncclResult_t result = id_of_root(comm, place, id, shared);
    if (result != ncclSuccess) return result;
    const ncclResult_t joined = join(made, ranks, shared, place.rank, config);
    if (id != nullptr) {
      const std::lock_guard lock(parent.mutex);
      parent.grows = false;
    }
    return joined;
  });
}

TUTTI_NCCL_ALIAS(ncclCommSplit)
TUTTI_NCCL_ALIAS(ncclCommShrink)
TUTTI_NCCL_ALIAS(ncclCommGetUniqueId)
TUTTI_NCCL_ALIAS(ncclCommGrow)
