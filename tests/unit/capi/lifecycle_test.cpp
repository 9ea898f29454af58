// Communicators with a configuration: made, finalized and destroyed at once or in the background.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "support/thread_ranks.hpp"
#include "tutti/tutti.hpp"

namespace tutti {
namespace {

tuttiUniqueId new_id() {
  tuttiUniqueId id;
  EXPECT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
  return id;
}

tuttiConfig_t config_of(int blocking) {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.blocking = blocking;
  return config;
}

/// Waits, as a program that has nothing else to do would, until what is done in the background is done.
tuttiResult_t settled(tuttiComm_t comm) {
  tuttiResult_t result = tuttiInProgress;
  while (result == tuttiInProgress) {
    EXPECT_EQ(tuttiCommGetAsyncError(comm, &result), tuttiSuccess);
    std::this_thread::yield();
  }
  return result;
}

TEST(Lifecycle, ARankThatDoesNotBlockIsMadeInTheBackground) {
  const tuttiUniqueId id = new_id();
  const tuttiConfig_t config = config_of(0);
  std::vector<tuttiComm_t> comms(2);
  // One thread makes both: each would wait for the other if it blocked.
  EXPECT_EQ(tuttiCommInitRankConfig(&comms[0], 2, id, 0, &config), tuttiInProgress);
  int ranks = 0;
  EXPECT_EQ(tuttiCommCount(comms[0], &ranks), tuttiInProgress);
  EXPECT_NE(std::string(tuttiGetLastError()).find("still being made"), std::string::npos);
  EXPECT_EQ(tuttiCommInitRankConfig(&comms[1], 2, id, 1, &config), tuttiInProgress);
  for (const tuttiComm_t comm : comms) EXPECT_EQ(settled(comm), tuttiSuccess);
  EXPECT_EQ(tuttiCommCount(comms[0], &ranks), tuttiSuccess);
  EXPECT_EQ(ranks, 2);
  // And one thread finalizes both.
  for (const tuttiComm_t comm : comms) EXPECT_EQ(tuttiCommFinalize(comm), tuttiInProgress);
  for (const tuttiComm_t comm : comms) EXPECT_EQ(settled(comm), tuttiSuccess);
  for (const tuttiComm_t comm : comms) EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
}

TEST(Lifecycle, WhatFailsInTheBackgroundIsTold) {
  tuttiConfig_t config = config_of(0);
  config.init_timeout = 0.2;
  tuttiComm_t comm = nullptr;
  ASSERT_EQ(tuttiCommInitRankConfig(&comm, 2, new_id(), 0, &config), tuttiInProgress);
  EXPECT_EQ(settled(comm), tuttiTimeout);
  EXPECT_NE(std::string(tuttiCommGetErrorText(comm)).find("missing: rank 1"), std::string::npos)
      << tuttiCommGetErrorText(comm);
  EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiTimeout) << "a call tells why there is no communicator";
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiInvalidUsage);
}

TEST(Lifecycle, JoiningIsGivenUpByAbortAndByDestroy) {
  const tuttiConfig_t config = config_of(0);
  tuttiComm_t aborted = nullptr, destroyed = nullptr;
  ASSERT_EQ(tuttiCommInitRankConfig(&aborted, 2, new_id(), 0, &config), tuttiInProgress);
  EXPECT_EQ(tuttiCommAbort(aborted), tuttiSuccess);
  EXPECT_EQ(settled(aborted), tuttiAborted);
  EXPECT_EQ(tuttiCommDestroy(aborted), tuttiSuccess);
  ASSERT_EQ(tuttiCommInitRankConfig(&destroyed, 2, new_id(), 0, &config), tuttiInProgress);
  EXPECT_EQ(tuttiCommDestroy(destroyed), tuttiSuccess);
}

TEST(Lifecycle, AFinalizedCommunicatorIsOnlyToBeDestroyed) {
  std::vector<tuttiComm_t> comms(2);
  ASSERT_EQ(tuttiCommInitAll(comms.data(), 2), tuttiSuccess);
  run_ranks(2, [&](int rank) {
    const tuttiComm_t comm = comms[static_cast<size_t>(rank)];
    EXPECT_EQ(tuttiCommFinalize(comm), tuttiSuccess);
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiInvalidUsage);
    EXPECT_NE(std::string(tuttiGetLastError()).find("was finalized"), std::string::npos);
    EXPECT_EQ(tuttiCommFinalize(comm), tuttiInvalidUsage);
    EXPECT_EQ(settled(comm), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

/// What a rank did not do is told by finalize, and by the asynchronous error after it.
TEST(Lifecycle, FinalizeTellsOfCallsThatDiffered) {
  std::vector<tuttiComm_t> comms(2);
  ASSERT_EQ(tuttiCommInitAll(comms.data(), 2), tuttiSuccess);
  std::vector<tuttiResult_t> results(2);
  run_ranks(2, [&](int rank) {
    const tuttiComm_t comm = comms[static_cast<size_t>(rank)];
    int value = 1;
    if (rank == 0) tuttiBroadcast(&value, &value, 1, tuttiInt32, 0, comm, nullptr);
    const tuttiResult_t result = results[static_cast<size_t>(rank)] = tuttiCommFinalize(comm);
    // A rank that left before the other has not waited for it; it hears of the mismatch later.
    const tuttiResult_t later = settled(comm);
    EXPECT_TRUE(later == result || (result == tuttiSuccess && later == tuttiMismatch)) << result << ", then " << later;
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
  EXPECT_TRUE(results[0] == tuttiMismatch || results[1] == tuttiMismatch);
}

/// A receive of what nobody sends ends with an error that holds these words.
void expect_timeout(Communicator& comm, const std::vector<std::string>& words) {
  int value = 0;
  try {
    comm.recv(value, 1);
    ADD_FAILURE() << "nothing was sent";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::Timeout) << error.what();
    for (const auto& word : words) EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
  }
}

TEST(Lifecycle, NamesAndTimeOutsAreTheCommunicators) {
  const tuttiUniqueId id = new_id();
  run_ranks(2, [&](int rank) {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.name = "gradients";
    config.timeout = 0.3;
    config.timeout_setting = "train.py --timeout";
    Communicator comm(2, id, rank, config);
    EXPECT_EQ(comm.name(), "gradients");
    const Communicator part = comm.split(0, 0);
    EXPECT_EQ(part.name(), "split of gradients (colour 0, ranks 0, 1)");
    if (rank == 1) {
      while (comm.async_error() == Code::Ok) std::this_thread::yield();
      return;
    }
    expect_timeout(comm, {"gradients", "Raise train.py --timeout if"});
  });
}

TEST(Lifecycle, ATimeOutThatIsSetHoldsForCallsThatWait) {
  const tuttiUniqueId id = new_id();
  run_ranks(2, [&](int rank) {
    Communicator comm(2, id, rank);
    if (rank == 1) {
      while (comm.async_error() == Code::Ok) std::this_thread::yield();
      return;
    }
    EXPECT_EQ(tuttiCommSetTimeout(comm.handle(), -1), tuttiInvalidArgument);
    EXPECT_NE(std::string(tuttiGetLastError()).find("seconds is -1"), std::string::npos) << tuttiGetLastError();
    std::thread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));  // so that the call waits already, as a rule
      comm.set_timeout(0.2);
    });
    expect_timeout(comm, {"Raise the limit of tuttiCommSetTimeout if"});
    later.join();
  });
}

TEST(Lifecycle, AConfigurationThatMakesNoSenseIsRefused) {
  const tuttiUniqueId id = new_id();
  tuttiComm_t comm = nullptr;
  const auto refused = [&](const tuttiConfig_t& config, const char* words) {
    EXPECT_EQ(tuttiCommInitRankConfig(&comm, 1, id, 0, &config), tuttiInvalidArgument);
    EXPECT_NE(std::string(tuttiGetLastError()).find(words), std::string::npos) << tuttiGetLastError();
  };
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.size = 0;
  refused(config, "TUTTI_CONFIG_INITIALIZER");
  config = TUTTI_CONFIG_INITIALIZER;
  config.timeout = -1;
  refused(config, "config->timeout is -1");
  const std::string longest(TUTTI_MAX_NAME, 'x'), longer = longest + "x";
  config = TUTTI_CONFIG_INITIALIZER;
  config.name = longer.c_str();
  refused(config, "config->name has 65 bytes, 64 are the most");
  config = TUTTI_CONFIG_INITIALIZER;
  config.timeout_setting = "a\nb";
  refused(config, "config->timeout_setting has characters that are not printable");
  // A program that was built with an older header has a shorter structure.
  config = TUTTI_CONFIG_INITIALIZER;
  config.size = offsetof(tuttiConfig_t, timeout);
  config.timeout = -1;
  ASSERT_EQ(tuttiCommInitRankConfig(&comm, 1, id, 0, &config), tuttiSuccess);
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
}

/// Threads that are in calls, or about to make one, while another destroys the communicator.
TEST(Lifecycle, CallsThatComeTooLateAreRefused) {
  for (int round = 0; round < 100; ++round) {
    tuttiComm_t comm = nullptr;
    ASSERT_EQ(tuttiCommInitAll(&comm, 1), tuttiSuccess);
    std::atomic<int> begun{0};
    std::vector<tuttiResult_t> last(2);
    std::vector<std::thread> users;
    for (size_t user = 0; user < last.size(); ++user) {
      users.emplace_back([&, user] {
        float in = 1, out = 0;
        do {
          last[user] = tuttiAllReduce(&in, &out, 1, tuttiFloat32, tuttiSum, comm, nullptr);
          ++begun;
        } while (last[user] == tuttiSuccess);
      });
    }
    while (begun < 2 + round) std::this_thread::yield();
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
    for (std::thread& user : users) user.join();
    for (const tuttiResult_t result : last) EXPECT_EQ(result, tuttiInvalidUsage);
  }
}

TEST(Lifecycle, MemoryThatMustBeMappedIsOrAnErrorIsReturned) {
  void* memory = nullptr;
  ASSERT_EQ(tuttiMemAllocWithFlags(&memory, 16, TUTTI_MEM_MAPPED), tuttiSuccess) << tuttiGetLastError();
  EXPECT_EQ(tuttiMemFree(memory), tuttiSuccess);
  EXPECT_EQ(tuttiMemAllocWithFlags(&memory, SIZE_MAX / 2, TUTTI_MEM_MAPPED), tuttiOutOfMemory);
  EXPECT_EQ(tuttiMemAllocWithFlags(&memory, 16, 6), tuttiInvalidArgument);
}

}  // namespace
}  // namespace tutti
