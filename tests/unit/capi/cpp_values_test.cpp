// The C++ interface: single variables as buffers, and values that are not elements.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "support/cpp_ranks.hpp"
#include "tutti/tutti.hpp"

namespace tutti {
namespace {

/// A program's struct.
struct Particle {
  double place[3];
  char name;
  bool operator==(const Particle&) const = default;
};
enum class Phase : short { Start, End };
template <class In, class Out>
concept CanGather = requires(Communicator& comm, In&& in, Out&& out) {
  comm.all_gather(std::forward<In>(in), std::forward<Out>(out));
};
static_assert(CanReduce<float&, float&> && CanReduce<const int&, std::span<int>> && CanReduce<long&, long long&>);
static_assert(!CanReduce<float&, double&> && !CanReduce<float&, const float&> && !CanReduce<float, float&>);
static_assert(!CanReduce<Particle&, Particle&> && !CanReduce<bool&, bool&> && !CanReduce<Phase&, Phase&>, "no sum");
static_assert(CanBroadcast<Particle&> && CanBroadcast<std::vector<Particle>&> && CanBroadcast<Phase&>);
static_assert(CanBroadcast<double&> && CanBroadcast<bool&> && CanBroadcast<std::string&>);
static_assert(!CanBroadcast<const Particle&> && !CanBroadcast<Particle> && !CanBroadcast<volatile int&>);
static_assert(!CanBroadcast<int*&> && !CanBroadcast<std::vector<int*>&> && !CanBroadcast<std::nullptr_t&>, "pointers");
static_assert(!CanBroadcast<std::vector<std::string>&> && !CanBroadcast<std::unique_ptr<int>&>, "not plain bytes");
static_assert(CanGather<Particle&, std::vector<Particle>&> && CanGather<const Phase&, std::array<Phase, 4>&>);
static_assert(!CanGather<Particle&, std::vector<std::byte>&> && !CanGather<Phase&, std::vector<short>&>, "two types");

TEST(CppWindow, AnOffsetThatDoesNotFitIsRefused) {
  with_ranks(1, [](Communicator& comm) {
    std::vector<uint64_t> part(2, 7);
    Window<uint64_t> window(comm, std::span(part));
    uint64_t word = 1;
    const size_t wraps = size_t{1} << 61;  // times 8 it is 0
    EXPECT_THROW(window.put(std::span(&word, 1), 0, wraps), Error);
    EXPECT_THROW(window.get(std::span(&word, 1), 0, wraps), Error);
    EXPECT_THROW(window.put_signal(std::span(&word, 1), 0, wraps), Error);
    EXPECT_THROW(window.atomic_add(1, 0, wraps), Error);
    EXPECT_THROW(window.atomic_compare_swap(7, 1, 0, wraps), Error);
    EXPECT_EQ(part, (std::vector<uint64_t>{7, 7}));
    EXPECT_EQ(word, 1u);
    window.put(std::span(&word, 1), 0, 1);
    EXPECT_EQ(part, (std::vector<uint64_t>{7, 1})) << "nothing is lost";
  });
}

TEST(CppValues, CallsTakeSingleVariables) {
  constexpr int kRanks = 3;
  with_ranks(kRanks, [](Communicator& comm) {
    const int rank = comm.rank();
    double loss = 0.5 * rank;
    comm.all_reduce(loss);
    EXPECT_EQ(loss, 1.5);
    int most = -1;
    comm.all_reduce(rank, most, Op::Max);
    EXPECT_EQ(most, kRanks - 1);
    int root = 1, seed = rank == 1 ? 42 : 0;
    comm.broadcast(seed, root);
    EXPECT_EQ(seed, 42);
    int64_t total = rank + 1;
    comm.reduce(total, 2);
    EXPECT_EQ(total, rank == 2 ? 6 : rank + 1);
    std::vector<int> ranks(kRanks, -1);
    comm.all_gather(rank, ranks);
    EXPECT_EQ(ranks, (std::vector<int>{0, 1, 2}));
    int mine = -1;
    comm.scatter(ranks, mine, 0);
    EXPECT_EQ(mine, rank);
    int received = -1;
    Group group;
    comm.send(rank, (rank + 1) % kRanks);
    comm.recv(received, (rank + kRanks - 1) % kRanks);
    group.end();
    EXPECT_EQ(received, (rank + kRanks - 1) % kRanks);
    words(Code::InvalidArgument, [&] { comm.all_gather(rank, received); });
  });
}

TEST(CppValues, CallsThatOnlyMoveDataTakeStructs) {
  constexpr int kRanks = 3;
  with_ranks(kRanks, [](Communicator& comm) {
    const int rank = comm.rank();
    const auto made_by = [](int of, int number) {
      return Particle{{1.0 * of, 2.0 * number, -1}, static_cast<char>('a' + of)};
    };
    Particle one = made_by(rank, 0);
    comm.broadcast(one, 1);
    EXPECT_EQ(one, made_by(1, 0));
    std::vector<Particle> mine{made_by(rank, 0), made_by(rank, 1)}, all(2 * kRanks),
        at_root(rank == 2 ? 2 * kRanks : 0);
    comm.all_gather(mine, all);
    comm.gather(mine, at_root, 2);
    for (int r = 0; r < kRanks; ++r) {
      EXPECT_EQ(all[static_cast<size_t>(2 * r + 1)], made_by(r, 1));
    }
    EXPECT_EQ(at_root, rank == 2 ? all : std::vector<Particle>());
    std::array<Particle, 2> part{};
    comm.scatter(all, part, 0);
    EXPECT_EQ(part[1], made_by(rank, 1));
    std::vector<Particle> to_all, from_all(kRanks);
    for (int r = 0; r < kRanks; ++r) to_all.push_back(made_by(rank, r));
    comm.all_to_all(to_all, from_all);
    for (int r = 0; r < kRanks; ++r) EXPECT_EQ(from_all[static_cast<size_t>(r)], made_by(r, rank));
    Phase phase = rank == 0 ? Phase::End : Phase::Start;
    Particle got{};
    Group group;
    comm.send(mine[1], (rank + 1) % kRanks);
    comm.recv(got, (rank + kRanks - 1) % kRanks);
    group.end();
    EXPECT_EQ(got, made_by((rank + kRanks - 1) % kRanks, 1));
    comm.broadcast(phase, 0);
    EXPECT_EQ(phase, Phase::End);
    std::string text = rank == 0 ? "tutti" : "-----";
    comm.broadcast(text, 0);
    EXPECT_EQ(text, "tutti");
    EXPECT_NE(words(Code::InvalidArgument, [&] { comm.all_gather(mine, part); }).find("must have 6"),
              std::string::npos);
  });
}

}  // namespace
}  // namespace tutti
