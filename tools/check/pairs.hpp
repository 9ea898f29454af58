// Latency and bandwidth between each two ranks, through the library as it would run a program there.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "tutti/tutti.hpp"

namespace tutti::tools {

struct PairFigures {
  int from = 0, to = 0;   ///< ranks, from < to
  double latency = 0;     ///< seconds for 8 bytes one way: half of a round trip, the median
  double bandwidth = 0;   ///< bytes per second from `from` to `to` …
  double back = 0;        ///< … and from `to` to `from`
  std::string transport;  ///< "tcp"
};

/// The partner of rank `self` in round `round` of 0 … rounds_of(ranks) - 1, in which each two ranks meet once and no
/// rank meets two at a time; -1: it rests. (The circle method of tournaments.)
int partner_of(int self, int round, int ranks);
int rounds_of(int ranks);

/// Measures this rank's pairs with all others, one at a time; all ranks call it. Returns those in which it is `from`.
std::vector<PairFigures> measure_pairs(Communicator& comm);

nlohmann::ordered_json to_json(const std::vector<PairFigures>& pairs);
/// Throws Error(ProtocolError).
std::vector<PairFigures> parse_pairs(std::string_view text);

}  // namespace tutti::tools
