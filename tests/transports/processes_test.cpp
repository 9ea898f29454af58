// The conformance suite between processes, and the effects of killing one of them.
#include <csignal>

#include "transports/conformance.hpp"
#include "transports/fixtures.hpp"
#include "transports/killed.hpp"

namespace tutti::test {

INSTANTIATE_TYPED_TEST_SUITE_P(Processes, Conformance, OverProcesses);

INSTANTIATE_TYPED_TEST_SUITE_P(Processes, Killed, Media);

TEST(Fault, KillsItsProcessAtTheNamedMessage) {
  constexpr Rank kVictim = 0;
  RankGroup group(2, true);
  const auto make = [](const transports::Context& context) {
    return transports::make_fault(ShmProcesses::make(context), context, transports::parse_fault_plan("kill=3,rank=0"));
  };
  group.run(
      [&](Rank rank) {
        TestRank self(group, rank, make);
        group.barrier();
        if (rank == kVictim) {
          Writer writer(self, 1, 0, 0);
          group.barrier();
          for (uint64_t m = 0;; ++m) writer.write(m, payload_of(m, 8));
        }
        Reader reader(self, kVictim, 0);
        group.barrier();
        for (uint64_t m = 0; m < 3; ++m) reader.read(m, payload_of(m, 8));
        for (int turn = 0; turn < 100; ++turn) self.turn();
        EXPECT_FALSE(reader.ready());
      },
      kVictim);
}

}  // namespace tutti::test
