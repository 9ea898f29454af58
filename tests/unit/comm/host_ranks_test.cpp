// Whether ranks outnumber cores is judged by all ranks of a host, also in a communicator of a few of them.
#include "comm/host_ranks.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "comm/communicator.hpp"
#include "comm/join.hpp"
#include "support/thread_ranks.hpp"

namespace tutti::comm {
namespace {

TEST(HostRanks, OfAllLiveCommunicatorsCountOnce) {
  const size_t before = known_host_ranks().size();
  {
    const auto world = note_host_ranks({{1, {{0, 1}}}, {2, {{0, 1}}}, {3, {{0, 1}}}, {4, {{0, 1}}}});
    const auto half = note_host_ranks({{1, {{0, 1}}}, {2, {{0, 1}}}});
    const auto threads = note_host_ranks({{1, {{0}, {1}}}});
    EXPECT_EQ(known_host_ranks().size(), before + 5) << "process 1 has two ranks in one communicator";
    EXPECT_EQ(known_host_ranks({{4, {{0, 1}}}, {5, {{0, 1}}}}).size(), before + 6);
  }
  EXPECT_EQ(known_host_ranks().size(), before) << "they have left";
}

struct Judged {
  double ranks_per_core = 0;
  bool spins = false;
};

/// A communicator of `ranks` threads that may run on the same `cores` each; `inside` is called while it lives.
Judged judged(int ranks, const Cores& cores, const std::function<void()>& inside = {}) {
  const UniqueId id = create_unique_id();
  Judged found;
  run_ranks(ranks, [&](int rank) {
    run_on(affinity_mask(cores));
    const auto comm = Communicator::join(id, ranks, rank);
    if (rank == 0) {
      found = {comm->inputs().oversubscription, comm->backoff().spins > 0};
      if (inside) inside();
    }
    EXPECT_TRUE(comm->leave().ok());
  });
  return found;
}

TEST(HostRanks, OfTheWholeJobDecideInItsParts) {
  const Cores all = allowed_cores();
  if (all.size() < 2) GTEST_SKIP() << "two cores are needed";
  const Cores two(all.begin(), all.begin() + 2);
  EXPECT_TRUE(judged(2, two).spins) << "alone, both have a core";
  Judged part;
  judged(4, two, [&] { part = judged(2, two); });
  EXPECT_FALSE(part.spins) << "four ranks of this host share two cores";
  EXPECT_EQ(part.ranks_per_core, 2);
  EXPECT_TRUE(judged(2, two).spins) << "the others have left";
}

}  // namespace
}  // namespace tutti::comm
