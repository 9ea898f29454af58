#include "transports/rank_group.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <new>
#include <thread>
#include <vector>

#include "base/format.hpp"

namespace tutti::test {
namespace {

constexpr uint64_t kArena = 4 << 20;

std::string unique_job() {
  static std::atomic<int> count{0};
  return fmt::format("{}-{}", ::getpid(), ++count);
}

}  // namespace

RankGroup::RankGroup(Rank ranks, bool processes) : ranks_(ranks), processes_(processes), job_(unique_job()) {
  void* const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw_error(Code::OutOfMemory, "mmap failed");
  shared_ = new (memory) Shared;
}

RankGroup::~RankGroup() { ::munmap(shared_, sizeof(Shared)); }

void RankGroup::run(const std::function<void(Rank)>& body, Rank victim) {
  if (processes_) {
    run_processes(body, victim);
  } else {
    run_threads(body);
  }
}

void RankGroup::guarded(const std::function<void(Rank)>& body, Rank rank) {
  try {
    body(rank);
  } catch (const std::exception& error) {
    ADD_FAILURE() << "rank " << rank << ": " << error.what();
  }
  if (testing::Test::HasFailure()) shared_->failed = true;
}

void RankGroup::run_threads(const std::function<void(Rank)>& body) {
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < ranks_; ++rank) threads.emplace_back([&, rank] { guarded(body, rank); });
  for (std::thread& thread : threads) thread.join();
}

void RankGroup::run_processes(const std::function<void(Rank)>& body, Rank victim) {
  std::vector<pid_t> children;
  std::fflush(nullptr);
  for (Rank rank = 0; rank < ranks_; ++rank) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::alarm(static_cast<unsigned>(2 * kWaitLimit));  // ends the process in any case
      guarded(body, rank);
      std::fflush(nullptr);
      ::_exit(testing::Test::HasFailure() ? 1 : 0);
    }
    children.push_back(child);
  }
  for (Rank rank = 0; rank < ranks_; ++rank) {
    int status = 0;
    ASSERT_EQ(::waitpid(children[static_cast<size_t>(rank)], &status, 0), children[static_cast<size_t>(rank)]);
    const int by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    EXPECT_EQ(by, rank == victim ? SIGKILL : 0) << "rank " << rank << " died of this signal";
    EXPECT_TRUE(by != 0 || WEXITSTATUS(status) == 0) << "rank " << rank << " failed";
  }
}

void RankGroup::barrier(const std::function<void()>& meanwhile) {
  const auto ranks = static_cast<uint32_t>(ranks_);
  const uint32_t full = (shared_->arrived++ / ranks + 1) * ranks;
  for (const Deadline deadline = Deadline::in(kWaitLimit); shared_->arrived < full; std::this_thread::yield()) {
    check();
    if (meanwhile) meanwhile();
    if (deadline.passed()) throw_error(Code::Timeout, "not all ranks came");
  }
}

void RankGroup::check() const {
  if (shared_->failed) throw_error(Code::Aborted, "another rank failed");
}

TestRank::TestRank(RankGroup& of, Rank me, const MakeTransport& make)
    : group(of),
      rank(me),
      wireup(of.job(), me, of.ranks()),
      memory(link::Segment::create(kArena)),
      arena(memory.base(), memory.bytes()),
      transport(make({.wireup = &wireup, .arena = &arena, .arena_file = memory.file()})) {}

void TestRank::turn() {
  bool moved = false;
  transport->progress(moved).throw_if_bad();
  if (!moved && !transport->sleep(0.001)) std::this_thread::yield();
}

void TestRank::until(const std::function<bool()>& done, const char* what) {
  for (const Deadline deadline = Deadline::in(kWaitLimit); !done(); turn()) {
    group.check();
    if (deadline.passed()) throw_error(Code::Timeout, "rank {} waited in vain for {}", rank, what);
  }
}

}  // namespace tutti::test
