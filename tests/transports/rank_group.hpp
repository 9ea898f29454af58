// Ranks for a test of transports: threads or forked processes, each with an arena, a wire-up and one transport.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "support/fake_wireup.hpp"
#include "transports/shm/segment.hpp"
#include "transports/transport.hpp"

namespace tutti::test {

using MakeTransport = std::function<std::unique_ptr<transports::Transport>(const transports::Context&)>;

/// How long a test waits for anything before it fails.
inline constexpr double kWaitLimit = 30;

class RankGroup {
 public:
  RankGroup(Rank ranks, bool processes);
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  /// Runs body(rank) on every rank and waits for all. What a rank throws, and what it expects in vain, fails the test.
  /// `victim`: the rank that will kill itself.
  void run(const std::function<void(Rank)>& body, Rank victim = kNoRank);

  /// Waits until every rank is here. Throws when another one has failed.
  void meet();
  /// Throws when a rank has failed: nobody need wait any longer.
  void check() const;

  Rank ranks() const { return ranks_; }
  /// A name that no other test has.
  const std::string& job() const { return job_; }

 private:
  void run_threads(const std::function<void(Rank)>& body);
  void run_processes(const std::function<void(Rank)>& body, Rank victim);
  void guarded(const std::function<void(Rank)>& body, Rank rank);

  struct Shared {  // between the ranks, whatever they are
    std::atomic<uint32_t> arrived{0};
    std::atomic<bool> failed{false};
  };
  const Rank ranks_;
  const bool processes_;
  const std::string job_;
  Shared* shared_;
};

/// What one rank has. The transport may be taken down before the rest.
struct TestRank {
  TestRank(RankGroup& of, Rank me, const MakeTransport& make);

  /// Lets engines work once, and gives way when there was nothing to do. Throws what they report.
  void turn();
  /// Turns until `done`. Throws Error(Timeout) naming `what`.
  void until(const std::function<bool()>& done, const char* what);

  RankGroup& group;
  const Rank rank;
  FakeWireup wireup;
  transports::Segment memory;
  link::Arena arena;
  uint64_t staged = 0;  ///< bytes of staging that writers have taken
  std::unique_ptr<transports::Transport> transport;
};

}  // namespace tutti::test
