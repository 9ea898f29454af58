// Shrinking: the ranks that remain make a communicator of their own.
//
// The parent may have failed, and with it the process of its rendezvous server. So nothing is sent over the parent: the
// ranks that remain derive the new communicator's key from the parent's, and meet at the first of them, whose address
// they have known since the parent was made. NCCL's name for it: ncclCommShrink with NCCL_SHRINK_ABORT; MPI's:
// MPI_Comm_shrink (User-Level Failure Mitigation, Bland et al. 2013), which also agrees on the ranks that are lost.
#include <algorithm>

#include "base/format.hpp"
#include "comm/communicator.hpp"
#include "control/describe.hpp"

namespace tutti::comm {
namespace {

/// Sorted. Throws Error(InvalidArgument) unless they are ranks of the communicator other than `own`.
std::vector<Rank> checked(std::vector<Rank> excluded, Rank ranks, Rank own) {
  std::sort(excluded.begin(), excluded.end());
  if (excluded.empty()) throw_error(Code::InvalidArgument, "shrink: no rank is excluded; at least one is to be");
  for (size_t i = 0; i < excluded.size(); ++i) {
    if (excluded[i] < 0 || excluded[i] >= ranks) {
      throw_error(Code::InvalidArgument, "shrink: excluded rank {}: ranks are 0 to {}", excluded[i], ranks - 1);
    }
    if (i > 0 && excluded[i] == excluded[i - 1]) {
      throw_error(Code::InvalidArgument, "shrink: rank {} is excluded twice", excluded[i]);
    }
    if (excluded[i] == own) {
      throw_error(Code::InvalidArgument, "shrink: rank {} excludes itself; only the ranks that remain make this call",
                  own);
    }
  }
  return excluded;
}

}  // namespace

std::shared_ptr<Communicator> Communicator::shrink(std::vector<Rank> excluded) {
  excluded = checked(std::move(excluded), ranks(), rank());
  std::vector<Rank> remaining;
  for (Rank peer = 0; peer < ranks(); ++peer) {
    if (!std::binary_search(excluded.begin(), excluded.end(), peer)) remaining.push_back(peer);
  }
  uint32_t number = 0;
  {
    const std::lock_guard lock(shrinks_mutex_);
    number = shrinks_[excluded]++;
  }
  const auto id =
      endpoint_->derive_id(remaining.front(), fmt::format("shrink {} without {}", number, fmt::join(excluded, " ")));
  const auto mine = std::find(remaining.begin(), remaining.end(), rank()) - remaining.begin();
  const auto lost = endpoint_->watch_losses(remaining);
  const auto why = [&] {
    return Error(Code::PeerFailed, fmt::format("{} is gone and was not excluded",
                                               endpoint_->describe(static_cast<Rank>(lost->load()) - 1)));
  };
  try {
    return join(id, static_cast<Rank>(remaining.size()), static_cast<Rank>(mine),
                {.groups = groups_among(*groups_, remaining),
                 .title = control::title_of_shrunk(diagnostics_.title(), excluded),
                 .timeouts = timeouts_,
                 .processors = processors(),
                 .terms = {lost.get(), why, remaining}});
  } catch (const Error& error) {
    throw_error(error.code(),
                "rank {}: shrink() without {}: {}. Every rank that remains makes this call, with the same excluded "
                "ranks",
                rank(), control::list_ranks(excluded), error.what());
  }
}

}  // namespace tutti::comm
