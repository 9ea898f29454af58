#include "synth/bound.hpp"

#include <gtest/gtest.h>

#include "synth/machines.hpp"
#include "tutti/error.hpp"

namespace tutti::synth {
namespace {

/// What must cross, and over how many GB/s, in lowest terms; "?": only a lower bound.
std::string bound(const Drawing& drawing, Collective collective) {
  const Network network = drawing.network();
  const Bound bound = bound_of(network, collective);
  return fmt::format("{} over {:g}{}", bound.cut.must.blocks,
                     static_cast<double>(bound.cut.must.capacity) * network.unit / 1e9, bound.exact ? "" : "?");
}
constexpr auto kGather = Collective::AllGather;
constexpr auto kBroadcast = Collective::Broadcast;
constexpr auto kAllReduce = Collective::AllReduce;
constexpr auto kAllToAll = Collective::AllToAll;

// By hand. A single rank of a ring has two links in; what separates two neighbours from two others cuts two links too.
TEST(Bound, OfARing) {
  EXPECT_EQ(bound(ring(4, 10), kGather), "3 over 20");
  EXPECT_EQ(bound(ring(4, 10), Collective::ReduceScatter), "3 over 20");
  EXPECT_EQ(bound(ring(4, 10), kBroadcast), "1 over 20");
  EXPECT_EQ(bound(ring(4, 10), Collective::Reduce), "1 over 20");
  EXPECT_EQ(bound(ring(4, 10), kAllReduce), "6 over 80");  // of 4 parts; as reduce-scatter and all-gather reach it
  EXPECT_EQ(bound(ring(4, 10), kAllToAll), "4 over 20?");
}
TEST(Bound, OfASwitch) {
  EXPECT_EQ(bound(one_switch(4, 100), kGather), "3 over 100");
  EXPECT_EQ(bound(one_switch(4, 100), kBroadcast), "1 over 100");
  EXPECT_EQ(bound(one_switch(4, 100), kAllReduce), "6 over 400");
  EXPECT_EQ(bound(one_switch(4, 100), kAllToAll), "3 over 100?");
}
TEST(Bound, OfTwoIslands) {
  EXPECT_EQ(bound(two_islands(), kGather), "4 over 24");
  EXPECT_EQ(bound(two_islands(), kBroadcast), "1 over 24");
  EXPECT_EQ(bound(two_islands(), kAllReduce), "1 over 24");
  EXPECT_EQ(bound(two_islands(), kAllToAll), "16 over 24?");
}
TEST(Bound, OfAPcieTree) {
  EXPECT_EQ(bound(pcie_tree(), kGather), "2 over 12");
  EXPECT_EQ(bound(pcie_tree(), kBroadcast), "1 over 12");
  EXPECT_EQ(bound(pcie_tree(), kAllToAll), "4 over 12?");
}
TEST(Bound, OfAHypercube) {
  EXPECT_EQ(bound(hypercube(3, 20), kGather), "7 over 60");
  EXPECT_EQ(bound(hypercube(3, 20), kBroadcast), "1 over 60");
  EXPECT_EQ(bound(hypercube(3, 20), kAllToAll), "16 over 80?");  // a face
}
TEST(Bound, OfUnevenHosts) {
  EXPECT_EQ(bound(uneven_hosts(), kGather), "3 over 10");
  EXPECT_EQ(bound(uneven_hosts(), Collective::ReduceScatter), "3 over 10");
  EXPECT_EQ(bound(uneven_hosts(), kAllToAll), "3 over 10?");
}
TEST(Bound, OfARingWithADeadLink) {
  EXPECT_EQ(bound(line({10, 10, 10}), kGather), "3 over 10");
  EXPECT_EQ(bound(line({10, 10, 10}), kBroadcast), "1 over 10");
  EXPECT_EQ(bound(line({10, 10, 10}), kAllReduce), "6 over 60");  // all-gather both ways: 3/2 of that
}
TEST(Bound, ARootThatIsNoRankIsRefused) {
  for (const Rank root : {-1, 3, 1 << 30})
    EXPECT_THROW(bound_of(line({10, 5}).network(), kBroadcast, root), Error) << root;
}
TEST(Bound, OfALine) { EXPECT_EQ(bound(line({10, 5}), kGather), "2 over 5"); }
TEST(Bound, OfAFullMesh) {
  EXPECT_EQ(bound(full_mesh(4, 10), kGather), "3 over 30");
  EXPECT_EQ(bound(full_mesh(4, 10), kAllToAll), "3 over 30?");
}
/// Into host 3 leads a cable of 4 GB/s, and two of 1.
TEST(Bound, OfHostsWithCables) {
  EXPECT_EQ(bound(cabled_hosts({}), kGather), "3 over 12");
  EXPECT_EQ(bound(cabled_hosts({{2, 3}}), kGather), "3 over 9");
  EXPECT_EQ(bound(cabled_hosts({{0, 3}, {1, 3}}), kGather), "3 over 6");
  EXPECT_EQ(bound(cabled_hosts({{0, 3}, {1, 3}}), kBroadcast), "1 over 6");
  EXPECT_EQ(bound(cabled_hosts({{0, 3}, {1, 3}}, 2), kGather), "6 over 6") << "of two GPUs a host";
  Drawing pairs = hosts_with_ports({6, 6, 6, 6});
  for (const auto& [a, b] : {std::pair(0, 2), {0, 3}, {1, 2}, {1, 3}}) pairs.know(a, b, 0.5);
  pairs.know(0, 1, 5), pairs.know(2, 3, 5);
  EXPECT_EQ(bound(pairs, kGather), "2 over 2") << "the four cables between two pairs of hosts";
}
/// What the network joins could be passed on by its switches, as far as the bound knows.
TEST(Bound, OfHostsOfWhichSomeHaveCablesIsALowerOne) {
  Drawing drawing = hosts_with_ports({10, 10, 10});
  drawing.know(0, 1, 2);
  EXPECT_EQ(bound(drawing, kGather), "2 over 10?");
}
TEST(Bound, OfOneRankIsNothing) {
  const Network network = one_switch(1, 10).network();
  EXPECT_EQ(bound_of(network, kGather).seconds_per_byte(), 0);
  EXPECT_EQ(words_of(network, bound_of(network, kGather)), "one rank: nothing is sent");
}

TEST(Bound, IsACertificate) {
  const Network network = two_islands().network();
  EXPECT_EQ(words_of(network, bound_of(network, kGather)),
            "{ranks 0-3 | ranks 4-7}: 24 GB/s cross, 4 blocks must -> >= 22.37 ms/GiB");
  EXPECT_EQ(words_of(network, bound_of(network, kBroadcast)),
            "{ranks 0-3 | ranks 4-7}: 24 GB/s cross, the buffer must -> >= 44.74 ms/GiB");
  const Network one = one_switch(4, 100).network();
  EXPECT_EQ(words_of(one, bound_of(one, kAllReduce)),
            "{rank 0 | rank 1 | … | rank 3}: 400 GB/s cross, 6 times the buffer must -> >= 16.11 ms/GiB");
}

TEST(Bound, HasTheLatencyOfTheFarthestRanks) {
  EXPECT_EQ(bound_of(line({10, 5, 5}).network(), kGather).us, 3);
  EXPECT_EQ(bound_of(one_switch(4, 100).network(), kGather).us, 2);
}

/// All sides that hold some rank, and not all.
template <class Function>
void for_all_sides(const Network& network, const Function& function) {
  for (uint32_t set = 1; set < uint32_t{1} << network.vertices; ++set) {
    Side side(network.vertices);
    int64_t in = 0;
    for (Vertex v = 0; v < network.vertices; ++v) {
      side[v] = (set >> v & 1) != 0;
      in += side[v] && network.is_rank(v) ? 1 : 0;
    }
    Capacity out = 0;
    for (const Arc& arc : network.arcs) out += side[arc.from] && !side[arc.to] ? arc.capacity : 0;
    if (in > 0 && in < network.ranks) function(side, in, out);
  }
}

TEST(Bound, IsThatOfAllCutsOfRandomNetworks) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    const Network network = random_network(seed);
    Ratio gather{0, 1}, broadcast{0, 1}, all_to_all{0, 1}, halves{0, 1};
    for_all_sides(network, [&](const Side& side, int64_t in, Capacity out) {
      gather = std::max(gather, Ratio{in, out});
      halves = std::max(halves, Ratio{1, out});
      all_to_all = std::max(all_to_all, Ratio{in * (network.ranks - in), out});
      if (side[0]) broadcast = std::max(broadcast, Ratio{1, out});
    });
    EXPECT_EQ(bound_of(network, kGather).cut.must, gather) << seed;
    EXPECT_EQ(bound_of(network, Collective::ReduceScatter).cut.must, gather) << seed;
    EXPECT_EQ(bound_of(network, kBroadcast).cut.must, broadcast) << seed;
    EXPECT_EQ(bound_of(network, Collective::Reduce).cut.must, broadcast) << seed;
    EXPECT_EQ(bound_of(network, kAllToAll).cut.must, all_to_all) << seed;
    const Ratio all_reduce = bound_of(network, kAllReduce).cut.must;
    EXPECT_FALSE(all_reduce < halves) << seed;
    EXPECT_FALSE((Ratio{2 * gather.blocks, gather.capacity * network.ranks} < all_reduce)) << seed;
  }
}

TEST(Bound, RefusesWhatIsNotConnected) {
  Drawing apart;
  apart.star(2, 10);
  apart.star(2, 10);
  try {
    bound_of(apart.network(), kGather);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("no path from ranks"), std::string::npos) << error.what();
  }
  EXPECT_THROW(bound_of(apart.network(), kAllReduce), Error);
  EXPECT_THROW(bound_of(apart.network(), kAllToAll), Error);
}

TEST(Bound, RefusesWhatItDoesNotKnow) { EXPECT_THROW(bound_of(ring(4, 1).network(), Collective::Gather), Error); }

}  // namespace
}  // namespace tutti::synth
