// Which instructions offer a destination, and which use an offer: one program, with one change at a time.
#include <gtest/gtest.h>

#include "exec/compile/direct_store.hpp"
#include "exec/compile/link_table.hpp"

namespace tutti::exec {
namespace {

constexpr uint64_t kBytes = 100;

/// Builds programs of rank 0.
struct Sketch {
  WindowProgram program;
  Program whole;
  PeerTraits traits = PeerTraits(
      8, {.out = {.address = true, .cooperative = true}, .in = {.address = true, .cooperative = true}});  // of 8 ranks
  LinkTable links{whole, traits};
  Geometry geometry{.rules = {.direct_store_from = kBytes}};

  Sketch() { program.lanes.push_back({}); }
  void lane() { program.lanes.push_back({end(), end()}); }

  Instruction& send(std::vector<Rank> peers, Ref from, uint64_t bytes = kBytes) {
    return add({from}, {}, {}, peers, bytes);
  }
  Instruction& recv(Rank peer, Ref to) { return add({{Base::Message, 0}}, to, {peer}, {}, kBytes); }
  Instruction& fold(std::vector<Rank> peers, Ref mine, Ref to, std::vector<Rank> readers) {
    std::vector<Ref> sources(peers.size(), Ref{Base::Message, 0});
    for (size_t k = 0; k < sources.size(); ++k) sources[k].message = static_cast<uint32_t>(k);
    sources.push_back(mine);
    Instruction& op = add(sources, to, peers, readers, kBytes);
    deliver(op, Delivery::Address);
    op.message = to;
    return op;
  }
  /// Two ranks: each sends half of its input, folds the other half, and gets the first one back.
  void two_shot() {
    send({1}, {Base::Input, 0});
    fold({1}, {Base::Input, kBytes}, {Base::Output, kBytes}, {1});
    recv(1, {Base::Output, 0});
  }
  void deliver(const Instruction& op, Delivery how) {
    for (uint32_t i = op.outs.begin; i < op.outs.end; ++i) program.outs[i].delivery = how;
  }
  Sketch& mark() {
    for (Instruction& op : program.ops) op.remote = 0, op.direct = {};
    mark_direct_stores(program, geometry, links);
    return *this;
  }
  const Instruction& op(size_t i) const { return program.ops[i]; }
  bool offers(size_t i) const { return (op(i).remote & kOffersDestination) != 0; }
  bool stores(size_t i) const { return (op(i).remote & kStoresDirect) != 0; }

 private:
  uint32_t end() const { return static_cast<uint32_t>(program.ops.size()); }
  Instruction& add(const std::vector<Ref>& sources, Ref to, const std::vector<Rank>& from,
                   const std::vector<Rank>& readers, uint64_t bytes) {
    const auto link_lane = static_cast<uint32_t>(program.lanes.size() - 1);
    Instruction op{.bytes = bytes, .sources = static_cast<uint32_t>(sources.size())};
    op.arrivals.begin = static_cast<uint32_t>(program.arrivals.size());
    for (const Rank peer : from) program.arrivals.push_back(links.in(peer, link_lane));
    op.arrivals.end = static_cast<uint32_t>(program.arrivals.size());
    op.outs.begin = static_cast<uint32_t>(program.outs.size());
    for (const Rank peer : readers) program.outs.push_back({links.out(peer, link_lane), Delivery::Staged});
    op.outs.end = static_cast<uint32_t>(program.outs.size());
    const auto segment = static_cast<uint32_t>(program.segments.size());
    op.segments = {segment, segment + 1};
    program.segments.push_back({.bytes = bytes, .to = to, .sources = static_cast<uint32_t>(program.sources.size())});
    program.sources.insert(program.sources.end(), sources.begin(), sources.end());
    program.ops.push_back(op);
    program.lanes.back().end = end();
    return program.ops.back();
  }
};

TEST(DirectStoreMarks, AFoldIsStoredWhereItIsReceivedUnchanged) {
  Sketch sketch;
  sketch.two_shot();
  sketch.mark();
  EXPECT_TRUE(sketch.stores(1));
  EXPECT_TRUE(sketch.offers(2));
  EXPECT_EQ(sketch.op(2).direct.ahead, 1u) << "the peer's input comes first";
  EXPECT_EQ(sketch.op(2).direct.after, 0u);
  EXPECT_FALSE(sketch.stores(0) || sketch.offers(0) || sketch.offers(1) || sketch.stores(2));
}

TEST(DirectStoreMarks, InPlaceTheInputMustHaveBeenReceived) {
  Sketch sketch;
  sketch.geometry.in_place = true;
  sketch.two_shot();
  sketch.mark();
  EXPECT_TRUE(sketch.offers(2));
  EXPECT_EQ(sketch.op(2).direct.after, 1u);
  EXPECT_EQ(sketch.op(1).direct.received, 1u);
}

TEST(DirectStoreMarks, AllMessagesOfTheSameBytesCount) {
  Sketch sketch;
  sketch.geometry.in_place = true;
  sketch.send({1}, {Base::Scratch, 0});
  sketch.two_shot();
  sketch.send({1}, {Base::Input, 0});
  sketch.send({1}, {Base::Scratch, 0});
  sketch.mark();
  EXPECT_TRUE(sketch.offers(3));
  EXPECT_EQ(sketch.op(3).direct.after, 4u) << "after one message of scratch, and the sum";
}

TEST(DirectStoreMarks, NothingIsOfferedThatIsReadOrWrittenElsewhere) {
  const auto offers = [](const std::function<void(Sketch&)>& more, bool in_place = false) {
    Sketch sketch;
    sketch.geometry.in_place = in_place;
    sketch.two_shot();
    more(sketch);
    return sketch.mark().offers(2);
  };
  EXPECT_TRUE(offers([](Sketch&) {}));
  EXPECT_TRUE(offers([](Sketch& s) { s.send({1}, {Base::Output, kBytes}); })) << "beside it";
  EXPECT_FALSE(offers([](Sketch& s) { s.send({1}, {Base::Output, 1}); })) << "read";
  EXPECT_FALSE(offers([](Sketch& s) { s.fold({2}, {Base::Input, 0}, {Base::Output, 99}, {}); })) << "written";
  EXPECT_FALSE(offers([](Sketch& s) { s.fold({2}, {Base::Output, 99}, {Base::Scratch, 0}, {}); })) << "folded";
  EXPECT_FALSE(offers([](Sketch& s) {
    Instruction& op = s.send({2}, {Base::Scratch, 0});
    s.deliver(op, Delivery::Address);
    op.message = {Base::Output, 99};
  })) << "zero-copy";
  EXPECT_FALSE(offers([](Sketch& s) {
    s.lane();
    s.send({2}, {Base::Output, 0});
  })) << "read in another lane";
  EXPECT_TRUE(offers([](Sketch& s) { s.send({2}, {Base::Input, 0}); })) << "the input is elsewhere";
  EXPECT_FALSE(offers([](Sketch& s) { s.send({2}, {Base::Input, 0}); }, true)) << "a third rank reads it";
  EXPECT_FALSE(offers([](Sketch& s) { s.send({1, 2}, {Base::Input, 0}); }, true)) << "a third rank reads it too";
  EXPECT_FALSE(offers([](Sketch& s) { s.send({1}, {Base::Input, 0}, 50); }, true)) << "a part of it";
  EXPECT_FALSE(offers([](Sketch& s) { s.send({1}, {Base::Input, 1}); }, true)) << "at another offset";
  EXPECT_FALSE(offers(
      [](Sketch& s) {
        s.lane();
        s.send({1}, {Base::Input, 0});
      },
      true))
      << "in another lane, whose messages are not counted";
}

TEST(DirectStoreMarks, OneOfferPerLinkAndOnlyAfterMessagesOfEveryRound) {
  Sketch sketch;
  sketch.two_shot();
  sketch.recv(1, {Base::Output, 2 * kBytes});
  sketch.recv(2, {Base::Output, 3 * kBytes});
  sketch.mark();
  EXPECT_TRUE(sketch.offers(2));
  EXPECT_FALSE(sketch.offers(3));
  EXPECT_TRUE(sketch.offers(4)) << "another link";
  EXPECT_EQ(sketch.op(4).direct.ahead, 0u);
  sketch.program.ops[0].has_pieces = false;
  EXPECT_FALSE(sketch.mark().offers(2));
}

TEST(DirectStoreMarks, NothingShortOrOutOfReach) {
  Sketch sketch;
  sketch.two_shot();
  sketch.geometry.rules.direct_store_from = kBytes + 1;
  sketch.mark();
  EXPECT_FALSE(sketch.stores(1) || sketch.offers(2));
  sketch.geometry.rules.direct_store_from = kBytes;
  sketch.traits[1].in = {.mapped = true, .cooperative = true};
  EXPECT_FALSE(sketch.mark().offers(2));
  sketch.geometry.shared[1] = true;
  EXPECT_TRUE(sketch.mark().offers(2));
  sketch.traits[1].in = {.mapped = true};
  EXPECT_FALSE(sketch.mark().offers(2));
}

TEST(DirectStoreMarks, AFoldForSeveralReadersCountsMessagesOfEach) {
  Sketch sketch;
  sketch.fold({1, 2}, {Base::Input, 0}, {Base::Output, 0}, {1, 2});
  sketch.fold({1}, {Base::Input, kBytes}, {Base::Output, kBytes}, {1, 2});
  sketch.mark();
  EXPECT_EQ(sketch.op(0).direct.received, 1u);
  EXPECT_EQ(sketch.op(1).direct.received, 1u) << "two of rank 1, one of rank 2";
}

TEST(DirectStoreMarks, ResultsThatAreNotReadAgainGoPastTheCache) {
  Sketch sketch;
  sketch.two_shot();
  EXPECT_FALSE(sketch.mark().op(1).direct.nontemporal);
  sketch.geometry.nontemporal = true;
  EXPECT_TRUE(sketch.mark().op(1).direct.nontemporal);
  sketch.fold({1, 2}, {Base::Input, 0}, {Base::Output, 3 * kBytes}, {1, 2});
  EXPECT_FALSE(sketch.mark().op(3).direct.nontemporal) << "one of the two may read it";
  sketch.send({2}, {Base::Output, kBytes});
  EXPECT_FALSE(sketch.mark().op(1).direct.nontemporal);
}

TEST(DirectStoreMarks, OnlyFoldsThatAreSentZeroCopy) {
  Sketch sketch;
  sketch.two_shot();
  sketch.program.ops[1].slot = Slot::Stage;
  EXPECT_FALSE(sketch.mark().stores(1)) << "some reader gets a copy";
}

}  // namespace
}  // namespace tutti::exec
