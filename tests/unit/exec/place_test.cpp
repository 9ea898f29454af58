// Placing: who may offer a place, who takes it up, and that what comes of it is the sum, whichever way ranks take
// turns.
#include "exec/place.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <random>

#include "exec/help.hpp"
#include "exec/host.hpp"
#include "exec/run.hpp"
#include "plan/algorithm.hpp"

namespace tutti::exec {
namespace {

using transports::LinkMemory;

/// The links of ranks that are all in this process, and in this thread.
struct Wires {
  struct Key {
    Rank from, to;
    uint32_t channel;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, std::unique_ptr<LinkMemory>> memory;
  std::map<Key, transports::Helping> helping;

  LinkMemory* of(const Key& key) {
    auto& made = memory[key];
    if (made == nullptr) made = std::make_unique<LinkMemory>();
    return made.get();
  }
};

class Wired : public Connector {
 public:
  Wired(Wires& wires, Rank rank, bool offers = true) : wires_(wires), rank_(rank), offers_(offers) {}
  transports::OutLink connect_out(Rank peer, uint32_t channel) override {
    const Wires::Key key{rank_, peer, channel};
    return {.memory = wires_.of(key), .peer = peer, .lend_from = 0, .helping = &wires_.helping[key]};
  }
  transports::InLink connect_in(Rank peer, uint32_t channel) override {
    return {.memory = wires_.of({peer, rank_, channel}), .peer = peer, .addresses = true, .helped = offers_};
  }

 private:
  Wires& wires_;
  Rank rank_;
  bool offers_;
};

constexpr uint64_t kCount = 1000, kWindow = 300;  // elements: four rounds, the last one short

Lowered lowered(const char* algorithm, Rank ranks, Rank me, Links& links, bool in_place, bool placed = true) {
  const Collective collective = Collective::AllReduce;
  const plan::RankPlan plan = plan::generate(*plan::find_algorithm(collective, algorithm), {collective, ranks}, me);
  return lower(plan,
               {.count = kCount,
                .window = kWindow,
                .element_bytes = 4,
                .in_place = in_place,
                .place_from = placed ? 1 : transports::kNeverLend},
               links);
}

/// What rank 1's program for an all-reduce offers, and what it would place.
struct Marks {
  int64_t offers = 0, places = 0;
  uint32_t ahead = 0, after = 0, had = 0;  // of the last of them
};
Marks marks(const char* algorithm, Rank ranks, bool in_place, bool placed = true, bool reachable = true) {
  Wires wires;
  Wired connector(wires, 1, reachable);
  Links links(connector);
  Marks found;
  for (const Op& op : lowered(algorithm, ranks, 1, links, in_place, placed).full.ops) {
    if (op.offers) ++found.offers, found.ahead = op.ahead, found.after = op.after;
    if (op.places) ++found.places, found.had = op.had;
  }
  return found;
}

TEST(Placing, IsForResultsThatTheirReaderOnlyCopies) {
  const Marks two = marks("two_shot", 2, false), five = marks("two_shot", 5, false);
  EXPECT_EQ(two.offers, 1);
  EXPECT_EQ(two.places, 1);
  EXPECT_EQ(two.ahead, 1u) << "the peer's input comes first";
  EXPECT_EQ(two.after, 0u);
  EXPECT_EQ(five.offers, 4);
  EXPECT_EQ(five.places, 1);
}

TEST(Placing, InPlaceComesAfterTheInputHasBeenHad) {
  const Marks two = marks("two_shot", 2, true);
  EXPECT_EQ(two.offers, 1);
  EXPECT_EQ(two.after, 1u);
  EXPECT_EQ(two.had, 1u);
}

TEST(Placing, SparesMemoryThatThePlanUsesInBetween) {
  EXPECT_EQ(marks("ring", 4, true).offers, 0) << "a rank folds its own input, which lies there, first";
  EXPECT_EQ(marks("recursive_doubling", 4, false).offers, 0) << "nothing is received as it is";
}

TEST(Placing, IsNotForMemoryOutOfReachNorUnlessAskedFor) {
  EXPECT_EQ(marks("two_shot", 2, false, true, false).offers, 0);
  EXPECT_EQ(marks("two_shot", 2, false, false).offers, 0);
  EXPECT_EQ(marks("two_shot", 2, false, false).places, 0);
}

/// All ranks of one all-reduce, a step at a time.
class Team {
 public:
  Team(const char* algorithm, Rank ranks, bool in_place) : ranks_(ranks) {
    for (Rank r = 0; r < ranks; ++r) {
      auto& seat = *seats_.emplace_back(std::make_unique<Seat>(wires_, r));
      seat.in.resize(kCount);
      for (uint64_t i = 0; i < kCount; ++i) seat.in[i] = value(r, i);
      seat.out.assign(kCount, 0xdeadbeef);
      seat.program = {lowered(algorithm, ranks, r, seat.links, in_place), 4};
      seat.program.restart(seat.links);
      RankState& state = seat.program.state;
      state.bases[0] = bytes(seat.in);
      state.bases[1] = bytes(in_place ? seat.in : seat.out);
      state.tag = 42;
      state.arithmetic = {.fold = fold_function(DType::U32, tutti::Op::Sum), .element_bytes = 4};
      seat.result = in_place ? &seat.in : &seat.out;
    }
  }

  /// Until all are done, in an order that the seed decides; none after so many steps that there is no end.
  void run(uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<bool> done(static_cast<size_t>(ranks_), false);
    for (int steps = 0; std::count(done.begin(), done.end(), false) > 0; ++steps) {
      ASSERT_LT(steps, 1000000);
      const size_t r = random() % done.size();
      RankState& state = seats_[r]->program.state;
      bool all = true;
      for (uint32_t lane = 0; lane < state.lane_count; ++lane) {
        const Outcome outcome = HostInterpreter::try_step({}, state, state.lanes[lane]);
        ASSERT_NE(outcome, Outcome::Fault) << static_cast<int>(state.fault.kind);
        all = all && outcome == Outcome::LaneDone;
      }
      done[r] = all;
    }
  }

  void expect_sums() const {
    for (const auto& seat : seats_) {
      for (uint64_t i = 0; i < kCount; ++i) {
        uint32_t sum = 0;
        for (Rank r = 0; r < ranks_; ++r) sum += value(r, i);
        ASSERT_EQ((*seat->result)[i], sum) << i;
      }
    }
  }
  /// Links over which a writer has placed something.
  int64_t placed() const {
    return std::count_if(wires_.memory.begin(), wires_.memory.end(),
                         [](const auto& link) { return link.second->claim.done != 0; });
  }
  RankState& state(size_t rank) { return seats_[rank]->program.state; }
  std::vector<uint32_t>& result(size_t rank) { return *seats_[rank]->result; }
  Links& links(size_t rank) { return seats_[rank]->links; }

 private:
  struct Seat {
    Seat(Wires& wires, Rank rank) : connector(wires, rank), links(connector) {}
    Wired connector;
    Links links;
    std::vector<uint32_t> in, out;
    std::vector<uint32_t>* result = nullptr;
    Loaded program;
  };
  static uint32_t value(Rank rank, uint64_t i) {
    return static_cast<uint32_t>(rank) * 0x01000193u + static_cast<uint32_t>(i) * 7919u;
  }
  static unsigned char* bytes(std::vector<uint32_t>& words) { return reinterpret_cast<unsigned char*>(words.data()); }

  Rank ranks_;
  Wires wires_;
  std::vector<std::unique_ptr<Seat>> seats_;
};

TEST(Placing, MakesTheSumInAnyOrderOfTurns) {
  for (const Rank ranks : {2, 3, 5, 12}) {  // of twelve a fold has more readers than places
    for (const bool in_place : {false, true}) {
      for (uint64_t seed = 0; seed < 50; ++seed) {
        SCOPED_TRACE(testing::Message() << ranks << " ranks, seed " << seed << (in_place ? ", in place" : ""));
        Team team("two_shot", ranks, in_place);
        ASSERT_NO_FATAL_FAILURE(team.run(seed));
        ASSERT_NO_FATAL_FAILURE(team.expect_sums());
        EXPECT_EQ(team.placed(), ranks * std::min<int64_t>(ranks - 1, kMostPlaces));
      }
    }
  }
}

TEST(Placing, IsRefusedByAReaderThatGivesUp) {
  Team team("two_shot", 2, false);
  for (const size_t rank : {size_t{0}, size_t{1}}) {  // both offer a place and send their input
    RankState& state = team.state(rank);
    ASSERT_EQ(HostInterpreter::try_step({}, state, state.lanes[0]), Outcome::Progress);
  }
  refuse_help(team.links(0).ins());
  EXPECT_TRUE(std::all_of(team.links(0).ins().begin(), team.links(0).ins().end(), alone));
  RankState& other = team.state(1);
  ASSERT_EQ(HostInterpreter::try_step({}, other, other.lanes[0]), Outcome::Progress);  // it folds
  EXPECT_EQ(std::count(team.result(0).begin(), team.result(0).end(), 0xdeadbeef), static_cast<int64_t>(kCount));
  EXPECT_NE(std::count(team.result(1).begin(), team.result(1).end(), 0xdeadbeef), static_cast<int64_t>(kCount));
}

}  // namespace
}  // namespace tutti::exec
