// The writer's half of a cooperative copy: how it reaches the destination, and when it does not copy.
#include "exec/host/cooperative_copy.hpp"
#include "support/link_ends.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "exec/host/host_policies.hpp"
#include "exec/host/release_buffers.hpp"
#include "link/cma.hpp"
#include "link/mapped_memory.hpp"

namespace tutti::exec {
namespace {

using link::HostCooperativeWire;
using link::HostWire;
using link::SharedRegion;

constexpr uint64_t kBytes = 300001;

/// One thread plays both ends: the writer has published `from`, and the reader has claimed its first tiles.
struct HostCooperativeCopy : testing::Test {
  std::unique_ptr<link::LinkMemory> memory = std::make_unique<link::LinkMemory>();
  std::vector<unsigned char> from = std::vector<unsigned char>(kBytes, 7), to = std::vector<unsigned char>(kBytes);
  link::HostWriter writer;
  link::HostReader host;
  link::OutLink out = link::writing_end(*memory, &writer);
  link::InLink in = link::reading_end(*memory, &host);
  Instruction op{.bytes = kBytes, .sources = 1, .remote = kCooperativeCopy};
  link::CmaGate gate;
  link::Arrival arrival;
  const unsigned char* pointer = nullptr;
  HostLane host_lane;
  LaneState lane;
  RankState reader;

  HostCooperativeCopy() {
    in.addresses = true;
    HostWire::publish_zcopy(out, 7, from.data(), kBytes);
    link::Header header;
    EXPECT_EQ(HostWire::poll(in, header, arrival), link::Poll::Ready);
    lane.host = &host_lane;
    lane.arrivals = &arrival;
    lane.operands = &pointer;
    reader.in = &in;
    reader.lanes = &lane;
    reader.lane_count = 1;
    pointer = from.data();
  }
  /// Acts as two processes: the offer is an address, or an offset in a region.
  void apart() {
    out.arena = from.data();
    in.addresses = false;
    host.process = writer.process = getpid();
    in.cma = static_cast<uint64_t>(getpid());
    host.gate = &gate;
  }
  /// `to` as a region of which the pages [first, up_to) can be offered.
  SharedRegion region(uint64_t first, uint64_t up_to) const {
    return {.id = 5, .base = to.data(), .pages = to.data() + first, .pages_end = to.data() + up_to};
  }
  int read_some(const SharedRegion& region = {}) {
    return HostRemoteAccess::copy_next_tile(in, region, op, to.data(), lane);
  }
  int read_all(const SharedRegion& region = {}) {
    int error = 0;
    do error = read_some(region);
    while (error == 0 && host.cooperative.phase != link::CooperativeReader::Phase::None);
    return error;
  }
  bool copy() { return copy_for_readers(&out, std::array<uint32_t, 1>{0}); }
  /// The reader ends with the whole message, of which the writer has copied a part, or nothing.
  void expect_copied(bool cooperative) {
    EXPECT_EQ(copy(), cooperative);
    EXPECT_EQ(to.back(), cooperative ? 7 : 0);
    EXPECT_EQ(read_all(), 0);
    EXPECT_EQ(to, from);
    EXPECT_FALSE(copy());
  }
};

TEST_F(HostCooperativeCopy, CopiesWithinAProcess) {
  EXPECT_FALSE(copy()) << "there is no offer";
  EXPECT_EQ(read_some(), 0);
  expect_copied(true);
}

TEST_F(HostCooperativeCopy, WritesIntoAnotherProcessByCma) {
  apart();
  EXPECT_EQ(read_some(), 0);
  if (!copy()) GTEST_SKIP() << "the kernel does not permit it here";
  expect_copied(true);
}

TEST_F(HostCooperativeCopy, FailsIfTheGateIsShut) {
  apart();
  EXPECT_EQ(read_some(), 0);
  gate.shut();
  EXPECT_FALSE(copy());
  EXPECT_TRUE(writer.stopped);
  expect_copied(false);
}

TEST_F(HostCooperativeCopy, GetsNoOfferWithoutAGate) {
  apart();
  host.gate = nullptr;
  EXPECT_EQ(read_some(), 0);
  EXPECT_EQ(memory->offer.route, static_cast<uint64_t>(link::Route::None));
  memory->offer.route = static_cast<uint64_t>(link::Route::CmaWrite);
  expect_copied(false);
}

/// The reader's memory as mapped by the writer: here the same address.
struct Mapped : link::PeerMappings {
  explicit Mapped(std::vector<unsigned char>& all) : memory(all) {}
  std::vector<unsigned char>& memory;
  unsigned char* find(uint64_t id, uint64_t offset, uint64_t bytes, int& error) override {
    error = id == 5 && offset + bytes <= memory.size() ? 0 : ENOENT;
    return error == 0 ? memory.data() + offset : nullptr;
  }
};

TEST_F(HostCooperativeCopy, CopiesIntoMemoryThatItMaps) {
  Mapped mappings(to);
  apart();
  writer.process = 0;
  writer.mappings = &mappings;
  op.nontemporal = true;
  EXPECT_EQ(read_some(region(0, kBytes)), 0);
  EXPECT_EQ(memory->offer.region, 5u);
  expect_copied(true);
}

TEST_F(HostCooperativeCopy, LeavesTheEdgesToTheReader) {
  Mapped mappings(to);
  apart();
  writer.mappings = &mappings;
  const SharedRegion pages = region(1000, kBytes - 2000);
  EXPECT_EQ(read_some(pages), 0);
  EXPECT_TRUE(copy());
  EXPECT_EQ(std::count(to.end() - 2000, to.end(), 0), 2000);
  EXPECT_EQ(to[kBytes - 2100], 7);
  EXPECT_EQ(read_all(pages), 0);
  EXPECT_EQ(to, from);
}

TEST_F(HostCooperativeCopy, GetsNoOfferIfAllPagesAreShared) {
  Mapped mappings(to);
  apart();
  writer.mappings = &mappings;
  EXPECT_EQ(read_some(region(kBytes, kBytes)), 0);
  EXPECT_EQ(memory->offer.route, static_cast<uint64_t>(link::Route::None));
  expect_copied(false);
}

TEST_F(HostCooperativeCopy, RefusesInvalidEdges) {
  EXPECT_EQ(read_some(), 0);
  for (const uint64_t edges : {uint64_t{kBytes}, kBytes << 32, uint64_t{1} << 32, ~uint64_t{0}, uint64_t{64}}) {
    memory->offer.edges = edges;
    EXPECT_FALSE(copy()) << edges;
  }
  memory->offer.edges = 0;
  expect_copied(true);
}

/// A fold of two pieces that is stored directly to a destination with edges in another process: the edges are unchanged
/// until the reader has copied them.
TEST(HostDirectStore, LeavesTheEdgesToTheReader) {
  constexpr uint64_t kCount = 200000;  // elements: several tiles
  for (const uint32_t readers : {1, 2}) {
    for (const bool by_cma : {false, true}) {
      SCOPED_TRACE(testing::Message() << readers << " readers" << (by_cma ? ", by CMA" : ""));
      std::vector<uint32_t> one(kCount, 1), two(kCount, 2), sum(kCount);
      std::vector<unsigned char> target(kCount * 4, 0xee), other(kCount * 4, 0xee);
      link::Arrival arrival{.data = reinterpret_cast<unsigned char*>(two.data())};
      if (by_cma) arrival.where = link::Where::Cma, arrival.id = static_cast<uint64_t>(getpid());
      const unsigned char* pointers[2] = {reinterpret_cast<unsigned char*>(one.data()), arrival.data};
      const Ref sources[2] = {{Base::Input, 0}, {Base::Message, 0}};
      HostLane host_lane;
      LaneState lane;
      lane.host = &host_lane;
      lane.arrivals = &arrival;
      lane.operands = pointers;
      lane.host->direct_stores = readers;
      lane.host->direct_to[0] = target.data(), lane.host->direct_to[1] = other.data();
      lane.host->direct_edges[0] = {1024, 128}, lane.host->direct_edges[1] = {0, 4096};
      const Instruction op{.arrivals = {0, 1}, .bytes = kCount * 4, .sources = 2};
      const Arithmetic how{.fold = fold_function(DType::U32, tutti::Op::Sum), .element_bytes = 4};
      auto* const to = reinterpret_cast<unsigned char*>(sum.data());
      if (readers == 1 && !by_cma) {
        HostRemoteAccess::store_direct(how, op, {.bytes = kCount * 4}, to, lane);
      } else {
        const CmaResult result =
            HostRemoteAccess::run_tiled(how, op, {.bytes = kCount * 4}, to, nullptr, sources, lane);
        if (result.error == EPERM) GTEST_SKIP() << "the kernel does not permit it here";
        ASSERT_EQ(result.error, 0);
      }
      EXPECT_EQ(sum, std::vector<uint32_t>(kCount, 3));
      const auto expect_interior = [&](const std::vector<unsigned char>& at, const link::Edges& edges) {
        const size_t end = at.size() - edges.back;
        EXPECT_TRUE(std::all_of(at.begin(), at.begin() + edges.front, [](unsigned char b) { return b == 0xee; }));
        EXPECT_EQ(std::memcmp(at.data() + edges.front, to + edges.front, end - edges.front), 0);
        EXPECT_TRUE(
            std::all_of(at.begin() + static_cast<ptrdiff_t>(end), at.end(), [](unsigned char b) { return b == 0xee; }));
      };
      expect_interior(target, lane.host->direct_edges[0]);
      if (readers == 2) expect_interior(other, lane.host->direct_edges[1]);
    }
  }
}

TEST_F(HostCooperativeCopy, SkipsWhatItCannotReach) {
  apart();
  writer.process = 0;
  EXPECT_EQ(read_some(), 0);
  expect_copied(false);
}

TEST_F(HostCooperativeCopy, FollowsNoAddressOfAnotherProcess) {
  apart();
  EXPECT_EQ(read_some(), 0);
  memory->offer.route = static_cast<uint64_t>(link::Route::Address);
  expect_copied(false);
}

TEST_F(HostCooperativeCopy, RefusesUnknownRoutes) {
  EXPECT_EQ(read_some(), 0);
  for (const uint64_t route : {uint64_t{0}, uint64_t{4}, uint64_t{0xff}, ~uint64_t{0}}) {
    memory->offer.route = route;
    writer.unreachable = 0;
    EXPECT_FALSE(copy()) << route;
  }
  memory->offer.route = static_cast<uint64_t>(link::Route::Mapped);
  writer.unreachable = 0;
  expect_copied(false);  // it maps none of the reader's regions
}

TEST_F(HostCooperativeCopy, StopsPermanentlyWhenTheKernelRefuses) {
  apart();
  EXPECT_EQ(read_some(), 0);
  const uint64_t target = memory->offer.target;
  memory->offer.target = 4096;  // not mapped
  EXPECT_FALSE(copy());
  EXPECT_TRUE(writer.stopped);
  memory->offer.target = target;
  expect_copied(false);
}

TEST_F(HostCooperativeCopy, StopsWhenTheReaderIsDead) {
  apart();
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  writer.process = child;
  EXPECT_EQ(read_some(), 0);
  EXPECT_FALSE(copy());
  EXPECT_TRUE(writer.stopped);
}

TEST_F(HostCooperativeCopy, IsWithdrawnWhenTheReaderCloses) {
  EXPECT_EQ(read_some(), 0);
  link::OfferCopy offered;
  link::Tiles tiles;
  ASSERT_TRUE(HostCooperativeWire::find_offer(out, offered));
  ASSERT_TRUE(HostCooperativeWire::claim_back(out, offered, tiles));  // and is about to copy
  close_offers({&in, 1});
  EXPECT_FALSE(writer_done(in));
  HostCooperativeWire::finish(out);
  EXPECT_TRUE(writer_done(in));
  EXPECT_FALSE(copy());
  EXPECT_EQ(to.back(), 0);
}

/// A fold for a reader whose memory cannot be mapped: mapping is tried once, and the reader copies the message.
TEST(HostDirectStoreOutOfReach, IsTriedOnce) {
  struct Nowhere : link::PeerMappings {
    int asked = 0;
    unsigned char* find(uint64_t, uint64_t, uint64_t, int& error) override {
      ++asked, error = ENOMEM;
      return nullptr;
    }
  } mappings;
  auto memory = std::make_unique<link::LinkMemory>();
  link::HostWriter writer{.mappings = &mappings};
  link::HostReader host;
  unsigned char arena = 0;
  link::OutLink out = link::writing_end(*memory, &writer);
  out.arena = &arena;
  out.peer = 1;
  link::InLink in = link::reading_end(*memory, &host);
  const Out only{0, Delivery::Mapped};
  const Tables tables{.outs = &only};
  RankState rank;
  rank.out = &out;
  HostLane host_lane;
  LaneState lane;
  lane.host = &host_lane;
  lane.tables = &tables;
  const Instruction op{.outs = {0, 1}, .bytes = kBytes, .remote = kStoresDirect};
  for (uint64_t message = 0; message < 3; ++message) {
    const auto shared = static_cast<uint64_t>(link::Route::Mapped);
    HostCooperativeWire::offer(in, link::tiles_of(kBytes), {.route = shared | link::kEarly, .region = 5});
    HostRemoteAccess::find_direct_stores(rank, lane, op);
    EXPECT_EQ(lane.host->direct_stores, 0u);
    ++out.next, ++in.next;
  }
  EXPECT_EQ(mappings.asked, 1);
}

/// Many messages in other processes, folded in one step: each has its own tile.
TEST(CmaTiles, HoldMoreMessagesThanTheUsualMemory) {
  constexpr uint32_t kMessages = 200;
  constexpr uint64_t kCount = 3000;  // elements: more than a tile
  std::vector<std::vector<uint32_t>> from;
  std::vector<link::Arrival> arrivals;
  std::vector<Ref> sources;
  for (uint32_t k = 0; k < kMessages; ++k) {
    sources.emplace_back(Base::Message, 0).message = k;
    from.emplace_back(kCount, k + 1);
    arrivals.push_back({.data = reinterpret_cast<unsigned char*>(from.back().data()),
                        .where = link::Where::Cma,
                        .id = static_cast<uint64_t>(getpid())});
  }
  std::vector<const unsigned char*> pointers(kMessages);
  HostLane host_lane;
  LaneState lane;
  lane.host = &host_lane;
  lane.arrivals = arrivals.data();
  lane.operands = pointers.data();
  std::vector<uint32_t> sum(kCount);
  const Instruction op{.arrivals = {0, kMessages}, .bytes = kCount * 4, .sources = kMessages};
  const Arithmetic how{.fold = fold_function(DType::U32, tutti::Op::Sum), .element_bytes = 4};
  const CmaResult by_cma = HostRemoteAccess::run_tiled(
      how, op, {.bytes = kCount * 4}, reinterpret_cast<unsigned char*>(sum.data()), nullptr, sources.data(), lane);
  if (by_cma.error == EPERM) GTEST_SKIP() << "the kernel does not permit it here";
  ASSERT_EQ(by_cma.error, 0);
  EXPECT_EQ(sum, std::vector<uint32_t>(kCount, kMessages * (kMessages + 1) / 2));
}

}  // namespace
}  // namespace tutti::exec
