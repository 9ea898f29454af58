// What a rank finds when its peer's process is killed: a suite for the transports between processes.
#pragma once

#include <dirent.h>
#include <gtest/gtest.h>

#include <csignal>
#include <set>
#include <string>

#include "transports/conformance.hpp"

namespace tutti::test {

template <class Fixture>
struct Killed : Conformance<Fixture> {};
TYPED_TEST_SUITE_P(Killed);

TYPED_TEST_P(Killed, AWritersFinishedMessagesAreReadAndItsLastOneIsCompleteOrMissing) {
  constexpr Rank kVictim = 0;
  constexpr uint64_t kLast = 5 << 19;  // more than a socket takes at once
  RankGroup group(2, true);
  group.run(
      [&](Rank rank) {
        TestRank self(group, rank, TypeParam::make);
        group.barrier();
        if (rank == kVictim) {
          Writer writer(self, 1, 0, kLast);
          group.barrier();
          for (uint64_t m = 0; m < 5; ++m) writer.write(m, payload_of(m, m * 10));
          self.until([&] { return self.transport->flushed(); }, "the messages to leave");
          writer.write(5, payload_of(5, kLast));
          self.turn();
          std::raise(SIGKILL);
        }
        Reader reader(self, kVictim, 0);
        group.barrier();
        for (uint64_t m = 0; m < 5; ++m) reader.read(m, payload_of(m, m * 10));
        try {
          reader.read(5, payload_of(5, kLast));
          if (!TypeParam::kNamesTheDead) return;
          reader.read(6, {});
          ADD_FAILURE() << "nothing was noticed";
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), Code::PeerFailed) << error.what();
          EXPECT_NE(std::string(error.what()).find("rank 0"), std::string::npos) << error.what();
        }
      },
      kVictim);
}

TYPED_TEST_P(Killed, AReaderDoesNotKillItsWriter) {
  constexpr Rank kVictim = 1;
  RankGroup group(2, true);
  group.run(
      [&](Rank rank) {
        TestRank self(group, rank, TypeParam::make);
        group.barrier();
        if (rank == kVictim) {
          Reader reader(self, 0, 0);
          reader.read(0, payload_of(0, 70000));
          std::raise(SIGKILL);
        }
        Writer writer(self, kVictim, 0, 70000);
        writer.write(0, payload_of(0, 70000));
        try {  // a wire reports it; in shared memory the link only fills up, and the control plane reports it
          for (uint64_t m = 1; m < 1000 && (m <= kCapacity || TypeParam::kWire); ++m) {
            writer.write(m, payload_of(m, 70000));
          }
          EXPECT_FALSE(TypeParam::kWire);
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), Code::PeerFailed) << error.what();
          EXPECT_NE(std::string(error.what()).find("rank 1"), std::string::npos) << error.what();
        }
      },
      kVictim);
}

TYPED_TEST_P(Killed, RanksLeaveNoFileBehind) {
  const auto shared_files = [] {
    std::set<std::string> names;
    if (DIR* const all = ::opendir("/dev/shm")) {
      while (const dirent* entry = ::readdir(all)) {
        const std::string name = entry->d_name;
        if (name.find("tutti") != std::string::npos) names.insert(name);
      }
      ::closedir(all);
    }
    return names;
  };
  const auto before = shared_files();
  RankGroup group(1, true);
  group.run(
      [&](Rank rank) {
        TestRank self(group, rank, TypeParam::make);
        Writer writer(self, 0, 0, 100);
        std::raise(SIGKILL);
      },
      0);
  EXPECT_EQ(shared_files(), before);
}

REGISTER_TYPED_TEST_SUITE_P(Killed, AWritersFinishedMessagesAreReadAndItsLastOneIsCompleteOrMissing,
                            AReaderDoesNotKillItsWriter, RanksLeaveNoFileBehind);

}  // namespace tutti::test
