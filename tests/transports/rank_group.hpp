// Ranks for tests of transports: threads or forked processes, each with an arena, a wire-up and one transport.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "link/segment.hpp"
#include "support/fake_wireup.hpp"
#include "transports/transport.hpp"

namespace tutti::test {

using MakeTransport = std::function<std::unique_ptr<transports::Transport>(const transports::Context&)>;

/// Seconds that a test waits for any event before it fails.
inline constexpr double kWaitLimit = 30;

class RankGroup {
 public:
  RankGroup(Rank ranks, bool processes);
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  /// Runs body(rank) on every rank and waits for all. An exception or failed expectation of a rank fails the test.
  /// `victim`: the rank that will kill itself.
  void run(const std::function<void(Rank)>& body, Rank victim = kNoRank);

  /// A barrier of all ranks, which calls `meanwhile` while it waits. Throws if another rank has failed.
  void barrier(const std::function<void()>& meanwhile = {});
  /// Throws if a rank has failed, so that no rank waits for it.
  void check() const;

  Rank ranks() const { return ranks_; }
  /// A name that is unique to this test.
  const std::string& job() const { return job_; }

 private:
  void run_threads(const std::function<void(Rank)>& body);
  void run_processes(const std::function<void(Rank)>& body, Rank victim);
  void guarded(const std::function<void(Rank)>& body, Rank rank);

  struct Shared {  // shared by the ranks, threads or processes
    std::atomic<uint32_t> arrived{0};
    std::atomic<bool> failed{false};
  };
  const Rank ranks_;
  const bool processes_;
  const std::string job_;
  Shared* shared_;
};

/// The resources of one rank. The transport may be destroyed before the others.
struct TestRank {
  TestRank(RankGroup& of, Rank me, const MakeTransport& make);

  /// Runs engines once, and yields if there was nothing to do. Throws what they report.
  void turn();
  /// Calls turn() until `done`. Throws Error(Timeout) naming `what`.
  void until(const std::function<bool()>& done, const char* what);

  RankGroup& group;
  const Rank rank;
  FakeWireup wireup;
  link::Segment memory;
  link::Arena arena;
  uint64_t staged = 0;  ///< bytes of staging that writers have reserved
  std::unique_ptr<transports::Transport> transport;
};

}  // namespace tutti::test
