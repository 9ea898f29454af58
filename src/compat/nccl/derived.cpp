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

void check_excluded(std::vector<int> ranks, const Place& place) {
  std::sort(ranks.begin(), ranks.end());
  if (ranks.front() < 0 || ranks.back() >= place.ranks) {
    refuse_argument("excludeRanksList has a rank that is none of the communicator's, 0 to ", place.ranks - 1);
  }
  if (std::adjacent_find(ranks.begin(), ranks.end()) != ranks.end()) {
    refuse_argument("excludeRanksList has a rank twice");
  }
  if (std::binary_search(ranks.begin(), ranks.end(), place.rank)) {
    refuse_argument("excludeRanksList has rank ", place.rank, ", which makes this call");
  }
}

/// Null: this rank joins none.
void inherit_signals(ncclComm_t made, const ncclComm& parent, const ncclConfig_t* config) {
  if (made == nullptr) return;
  made->contexts = parent.contexts;
  made->signals_of_each = parent.signals_of_each;
  set_signals(*made, config);
}

/// All ranks of the parent learn the id that its root passed. Throws Refusal.
ncclUniqueId id_of_root(ncclComm_t comm, const Place& place, const ncclUniqueId& own) {
  std::vector<ncclUniqueId> all(static_cast<size_t>(place.ranks));
  const ncclResult_t result = done(tuttiAllGather(&own, all.data(), sizeof own, tuttiInt8, comm->comm, nullptr), comm);
  if (result != ncclSuccess) refuse(result, last_error(comm));
  const ncclUniqueId none = {};
  const auto is_set = [&](const ncclUniqueId& one) { return std::memcmp(&one, &none, sizeof one) != 0; };
  const auto roots = std::count_if(all.begin(), all.end(), is_set);
  if (roots != 1) {
    refuse_argument(roots, " of the communicator's ranks passed an id: exactly one does, which got it from ",
                    "ncclCommGetUniqueId");
  }
  return *std::find_if(all.begin(), all.end(), is_set);
}

/// The ranks that were not in the communicator. As join(), but a group's other calls may wait for it.
ncclResult_t join_grown(ncclComm_t* made, int ranks, const ncclUniqueId& id, int rank, const ncclConfig_t* config) {
  if (group_depth() == 0) return join(made, ranks, id, rank, config);
  const tuttiConfig_t settings = converted(config);
  return make_apart(
      made, [=](tuttiComm_t* comm) { return tuttiCommInitRankConfig(comm, ranks, converted(id), rank, &settings); });
}

}  // namespace
}  // namespace tutti::nccl

using namespace tutti::nccl;  // NOLINT: this file is the border

TUTTI_NCCL_API(ncclResult_t, ncclCommSplit, ncclComm_t comm, int color, int key, ncclComm_t* made,
               ncclConfig_t* config) {
  return guarded(comm, [&] {
    ncclComm& parent = live(comm);
    converted(config);  // checked; Tutti's splits take over the parent's configuration
    if (color < 0 && color != NCCL_SPLIT_NOCOLOR) {
      refuse_argument("color is ", color, ": it is 0 or more, or NCCL_SPLIT_NOCOLOR");
    }
    const ncclResult_t result =
        make(made, [&](tuttiComm_t* split) { return tuttiCommSplit(parent.comm, color, key, split); });
    if (result == ncclSuccess) inherit_signals(*made, parent, config);
    return ready(result);
  });
}

TUTTI_NCCL_API(ncclResult_t, ncclCommShrink, ncclComm_t comm, int* excluded, int count, ncclComm_t* made,
               ncclConfig_t* config, int flags) {
  return guarded(comm, [&]() -> ncclResult_t {
    ncclComm& parent = live(comm);
    required(made, "newcomm") = nullptr;
    if (flags != NCCL_SHRINK_DEFAULT && flags != NCCL_SHRINK_ABORT) {
      refuse_argument("shrinkFlags is ", flags, ": it is NCCL_SHRINK_DEFAULT or NCCL_SHRINK_ABORT");
    }
    converted(config);  // checked; Tutti's shrunk communicators take over the parent's configuration
    if (count < 1) refuse_argument("excludeRanksCount is ", count, ": at least 1 rank is excluded");
    required(excluded, "excludeRanksList");
    if (const int most = place_of(comm).ranks; count > most) {  // before any entry is read
      refuse_argument("excludeRanksCount is ", count, ", of a communicator of ", most, " ranks");
    }
    const std::vector<int> ranks(excluded, excluded + count);
    check_excluded(ranks, place_of(comm));  // before the parent is aborted
    tuttiResult_t state = tuttiSuccess;
    if (flags == NCCL_SHRINK_ABORT && tuttiCommGetAsyncError(parent.comm, &state) == tuttiSuccess &&
        state == tuttiSuccess) {
      tuttiCommAbort(parent.comm);
    }
    const ncclResult_t result = make_apart(made, [parent = parent.comm, ranks](tuttiComm_t* shrunk) {
      return tuttiCommShrink(parent, ranks.data(), static_cast<int>(ranks.size()), shrunk);
    });
    if (result == ncclSuccess) inherit_signals(*made, parent, config);
    return ready(result);
  });
}

TUTTI_NCCL_API(ncclResult_t, ncclCommGetUniqueId, ncclComm_t comm, ncclUniqueId* id) {
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

TUTTI_NCCL_API(ncclResult_t, ncclCommGrow, ncclComm_t comm, int ranks, const ncclUniqueId* id, int rank,
               ncclComm_t* made, ncclConfig_t* config) {
  return guarded(comm, [&]() -> ncclResult_t {
    required(made, "newcomm") = nullptr;
    if (comm == nullptr) return join_grown(made, ranks, required(id, "uniqueId"), rank, config);
    live(comm);
    const Place place = place_of(comm);
    if (rank != -1) refuse_argument("rank is ", rank, ": a rank of the communicator passes -1");
    if (ranks <= place.ranks) {
      refuse_argument("nRanks is ", ranks, ": more than the communicator's ", place.ranks, " are needed");
    }
    const tuttiConfig_t settings = converted(config);
    const bool is_root = id != nullptr;
    const ncclUniqueId own = is_root ? *id : ncclUniqueId{};
    const auto grow = [=](tuttiComm_t* grown) {
      const ncclUniqueId shared = id_of_root(comm, place, own);
      const tuttiResult_t result = tuttiCommInitRankConfig(grown, ranks, converted(shared), place.rank, &settings);
      if (is_root) {
        const std::lock_guard lock(comm->mutex);
        comm->grows = false;
      }
      return result;
    };
    return make_apart(made, grow);
  });
}
