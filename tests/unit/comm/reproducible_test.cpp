// TUTTI_REPRODUCIBLE: sums of floats have the bits of one order of folding with any algorithm and message size.
#include <gtest/gtest.h>

#include <tuple>

#include "base/format.hpp"
#include "plan/algorithm.hpp"
#include "support/canonical.hpp"
#include "support/scoped_env.hpp"
#include "support/thread_ranks.hpp"

namespace tutti {
namespace {

/// Every type, short and long, on one communicator of n threads.
void expect_canonical_bits(Collective collective, int n) {
  with_ranks(n, [&](int rank, tuttiComm_t comm) {
    EXPECT_EQ(test::deviation_from_canonical(collective, n, rank, comm), "") << "rank " << rank;
  });
}

class Reproducible : public testing::TestWithParam<std::tuple<Collective, const char*>> {
 protected:
  const Collective collective_ = std::get<0>(GetParam());
  const test::ScopedEnv reproducible_{"TUTTI_REPRODUCIBLE", "1"};
  const test::ScopedEnv transport_{"TUTTI_TRANSPORT", std::get<1>(GetParam())};
};

TEST_P(Reproducible, HasTheSameBitsWithEveryAlgorithmAndMessageSize) {
  int algorithms = 0;
  for (const plan::Algorithm* algorithm : plan::algorithms_of(collective_)) {
    if (!algorithm->canonical) continue;
    ++algorithms;
    const test::ScopedEnv forced("TUTTI_ALGO", fmt::format("{}:{}", name_of(collective_), algorithm->name));
    for (const char* message : {"8K", "256K"}) {
      const test::ScopedEnv window("TUTTI_MESSAGE", message);
      for (const int n : {2, 3, 5, 6, 7, 8, 12, 16}) {
        if (!algorithm->allows({collective_, n})) continue;
        SCOPED_TRACE(fmt::format("{}, n = {}, messages of {}", algorithm->name, n, message));
        expect_canonical_bits(collective_, n);
      }
    }
  }
  EXPECT_GE(algorithms, 3);
}

TEST_P(Reproducible, HasTheSameBitsWithTheSelectedAlgorithm) {
  for (const int n : {2, 3, 5, 6, 7, 8, 12, 16}) expect_canonical_bits(collective_, n);
}

INSTANTIATE_TEST_SUITE_P(
    Sums, Reproducible,
    testing::Combine(testing::Values(Collective::AllReduce, Collective::ReduceScatter, Collective::Reduce),
                     testing::Values("local", "tcp")),
    [](const auto& test) { return fmt::format("{}_{}", name_of(std::get<0>(test.param)), std::get<1>(test.param)); });

TEST(ReproducibleMode, RefusesAnAlgorithmOfAnotherOrder) {
  const test::ScopedEnv reproducible("TUTTI_REPRODUCIBLE", "1"), forced("TUTTI_ALGO", "all_reduce:ring");
  tuttiComm_t comms[2];
  EXPECT_EQ(tuttiCommInitAll(comms, 2), tuttiUnsupported);
  const std::string text = tuttiGetLastError();
  EXPECT_NE(
      text.find("TUTTI_ALGO forces all_reduce:ring, which cannot be used on 2 ranks: TUTTI_REPRODUCIBLE: it folds"),
      std::string::npos)
      << text;
}

TEST(ReproducibleMode, DefaultModeHasOtherBits) {
  const test::ScopedEnv forced("TUTTI_ALGO", "all_reduce:ring");
  size_t different = 0;
  with_ranks(8, [&](int rank, tuttiComm_t comm) {
    std::vector<uint32_t> in(1500), out(1500);
    for (size_t i = 0; i < in.size(); ++i) in[i] = test::element<test::F32>(rank, i);
    ASSERT_EQ(tuttiAllReduce(in.data(), out.data(), in.size(), tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess);
    if (rank != 0) return;
    for (size_t i = 0; i < in.size(); ++i) {
      std::vector<uint32_t> values;
      for (int r = 0; r < 8; ++r) values.push_back(test::element<test::F32>(r, i));
      different += test::canonical<test::F32>(values) == out[i] ? 0 : 1;
    }
  });
  EXPECT_GT(different, 100u) << "numbers that any order adds alike prove nothing";
}

}  // namespace
}  // namespace tutti
