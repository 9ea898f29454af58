// The C++ interface as used in programs: ranges, element types, operators, memory and errors, with ranks as threads.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "support/cpp_ranks.hpp"
#include "tutti/tutti.hpp"

namespace tutti {
namespace {

/// Bits of a bfloat16 under another name, as other libraries have them.
struct TheirBFloat16 {
  uint16_t bits;
};

}  // namespace

template <>
struct ElementType<TheirBFloat16> : ElementIs<DType::BF16> {};

namespace {

// ---- what compiles

static_assert(CanReduce<const std::vector<float>&, std::span<float>>);
static_assert(CanReduce<std::array<Half, 3>&, std::vector<Half>&>);
static_assert(CanReduce<std::vector<long>&, std::vector<long long>&>, "both are i64");
static_assert(CanReduce<std::vector<BFloat16>&, std::vector<TheirBFloat16>&>, "both are bf16");
static_assert(!CanReduce<std::vector<float>&, std::vector<double>&>, "two element types");
static_assert(!CanReduce<std::vector<BFloat16>&, std::vector<Half>&>, "two element types of one size");
static_assert(!CanReduce<std::vector<float>&, const std::vector<float>&>, "the output is const");
static_assert(CanBroadcast<double (&)[4]> && CanBroadcast<std::span<std::byte, 2>> && CanBroadcast<Memory<int>&>);
static_assert(!CanBroadcast<const Memory<int>&>, "const");
static_assert(!CanBroadcast<std::vector<int>>, "gone before a group ends");
static_assert(!CanBroadcast<std::vector<bool>&> && !CanBroadcast<std::span<volatile int>>, "not plain memory");
static_assert(!Element<char> && !Element<bool> && !Element<int*> && !Element<std::string>);
static_assert(ElementType<short>::kType == DType::I16 && ElementType<uint16_t>::kType == DType::U16);
static_assert(Element<const float> && Element<std::byte> && ElementType<unsigned long long>::kType == DType::U64);

static_assert(sizeof(Half) == 2 && sizeof(BFloat16) == 2 && sizeof(Float8E4M3) == 1 && sizeof(Float8E5M2) == 1);
static_assert(std::is_standard_layout_v<Half> && std::is_trivial_v<BFloat16> && std::is_trivial_v<Float8E5M2>);

// ---- collectives

TEST(CppApi, CallsTakeRangesOfEveryKind) {
  with_ranks(2, [](Communicator& comm) {
    const int mine = comm.rank() + 1;
    std::vector<int> vector(5, mine);
    comm.all_reduce(vector);
    EXPECT_EQ(vector, std::vector<int>(5, 3));
    std::array<double, 2> array{1.5 * mine, -1.0 * mine};
    comm.all_reduce(array, Op::Max);
    EXPECT_EQ(array, (std::array<double, 2>{3, -1}));
    uint8_t plain[3] = {static_cast<uint8_t>(mine), 2, 3};
    comm.all_reduce(plain, Op::Prod);
    EXPECT_EQ(plain[0], 2);
    EXPECT_EQ(plain[2], 9);
    const std::vector<int64_t> in(4, mine);
    std::array<int64_t, 8> out{};
    comm.all_reduce(in, std::span(out).last(4));
    EXPECT_EQ(out, (std::array<int64_t, 8>{0, 0, 0, 0, 3, 3, 3, 3}));
    std::array<std::byte, 1> byte{std::byte(mine)};
    comm.broadcast(std::span(byte), 1);
    EXPECT_EQ(byte[0], std::byte{2});
    std::vector<float> nothing;
    comm.all_reduce(nothing);
  });
}

TEST(CppApi, EveryCollectiveIsCorrect) {
  constexpr int kRanks = 3;
  with_ranks(kRanks, [](Communicator& comm) {
    const int rank = comm.rank();
    const std::vector<int> one{rank, 10 * rank}, all{rank, rank + 10, rank + 20};
    std::vector<int> two(2, -1), three(3, -1), six(6, -1), single(1, -1);
    comm.all_gather(one, six);
    EXPECT_EQ(six, (std::vector<int>{0, 0, 1, 10, 2, 20}));
    comm.reduce_scatter(all, single);
    EXPECT_EQ(single[0], 3 + 30 * rank);
    comm.all_to_all(all, three);
    EXPECT_EQ(three, (std::vector<int>{10 * rank, 10 * rank + 1, 10 * rank + 2}));
    comm.scatter(all, single, 1);
    EXPECT_EQ(single[0], 1 + 10 * rank);
    comm.broadcast(one, two, 2);
    EXPECT_EQ(two, (std::vector<int>{2, 20}));
    comm.barrier();

    std::vector<int> gathered(rank == 0 ? 6 : 0), folded(rank == 2 ? 2 : 0), in_place = one;
    comm.gather(one, gathered, 0);
    EXPECT_EQ(gathered, rank == 0 ? six : std::vector<int>());
    comm.reduce(one, folded, 2);
    EXPECT_EQ(folded, rank == 2 ? (std::vector<int>{3, 30}) : std::vector<int>());
    comm.reduce(in_place, 1, Op::Max);
    EXPECT_EQ(in_place, rank == 1 ? (std::vector<int>{2, 20}) : one) << "only the root's data changes";

    Group group;
    comm.send(one, (rank + 1) % kRanks);
    comm.recv(two, (rank + kRanks - 1) % kRanks);
    group.end();
    EXPECT_EQ(two[1], 10 * ((rank + kRanks - 1) % kRanks));
  });
}

TEST(CppApi, VectorCallsAreCorrect) {
  with_ranks(3, [](Communicator& comm) {  // rank r has, receives or sends r + 1 elements
    const int rank = comm.rank();
    const auto mine = static_cast<size_t>(rank) + 1;
    const std::vector<size_t> counts{1, 2, 3}, backwards{5, 3, 0}, each(3, mine);
    const std::vector<int> in(mine, rank), six{0, 1, 1, 2, 2, 2}, reversed{2, 2, 2, 1, 1, 0};
    std::vector<int> out(6, -1), part(mine, -1), none;
    comm.all_gather_v(in, out, counts);
    EXPECT_EQ(out, six);
    comm.all_gather_v(in, out, {counts, backwards});
    EXPECT_EQ(out, reversed);
    comm.reduce_scatter_v(six, part, counts, comm.pre_mul_sum(2));
    EXPECT_EQ(part, std::vector<int>(mine, 6 * rank));
    comm.scatter_v(rank == 1 ? std::span<const int>(reversed) : std::span<const int>(),
                   rank == 1 ? Blocks(counts, backwards) : Blocks(), part, 1);
    EXPECT_EQ(part, in);
    std::vector<int> gathered(rank == 2 ? 6 : 0);
    comm.gather_v(in, gathered, rank == 2 ? counts : Blocks(), 2);
    EXPECT_EQ(gathered, rank == 2 ? six : none);
    const std::vector<int> for_each(3 * mine, rank);
    comm.all_to_all_v(for_each, each, out, counts);
    EXPECT_EQ(out, six);

    const auto refused = [](auto&& call) { return words(Code::InvalidArgument, call); };
    const std::string who = "rank " + std::to_string(rank) + ": ";
    EXPECT_EQ(refused([&] {
                comm.all_gather_v(in, out, std::array<size_t, 2>{1, 2});
              }),
              who + "all_gather_v: there are 2 counts and 0 displacements for 3 ranks");
    EXPECT_EQ(refused([&] {
                comm.gather_v(in, out, {counts, std::span(counts).first(1)}, rank);
              }),
              who + "gather_v: there are 3 counts and 1 displacements for 3 ranks");
    EXPECT_EQ(refused([&] { comm.all_to_all_v(for_each, each, part, counts); }),
              who + "all_to_all_v: block " + std::to_string(rank == 2 ? 2 : 1) + " (" + (rank == 2 ? "3" : "2") +
                  " elements from " + (rank == 2 ? "3" : "1") + " on) goes beyond the buffer, which has " +
                  std::to_string(mine));
    EXPECT_NE(refused([&] {
                comm.scatter_v(out, {counts, std::vector<size_t>{0, 0, SIZE_MAX}}, part, rank);
              }).find("block 2 (3 elements from 18446744073709551615 on)"),
              std::string::npos);
    EXPECT_EQ(refused([&] { comm.reduce_scatter_v(six, none, counts); }),
              who + "reduce_scatter_v: the output has 0 elements; it must have " + std::to_string(mine));
  });
}

/// The sum of values[rank] over the ranks, in a program's code.
template <class T>
T sum_of(Communicator& comm, const std::array<T, 3>& values) {
  std::vector<T> data(19, values[static_cast<size_t>(comm.rank())]);
  comm.all_reduce(data);
  for (const T& each : data) EXPECT_TRUE(each == data[0]);
  return data[0];
}

TEST(CppApi, LastCallDescribesTheExecution) {
  with_ranks(2, [](Communicator& comm) {
    EXPECT_STREQ(comm.last_call().algorithm, "none");
    std::vector<float> data(3, 1.0F);
    for (int i = 0; i < 2; ++i) {  // the second call takes the repeated call's path
      comm.all_reduce(data);
      const tuttiCallInfo info = comm.last_call();
      EXPECT_STRNE(info.algorithm, "none");
      EXPECT_STREQ(info.transport, "local");
      EXPECT_STREQ(info.delivery, "inline");
      EXPECT_GT(info.model, 1e-9);
    }
    tuttiCallInfo info{};  // without its size
    EXPECT_EQ(tuttiCommGetLastCall(comm.handle(), &info), tuttiInvalidArgument);
    EXPECT_EQ(tuttiCommGetLastCall(comm.handle(), nullptr), tuttiInvalidArgument);
  });
}

TEST(CppApi, TrafficIsWhatThePlansSend) {
  with_ranks(3, [](Communicator& comm) {
    EXPECT_EQ(comm.sent_bytes(), 0u);
    std::vector<float> one(1 << 20), all(3 << 20);
    uint64_t sent = 0;
    for (int i = 0; i < 2; ++i) {  // every algorithm of an all-gather sends each rank's block twice, over all ranks
      const uint64_t before = comm.sent_bytes();
      comm.all_gather(one, all);
      std::vector<uint64_t> of_call{comm.sent_bytes() - before};
      comm.all_reduce(of_call);
      EXPECT_EQ(of_call[0], 3 * 2 * one.size() * sizeof(float));
    }
    sent = comm.sent_bytes();
    const std::array<size_t, 3> counts{5, 0, 7};  // a vector call sends directly
    std::vector<float> blocks(12);
    const size_t mine = counts[static_cast<size_t>(comm.rank())];
    check(
        tuttiAllGatherV(one.data(), mine, blocks.data(), counts.data(), nullptr, tuttiFloat32, comm.handle(), nullptr));
    EXPECT_EQ(comm.sent_bytes() - sent, 2 * mine * sizeof(float));
    sent = comm.sent_bytes();
    if (comm.rank() == 0) check(tuttiSend(one.data(), one.size(), tuttiFloat32, 1, comm.handle(), nullptr));
    if (comm.rank() == 1) check(tuttiRecv(one.data(), one.size(), tuttiFloat32, 0, comm.handle(), nullptr));
    EXPECT_EQ(comm.sent_bytes() - sent, comm.rank() == 0 ? one.size() * sizeof(float) : 0);
    tuttiTraffic traffic{};  // without its size
    EXPECT_EQ(tuttiCommGetTraffic(comm.handle(), &traffic), tuttiInvalidArgument);
    EXPECT_EQ(tuttiCommGetTraffic(comm.handle(), nullptr), tuttiInvalidArgument);
  });
}

TEST(CppApi, SmallFloatsSumToTheExactBits) {
  with_ranks(3, [](Communicator& comm) {  // 1 + 2 + 3 = 6
    EXPECT_EQ(sum_of<Half>(comm, {{{0x3C00}, {0x4000}, {0x4200}}}).bits, 0x4600);
    EXPECT_EQ(sum_of<BFloat16>(comm, {{{0x3F80}, {0x4000}, {0x4040}}}).bits, 0x40C0);
    EXPECT_EQ(sum_of<Float8E4M3>(comm, {{{0x38}, {0x40}, {0x44}}}).bits, 0x4C);
    EXPECT_EQ(sum_of<Float8E5M2>(comm, {{{0x3C}, {0x40}, {0x42}}}).bits, 0x46);
#ifdef TUTTI_NATIVE_FLOAT16
    EXPECT_EQ(static_cast<float>(sum_of<TUTTI_NATIVE_FLOAT16>(comm, {1, 2, 3})), 6.0F);
#endif
#ifdef TUTTI_NATIVE_BFLOAT16
    using B = TUTTI_NATIVE_BFLOAT16;
    EXPECT_EQ(static_cast<float>(sum_of<B>(comm, {B(1.0F), B(2.0F), B(3.0F)})), 6.0F);
#endif
    std::vector<TheirBFloat16> theirs(2, {0x3F80});
    comm.all_reduce(theirs);
    EXPECT_EQ(theirs[1].bits, 0x4040) << "a type of the program's own";
  });
}

// ---- pre-multiplied sums

TEST(CppApi, APreMultipliedSumIsAcceptedAsAnOp) {
  with_ranks(2, [](Communicator& comm) {
    PreMulSum first = comm.pre_mul_sum(comm.rank() == 0 ? 0.5F : 4.0F);
    const PreMulSum weighted = std::move(first);
    std::vector<float> data(3, 2), out(3), one(1);
    comm.all_reduce(data, out, weighted);
    EXPECT_EQ(out, std::vector<float>(3, 9));
    comm.reduce(data, out, 0, weighted);
    const std::array<float, 2> both{2, 4};
    comm.reduce_scatter(both, one, weighted);
    EXPECT_EQ(one[0], comm.rank() == 0 ? 9 : 18);
    std::vector<BFloat16> small(3, {0x4000});
    comm.all_reduce(small, comm.pre_mul_sum(BFloat16{0x3F00}));
    EXPECT_EQ(small[2].bits, 0x4000) << "0.5 · 2 + 0.5 · 2";

    Stream stream;
    comm.all_reduce(data, comm.pre_mul_sum(3.0F), stream);  // the operator is destroyed before the call runs
    stream.synchronize();
    EXPECT_EQ(data[0], 12);
    EXPECT_NE(words(Code::InvalidArgument, [&] { comm.all_reduce(data, first); }).find("moved from"),  // NOLINT
              std::string::npos);
    EXPECT_NE(words(Code::InvalidArgument, [&] { comm.all_reduce(data, comm.pre_mul_sum(0.5)); }).find("f64"),
              std::string::npos);
    EXPECT_NE(words(Code::InvalidArgument, [&] { comm.all_reduce(data, Op::PreMulSum); }).find("pre_mul_sum"),
              std::string::npos);
    const Communicator other = comm.split(0, 0);
    const PreMulSum elsewhere = other.pre_mul_sum(9.0F);  // its handle may equal one of comm's
    EXPECT_NE(words(Code::InvalidArgument, [&] { comm.all_reduce(data, elsewhere); }).find("another communicator"),
              std::string::npos);
  });
}

// ---- memory

TEST(CppApi, AllocatedMemoryIsAnOwningRange) {
  with_ranks(2, [](Communicator& comm) {
    auto memory = allocate<float>(1000);
    ASSERT_EQ(memory.size(), 1000U);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % (2U << 20), 0U);
    for (const float each : memory) EXPECT_EQ(each, 0);
    memory[999] = 1;
    comm.all_reduce(memory);
    EXPECT_EQ(memory[999], 2);
    const std::span<const float> view = memory;
    EXPECT_EQ(view.size(), 1000U);

    Memory<float> owner = std::move(memory);
    EXPECT_TRUE(memory.empty() && memory.data() == nullptr);  // NOLINT: what a moved-from one is
    EXPECT_EQ(owner.data(), view.data());
    owner = allocate<float>(2);
    EXPECT_EQ(owner.size(), 2U);
    const Memory<float> none = allocate<float>(0);
    EXPECT_TRUE(none.empty() && none.begin() == none.end());
  });
  EXPECT_NE(words(Code::OutOfMemory, [] { (void)allocate<double>(SIZE_MAX / 4); }).find("8 bytes"), std::string::npos);
  words(Code::OutOfMemory, [] { (void)allocate<std::byte>(SIZE_MAX); });
}

// ---- errors

TEST(CppApi, SizesThatDoNotFitAreErrors) {
  with_ranks(3, [](Communicator& comm) {
    std::vector<float> two(2), five(5);
    const std::string who = "rank " + std::to_string(comm.rank()) + ": ";
    const auto refused = [](auto&& call) { return words(Code::InvalidArgument, call); };
    EXPECT_EQ(refused([&] { comm.all_reduce(two, five); }),
              who + "all_reduce: the output has 5 elements; it must have 2");
    EXPECT_EQ(refused([&] { comm.all_gather(two, five); }),
              who + "all_gather: the output has 5 elements; it must have 6");
    EXPECT_EQ(refused([&] { comm.reduce_scatter(five, two); }),
              who + "reduce_scatter: the input has 5 elements; it must have 6");
    EXPECT_EQ(refused([&] { comm.all_to_all(five, two); }),
              who + "all_to_all: the output has 2 elements; it must have 5");
    std::vector<float> other(5);
    EXPECT_EQ(refused([&] { comm.all_to_all(five, other); }),
              who + "all_to_all: the input has 5 elements, which is not a multiple of the 3 ranks");
    const int me = comm.rank();  // only roots check; the others do not use the other buffer
    EXPECT_EQ(refused([&] { comm.reduce(two, five, me); }), who + "reduce: the output has 5 elements; it must have 2");
    EXPECT_EQ(refused([&] { comm.broadcast(two, five, me); }),
              who + "broadcast: the output has 5 elements; it must have 2");
    EXPECT_EQ(refused([&] { comm.gather(two, five, me); }), who + "gather: the output has 5 elements; it must have 6");
    EXPECT_EQ(refused([&] { comm.scatter(five, two, me); }), who + "scatter: the input has 5 elements; it must have 6");
    EXPECT_NE(refused([&] { comm.broadcast(two, 7); }).find("root 7"), std::string::npos) << "the library's words";
    EXPECT_NE(refused([&] { comm.send(two, -1); }).find("peer -1"), std::string::npos);
    comm.all_reduce(two);  // the communicator remains usable
    EXPECT_EQ(comm.async_error(), Code::Ok);
    EXPECT_EQ(comm.error_text(), "");
  });
}

TEST(CppApi, AFailedCommunicatorReportsItsError) {
  auto comms = Communicator::all_local(2);
  Stream stream;
  std::vector<float> data(3);
  comms[0].all_reduce(data, Op::Sum, stream);  // rank 1 never makes the call
  comms[0].abort();
  words(Code::Aborted, [&] { stream.synchronize(); });
  EXPECT_EQ(comms[0].async_error(), Code::Aborted);
  EXPECT_FALSE(comms[0].error_text().empty());
  EXPECT_EQ(words(Code::Aborted, [&] { comms[0].close(); }).empty(), false);
  EXPECT_TRUE(comms[0].empty());
  words(Code::InvalidArgument, [&] { (void)comms[0].rank(); });
  words(Code::InvalidArgument, [&] { (void)comms[0].async_error(); });
}

// ---- one thread, several ranks

TEST(CppApi, OneThreadDrivesAllRanksInGroups) {
  auto comms = Communicator::all_local(3);
  std::vector<std::vector<int>> data;
  for (int rank = 0; rank < 3; ++rank) data.push_back({rank, rank});
  Group calls;
  for (size_t i = 0; i < 3; ++i) comms[i].all_reduce(data[i]);
  calls.end();
  for (const auto& each : data) EXPECT_EQ(each, (std::vector<int>{3, 3}));

  std::vector<Communicator> parts;  // grows: its elements are moved before the group's end creates the communicators
  Group splits;
  for (int i = 0; i < 3; ++i) parts.push_back(comms[static_cast<size_t>(i)].split(i == 2 ? TUTTI_NO_COLOUR : 0, -i));
  EXPECT_TRUE(parts[0].empty());
  splits.end();
  EXPECT_EQ(parts[0].rank(), 1) << "ordered by key";
  EXPECT_EQ(parts[1].size(), 2);
  EXPECT_TRUE(parts[2].empty());

  std::vector<Communicator> more;
  const tuttiUniqueId id = Communicator::unique_id();
  Group joins;
  for (int i = 0; i < 2; ++i) more.push_back(Communicator(2, id, i));
  auto others = Communicator::all_local(2);
  joins.end();
  EXPECT_EQ(more[1].rank(), 1);
  EXPECT_EQ(others[1].rank(), 1);
}

TEST(CppApi, FailedConstructionIsAnError) {
  EXPECT_NE(words(Code::InvalidArgument, [] { (void)Communicator::all_local(0); }).find("at least 1"),
            std::string::npos);
  words(Code::InvalidArgument, [] { (void)Communicator::all_local(-3); });
  const std::string version = std::to_string(TUTTI_VERSION_MAJOR) + "." + std::to_string(TUTTI_VERSION_MINOR) + "." +
                              std::to_string(TUTTI_VERSION_PATCH);
  EXPECT_EQ(library_version(), version);
}

}  // namespace
}  // namespace tutti
