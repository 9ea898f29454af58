// A job of ranks with windows: this process is one rank of those that a launcher has started, or has all as threads.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "tutti/tutti.h"

namespace tutti {

#define OK(call) EXPECT_EQ((call), tuttiSuccess) << tuttiGetLastError()

/// A rank of the job.
struct Member {
  tuttiComm_t comm = nullptr;
  int rank = 0, ranks = 0;

  explicit Member(tuttiComm_t of) : comm(of) {
    OK(tuttiCommUserRank(comm, &rank));
    OK(tuttiCommCount(comm, &ranks));
  }
  int next() const { return (rank + 1) % ranks; }
  int previous() const { return (rank + ranks - 1) % ranks; }
};

/// Runs `body` as each rank that is in this process. Without a launcher there are `threads` ranks.
inline void each_rank(const std::function<void(const Member&)>& body, int threads = 4) {
  if (std::getenv("TUTTI_RANK") != nullptr) {
    tuttiComm_t comm = nullptr;
    ASSERT_EQ(tuttiCommInitEnv(&comm), tuttiSuccess) << tuttiGetLastError();
    body(Member(comm));
    OK(tuttiCommDestroy(comm));
    return;
  }
  std::vector<tuttiComm_t> comms(static_cast<size_t>(threads));
  ASSERT_EQ(tuttiCommInitAll(comms.data(), threads), tuttiSuccess) << tuttiGetLastError();
  std::vector<std::jthread> ranks;
  for (tuttiComm_t comm : comms) {
    ranks.emplace_back([&body, comm] {
      body(Member(comm));
      OK(tuttiCommDestroy(comm));
    });
  }
}

enum class Memory { Mapped, Ordinary };

/// A window of `words` numbers on each rank.
class Words {
 public:
  Words(const Member& member, size_t words, Memory memory, uint64_t first = 0) : memory_(memory), ordinary_(words) {
    data = ordinary_.data();
    if (memory == Memory::Mapped) {
      void* pointer = nullptr;
      OK(tuttiMemAllocWithFlags(&pointer, words * sizeof(uint64_t), TUTTI_MEM_MAPPED));
      data = static_cast<uint64_t*>(pointer);
    }
    std::fill_n(data, words, first);
    OK(tuttiWindowRegister(member.comm, data, words * sizeof(uint64_t), &window));
  }
  ~Words() {
    OK(tuttiWindowDeregister(window));
    if (memory_ == Memory::Mapped) {
      OK(tuttiMemFree(data));
    }
  }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;

  tuttiWindow_t window = nullptr;
  uint64_t* data = nullptr;

 private:
  const Memory memory_;
  std::vector<uint64_t> ordinary_;
};

}  // namespace tutti
