// Communicators of the ranks that stay: without the others (shrink), or with new processes (grow).
//
// The parent may have failed, and with it the process of its rendezvous server. So nothing is sent over the parent: the
// ranks that stay derive the new communicator's key from the parent's, and meet at the first of them, whose address
// they have known since the parent was made. New processes get the id with the same key. NCCL's names: ncclCommShrink
// with NCCL_SHRINK_ABORT, ncclCommGrow; MPI's: MPI_Comm_shrink (User-Level Failure Mitigation, Bland et al. 2013),
// which also agrees on the ranks that are lost.
#include <algorithm>

#include "base/format.hpp"
#include "comm/communicator.hpp"
#include "control/describe.hpp"

namespace tutti::comm {

/// A communicator to be made of this one.
struct Communicator::Remake {
  std::string call;  ///< "shrink() without ranks 1, 2"
  control::UniqueId id;
  std::vector<Rank> staying;
  Rank ranks = 0, rank = 0;  ///< of the new one
  JoinOptions options;
  const char* remedy = "";
};

namespace {

/// Sorted. Throws Error(InvalidArgument) unless they are ranks of the communicator other than `own`. `call`, `word`:
/// "shrink" and "excluded".
std::vector<Rank> checked(const char* call, const char* word, std::vector<Rank> gone, Rank ranks, Rank own) {
  std::sort(gone.begin(), gone.end());
  for (size_t i = 0; i < gone.size(); ++i) {
    if (gone[i] < 0 || gone[i] >= ranks) {
      throw_error(Code::InvalidArgument, "{}: {} rank {}: ranks are 0 to {}", call, word, gone[i], ranks - 1);
    }
    if (i > 0 && gone[i] == gone[i - 1]) {
      throw_error(Code::InvalidArgument, "{}: rank {} is {} twice", call, gone[i], word);
    }
    if (gone[i] == own) {
      throw_error(Code::InvalidArgument, "{}: rank {} names itself as {}; only the ranks that stay make this call",
                  call, own, word);
    }
  }
  return gone;
}

std::vector<Rank> all_but(const std::vector<Rank>& gone, Rank ranks) {
  std::vector<Rank> staying;
  for (Rank rank = 0; rank < ranks; ++rank) {
    if (!std::binary_search(gone.begin(), gone.end(), rank)) staying.push_back(rank);
  }
  return staying;
}

/// Throws Error(InvalidArgument) unless there is a place for a new process.
void check_size(const std::vector<Rank>& replaced, Rank before, Rank ranks) {
  if (ranks < before) {
    throw_error(Code::InvalidArgument, "grow: to {} ranks, from {}; ranks that are to go are excluded by a shrink",
                ranks, before);
  }
  if (ranks > control::kMaxRanks) {
    throw_error(Code::InvalidArgument, "grow: to {} ranks: {} are the most", ranks, control::kMaxRanks);
  }
  if (ranks == before && replaced.empty()) {
    throw_error(Code::InvalidArgument, "grow: to {} ranks, which it has, and no rank is replaced", ranks);
  }
}

std::string call_of(const std::vector<Rank>& replaced, Rank ranks) {
  const std::string to = fmt::format("grow() to {} ranks", ranks);
  return replaced.empty() ? to : fmt::format("{} with new processes for {}", to, control::list_ranks(replaced));
}

}  // namespace

/// `what`, and how many calls have made it before. `begins`: this is one more.
std::string Communicator::purpose_of(const std::string& what, bool begins) {
  const std::lock_guard lock(remakes_mutex_);
  uint32_t& made = remakes_[what];
  const uint32_t number = begins ? made++ : made;
  return fmt::format("{}, number {}", what, number);
}

std::shared_ptr<Communicator> Communicator::remake(const Remake& how) {
  const auto lost = endpoint_->watch_losses(how.staying);
  const auto why = [&] {
    if (lost->load() == control::Endpoint::kAborted) {
      return Error(Code::Aborted, endpoint_->describe(endpoint_->rank()) + " aborted the communicator");
    }
    return Error(Code::PeerFailed, fmt::format("{} is gone and was not excluded",
                                               endpoint_->describe(static_cast<Rank>(lost->load()) - 1)));
  };
  JoinOptions options = how.options;
  options.timeouts = timeouts_;
  options.processors = processors();
  options.terms.stop = lost.get();
  options.terms.why = why;
  try {
    return join(how.id, how.ranks, how.rank, std::move(options));
  } catch (const Error& error) {
    throw_error(error.code(), "rank {}: {}: {}. {}", rank(), how.call, error.what(), how.remedy);
  }
}

std::shared_ptr<Communicator> Communicator::shrink(std::vector<Rank> excluded) {
  if (excluded.empty()) throw_error(Code::InvalidArgument, "shrink: no rank is excluded; at least one is to be");
  excluded = checked("shrink", "excluded", std::move(excluded), ranks(), rank());
  const std::vector<Rank> remaining = all_but(excluded, ranks());
  const std::string purpose = purpose_of(fmt::format("shrink without {}", fmt::join(excluded, " ")), true);
  const auto mine = std::find(remaining.begin(), remaining.end(), rank()) - remaining.begin();
  Remake how{.call = "shrink() without " + control::list_ranks(excluded),
             .id = endpoint_->derive_id(remaining.front(), purpose),
             .staying = remaining,
             .ranks = static_cast<Rank>(remaining.size()),
             .rank = static_cast<Rank>(mine),
             .options = {},
             .remedy = "Every rank that remains makes this call, with the same excluded ranks"};
  how.options.groups = groups_among(*groups_, remaining);
  how.options.title = control::title_of_shrunk(diagnostics_.title(), excluded);
  how.options.terms.names = remaining;
  return remake(how);
}

/// A grown communicator has the same name as its parent, on its new ranks too, unless that was made of the parent's id.
std::string Communicator::given_title() const {
  return title() == control::title_of_unnamed(endpoint_->name(), ranks()) ? "" : title();
}

control::UniqueId Communicator::grow_id(std::vector<Rank> replaced, Rank ranks) {
  replaced = checked("grow", "replaced", std::move(replaced), this->ranks(), rank());
  check_size(replaced, this->ranks(), ranks);
  const std::vector<Rank> staying = all_but(replaced, this->ranks());
  if (rank() != staying.front()) {
    throw_error(Code::InvalidUsage, "grow: the id is made by rank {}, the first that stays, and rank {} asks for it",
                staying.front(), rank());
  }
  return endpoint_->grow_id(rank(), purpose_of(call_of(replaced, ranks), false), staying, ranks, given_title());
}

std::shared_ptr<Communicator> Communicator::grow(std::vector<Rank> replaced, Rank ranks) {
  replaced = checked("grow", "replaced", std::move(replaced), this->ranks(), rank());
  check_size(replaced, this->ranks(), ranks);
  const std::vector<Rank> staying = all_but(replaced, this->ranks());
  const std::string call = call_of(replaced, ranks);
  return remake({.call = call,
                 .id = endpoint_->grow_id(staying.front(), purpose_of(call, true), staying, ranks, given_title()),
                 .staying = staying,
                 .ranks = ranks,
                 .rank = rank(),
                 .options = {},
                 .remedy =
                     "Every rank that stays makes this call, with the same replaced ranks and size; new processes "
                     "join with the id of tuttiCommGetGrowId"});
}

}  // namespace tutti::comm
