// A planner without a communicator, for tests that inspect programs and do not run them.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/planner.hpp"
#include "exec/host/host_backend.hpp"
#include "select/forced.hpp"
#include "support/no_links.hpp"

namespace tutti::comm {

/// One rank's, by default rank 0's, of `ranks` ranks of one host.
struct PlannerOf {
  /// As rank `me`, by a table that another rank has made.
  PlannerOf(Rank n, Rank me, const select::DecisionTable& table) : ranks(n), rank(me) {
    planner.agree(table, groups_of(std::vector<std::string>(static_cast<size_t>(n), "here"), ""));
  }
  explicit PlannerOf(Rank n, const select::HandOver& hand_over = {}, const char* forced = "",
                     uint64_t message = 64 << 10, uint32_t threads = 1)
      : ranks(n) {
    const std::vector<std::string> hosts(static_cast<size_t>(n), "here");
    const Groups groups = groups_of(hosts, "");
    const select::CostInputs inputs{.ranks = n,
                                    .groups = groups,
                                    .staging = arena.staging_bytes(),
                                    .message = message,
                                    .forced = select::parse_forced(forced),
                                    .hand_over = hand_over,
                                    .max_width = threads};
    planner.agree(select::DecisionTable(inputs), groups);
  }

  const Rank ranks, rank = 0;
  std::vector<unsigned char> memory = std::vector<unsigned char>(2 << 20);
  link::Arena arena{memory.data(), memory.size(), 1 << 16};
  exec::NoLinks nowhere{{.out = {.address = true, .mapped = true}, .in = {.address = true, .mapped = true}}};
  exec::Links links{nowhere};
  std::atomic<uint32_t> failed{0};
  exec::Backoff backoff;
  exec::HostBackend backend{{.rank = rank,
                             .ranks = ranks,
                             .links = &links,
                             .arena = &arena,
                             .engines = {},
                             .failed = &failed,
                             .observer = nullptr,
                             .backoff = &backoff}};
  Planner planner{rank, ranks, backend};
};

}  // namespace tutti::comm
