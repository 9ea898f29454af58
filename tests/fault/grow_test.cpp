// Communicators that grow, and that are revoked, where ranks are threads: an error of a newcomer is its own.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "fault/threads.hpp"
#include "support/scoped_env.hpp"
#include "tutti/tutti.h"

namespace tutti::fault {
namespace {

void expect_place(tuttiComm_t comm, int rank, int ranks) {
  int known = -1;
  EXPECT_EQ(tuttiCommUserRank(comm, &known), tuttiSuccess);
  EXPECT_EQ(known, rank);
  EXPECT_EQ(tuttiCommCount(comm, &known), tuttiSuccess);
  EXPECT_EQ(known, ranks);
}

void join_and_leave(const tuttiUniqueId& id, int rank, int ranks) {
  tuttiComm_t comm = nullptr;
  ASSERT_EQ(tuttiCommInitRank(&comm, ranks, id, rank), tuttiSuccess) << tuttiGetLastError();
  expect_place(comm, rank, ranks);
  expect_usable(comm);
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError();
}

/// Grows `comm`, whose ranks are threads, to `ranks` with `replaced` places: rank `first` passes the id on to `joiner`.
void grow_and_leave(tuttiComm_t comm, int rank, const std::vector<int>& replaced, int ranks, int first,
                    const std::function<void(const tuttiUniqueId&)>& joiner) {
  std::thread newcomers;
  const int count = static_cast<int>(replaced.size());
  if (rank == first) {
    tuttiUniqueId id;
    ASSERT_EQ(tuttiCommGetGrowId(comm, replaced.data(), count, ranks, &id), tuttiSuccess) << tuttiGetLastError();
    newcomers = std::thread([joiner, id] { joiner(id); });
  }
  tuttiComm_t grown = nullptr;
  EXPECT_EQ(tuttiCommGrow(comm, replaced.data(), count, ranks, &grown), tuttiSuccess) << tuttiGetLastError();
  if (grown != nullptr) {
    expect_place(grown, rank, ranks);
    expect_usable(grown);
    EXPECT_EQ(tuttiCommDestroy(grown), tuttiSuccess) << tuttiGetLastError();
  }
  if (newcomers.joinable()) newcomers.join();
}

TEST(Grow, AdmitsNewRanksBehindThoseThatAreThere) {
  with_ranks(2, [](int rank, tuttiComm_t comm) {
    for (int again = 0; again < 2; ++again) {
      grow_and_leave(comm, rank, {}, 4, 0, [](const tuttiUniqueId& id) {
        std::thread third([&] { join_and_leave(id, 2, 4); });
        join_and_leave(id, 3, 4);
        third.join();
      });
    }
    expect_usable(comm);
  });
}

TEST(Grow, ReplacesRanksByNumberAfterARevocation) {
  with_ranks(
      4,
      [](int rank, tuttiComm_t comm) {
        if (rank == 2) {
          EXPECT_EQ(tuttiCommRevoke(comm), tuttiSuccess);
        }
        tuttiResult_t state = tuttiSuccess;
        while (state == tuttiSuccess) state = tuttiBarrier(comm, nullptr);
        EXPECT_EQ(state, tuttiRevoked) << tuttiGetLastError();
        EXPECT_NE(std::string(tuttiGetLastError()).find("rank 2 ("), std::string::npos) << tuttiGetLastError();
        EXPECT_NE(std::string(tuttiGetLastError()).find("revoked the communicator"), std::string::npos);
        if (rank == 0 || rank == 3) return;
        // Ranks 0 and 3 are threads of this very process: their places are open for new ranks of it.
        grow_and_leave(comm, rank, rank == 1 ? std::vector{3, 0} : std::vector{0, 3}, 5, 1,
                       [](const tuttiUniqueId& id) {
                         std::vector<std::thread> all;
                         for (const int place : {0, 3, 4})
                           all.emplace_back([&id, place] { join_and_leave(id, place, 5); });
                         for (std::thread& one : all) one.join();
                       });
      },
      tuttiRevoked);
}

TEST(Grow, RevokesAWaitOnAStreamAndInAGroup) {
  with_ranks(
      2,
      [](int rank, tuttiComm_t comm) {
        int value = 0;
        if (rank == 0) {
          tuttiStream_t stream = nullptr;
          ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
          EXPECT_EQ(tuttiRecv(&value, 1, tuttiInt32, 1, comm, stream), tuttiSuccess);
          meet();
          EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiRevoked) << tuttiGetLastError();
          EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
        } else {
          meet();
          EXPECT_EQ(tuttiCommRevoke(comm), tuttiSuccess);
          EXPECT_EQ(tuttiCommRevoke(comm), tuttiSuccess) << "once more does nothing";
        }
        EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
        EXPECT_EQ(tuttiRecv(&value, 1, tuttiInt32, 1 - rank, comm, nullptr), tuttiSuccess);
        EXPECT_EQ(tuttiGroupEnd(), tuttiRevoked) << tuttiGetLastError();
      },
      tuttiRevoked);
}

TEST(Grow, RefusesArgumentsThatMakeNoSense) {
  with_ranks(3, [](int rank, tuttiComm_t comm) {
    const auto refused = [&](const std::vector<int>& replaced, int ranks, const char* why,
                             tuttiResult_t code = tuttiInvalidArgument) {
      tuttiComm_t grown = nullptr;
      EXPECT_EQ(tuttiCommGrow(comm, replaced.data(), static_cast<int>(replaced.size()), ranks, &grown), code);
      EXPECT_NE(std::string(tuttiGetLastError()).find(why), std::string::npos) << tuttiGetLastError();
      EXPECT_EQ(grown, nullptr);
    };
    refused({}, 3, "no rank is replaced");
    refused({}, 2, "excluded by a shrink");
    refused({}, -1, "excluded by a shrink");
    refused({}, 1 << 30, "are the most");
    refused({3}, 4, "replaced rank 3: ranks are 0 to 2");
    refused({-1}, 4, "replaced rank -1");
    refused({(rank + 1) % 3, (rank + 1) % 3}, 4, "replaced twice");
    refused({rank}, 4, "names itself as replaced");
    refused({0, 1, 2, 3}, 4, "4 replaced ranks, of 3");
    tuttiComm_t grown = nullptr;
    tuttiUniqueId id;
    EXPECT_EQ(tuttiCommGrow(comm, nullptr, 1, 4, &grown), tuttiInvalidArgument);
    EXPECT_EQ(tuttiCommGrow(comm, nullptr, 0, 4, nullptr), tuttiInvalidArgument);
    EXPECT_EQ(tuttiCommGetGrowId(comm, nullptr, 0, 4, nullptr), tuttiInvalidArgument);
    EXPECT_EQ(tuttiCommGetGrowId(comm, nullptr, 0, 4, &id), rank == 0 ? tuttiSuccess : tuttiInvalidUsage);
    if (rank > 0) {
      EXPECT_NE(std::string(tuttiGetLastError()).find("made by rank 0"), std::string::npos) << tuttiGetLastError();
    }
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    refused({}, 4, "within a group", tuttiInvalidUsage);
    EXPECT_EQ(tuttiGroupDiscard(), tuttiSuccess);
  });
}

void expect_refused(const tuttiUniqueId& id, int rank, int ranks, const char* why) {
  tuttiComm_t comm = nullptr;
  EXPECT_EQ(tuttiCommInitRank(&comm, ranks, id, rank), tuttiInvalidArgument);
  EXPECT_NE(std::string(tuttiGetLastError()).find(why), std::string::npos) << tuttiGetLastError();
  EXPECT_EQ(comm, nullptr);
}

TEST(Grow, RefusesNewcomersThatDoNotFitAndGoesOn) {
  with_ranks(2, [](int rank, tuttiComm_t comm) {
    tuttiUniqueId old{};
    grow_and_leave(comm, rank, {}, 4, 0, [&](const tuttiUniqueId& id) {
      expect_refused(id, 2, 3, "was told that there are 3 ranks");
      expect_refused(id, 4, 5, "was told that there are 5 ranks");
      std::thread second([&] { join_and_leave(id, 2, 4); });
      join_and_leave(id, 3, 4);
      second.join();
      old = id;
    });
    if (rank == 0) expect_refused(old, 2, 4, "");
    expect_usable(comm);
  });
}

TEST(Grow, OfTwoNewcomersForOnePlaceAdmitsOne) {
  with_ranks(2, [](int rank, tuttiComm_t comm) {
    grow_and_leave(comm, rank, {}, 3, 0, [&](const tuttiUniqueId& id) {
      std::atomic<int> joined{0};
      const auto join = [&] {
        tuttiComm_t made = nullptr;
        const tuttiResult_t result = tuttiCommInitRank(&made, 3, id, 2);
        if (result != tuttiSuccess) {
          EXPECT_EQ(result, tuttiInvalidArgument) << tuttiGetLastError();
          EXPECT_NE(std::string(tuttiGetLastError()).find("rank 2"), std::string::npos) << tuttiGetLastError();
          return;
        }
        ++joined;
        expect_usable(made);
        EXPECT_EQ(tuttiCommDestroy(made), tuttiSuccess) << tuttiGetLastError();
      };
      std::thread other(join);
      join();
      other.join();
      EXPECT_EQ(joined, 1);
    });
    expect_usable(comm);
  });
}

/// A receive on a stream, whose message comes when the grow has ended.
TEST(Grow, WorksDuringACallOfTheSameCommunicator) {
  with_ranks(2, [](int rank, tuttiComm_t comm) {
    tuttiStream_t stream = nullptr;
    ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    int value = 0;
    if (rank == 0) {
      EXPECT_EQ(tuttiRecv(&value, 1, tuttiInt32, 1, comm, stream), tuttiSuccess);
    }
    grow_and_leave(comm, rank, {}, 3, 0, [](const tuttiUniqueId& id) { join_and_leave(id, 2, 3); });
    EXPECT_EQ(value, 0) << "nothing was sent yet";
    meet();
    if (rank == 1) {
      value = 7;
      EXPECT_EQ(tuttiSend(&value, 1, tuttiInt32, 0, comm, nullptr), tuttiSuccess) << tuttiGetLastError();
    }
    EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiSuccess) << tuttiGetLastError();
    EXPECT_EQ(value, 7);
    EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
    expect_usable(comm);
  });
}

/// Two threads of each rank: one excludes rank 2, the other adds a rank.
TEST(Grow, AndAShrinkOfTheSameCommunicatorDoNotDisturbEachOther) {
  with_ranks(3, [](int rank, tuttiComm_t comm) {
    std::thread shrinks;
    if (rank < 2) {
      shrinks = std::thread([&] {
        const int excluded = 2;
        tuttiComm_t shrunk = nullptr;
        ASSERT_EQ(tuttiCommShrink(comm, &excluded, 1, &shrunk), tuttiSuccess) << tuttiGetLastError();
        expect_place(shrunk, rank, 2);
        expect_usable(shrunk);
        EXPECT_EQ(tuttiCommDestroy(shrunk), tuttiSuccess) << tuttiGetLastError();
      });
    }
    grow_and_leave(comm, rank, {}, 4, 0, [](const tuttiUniqueId& id) { join_and_leave(id, 3, 4); });
    if (shrinks.joinable()) shrinks.join();
    expect_usable(comm);
  });
}

/// Nobody joins, so without an end both ranks would wait for TUTTI_INIT_TIMEOUT.
TEST(Grow, EndsWithAnAbortOfARankThatIsInIt) {
  for (const bool after_a_failure : {false, true}) {
    with_ranks(
        2,
        [&](int rank, tuttiComm_t comm) {
          if (after_a_failure) {
            if (rank == 0) {
              EXPECT_EQ(tuttiCommRevoke(comm), tuttiSuccess);
            }
            tuttiResult_t state = tuttiSuccess;
            while (state == tuttiSuccess) state = tuttiBarrier(comm, nullptr);
          }
          std::atomic<bool> ended{false};
          std::jthread watchdog([&] {
            while (!ended && rank == 0) {  // also before it waits
              EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
              std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
          });
          tuttiComm_t grown = nullptr;
          EXPECT_EQ(tuttiCommGrow(comm, nullptr, 0, 3, &grown), tuttiAborted);
          EXPECT_NE(std::string(tuttiGetLastError()).find(") aborted the communicator"), std::string::npos)
              << tuttiGetLastError();
          EXPECT_EQ(grown, nullptr);
          ended = true;
        },
        after_a_failure ? tuttiRevoked : tuttiAborted);
  }
}

TEST(Grow, OfOneRankWhereTheOtherShrinksTimesOut) {
  const test::ScopedEnv env("TUTTI_INIT_TIMEOUT", "2");
  with_ranks(3, [](int rank, tuttiComm_t comm) {
    tuttiComm_t made = nullptr;
    const int excluded = 2;
    if (rank == 0) {
      EXPECT_EQ(tuttiCommGrow(comm, nullptr, 0, 4, &made), tuttiTimeout);
    } else if (rank == 1) {
      EXPECT_EQ(tuttiCommShrink(comm, &excluded, 1, &made), tuttiTimeout);
    }
    if (rank < 2) {
      EXPECT_NE(std::string(tuttiGetLastError()).find(rank == 0 ? "grow() to 4 ranks" : "shrink() without rank 2"),
                std::string::npos)
          << tuttiGetLastError();
    }
    EXPECT_EQ(made, nullptr);
    expect_usable(comm);
  });
}

TEST(Grow, ThatRanksDoNotAgreeOnTimesOutOnEachOfThem) {
  const test::ScopedEnv env("TUTTI_INIT_TIMEOUT", "2");
  with_ranks(2, [](int rank, tuttiComm_t comm) {
    tuttiComm_t grown = nullptr;
    EXPECT_EQ(tuttiCommGrow(comm, nullptr, 0, 3 + rank, &grown), tuttiTimeout);
    EXPECT_NE(std::string(tuttiGetLastError()).find("same replaced ranks and size"), std::string::npos)
        << tuttiGetLastError();
    expect_usable(comm);
  });
}

std::string name_of(tuttiComm_t comm) {
  const char* name = nullptr;
  EXPECT_EQ(tuttiCommGetName(comm, &name), tuttiSuccess);
  return name;
}

/// What the ranks of a communicator of two threads that has grown by a third one call it. Null: no name is given.
std::vector<std::string> names_after_growing(const char* parent, const char* newcomer) {
  const auto join = [](const tuttiUniqueId& id, int ranks, int rank, const char* name) {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.name = name;
    tuttiComm_t comm = nullptr;
    EXPECT_EQ(tuttiCommInitRankConfig(&comm, ranks, id, rank, &config), tuttiSuccess) << tuttiGetLastError();
    return comm;
  };
  std::vector<std::string> names(3);
  const auto tell_and_leave = [&](int rank, tuttiComm_t comm) {
    names[static_cast<size_t>(rank)] = name_of(comm);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError();
  };
  tuttiUniqueId id;
  EXPECT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
  std::thread third;
  const auto stay = [&](int rank) {
    tuttiComm_t comm = join(id, 2, rank, parent), grown = nullptr;
    if (rank == 0) {
      tuttiUniqueId passed_on;
      ASSERT_EQ(tuttiCommGetGrowId(comm, nullptr, 0, 3, &passed_on), tuttiSuccess) << tuttiGetLastError();
      third = std::thread([&, passed_on] { tell_and_leave(2, join(passed_on, 3, 2, newcomer)); });
    }
    ASSERT_EQ(tuttiCommGrow(comm, nullptr, 0, 3, &grown), tuttiSuccess) << tuttiGetLastError();
    tell_and_leave(rank, grown);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError();
  };
  std::thread other(stay, 1);
  stay(0);
  other.join();
  third.join();
  return names;
}

TEST(Grow, KeepsTheNameOnAllRanks) {
  for (const char* newcomer : {"trainers", "others", static_cast<const char*>(nullptr)}) {
    EXPECT_EQ(names_after_growing("trainers", newcomer), std::vector<std::string>(3, "trainers"));
  }
}

TEST(Grow, HasOneNameOnAllRanksWhereTheParentHasNone) {
  const std::vector<std::string> names = names_after_growing(nullptr, "others");
  EXPECT_EQ(names, std::vector<std::string>(3, names[0]));
  EXPECT_NE(names[0].find(" of 3 ranks"), std::string::npos) << names[0];
}

}  // namespace
}  // namespace tutti::fault
