// Which hosts reach which, by TCP alone: each host listens, connects to every address of all others, and says what came
// of it. Nothing of the library takes part, so that this also tells what keeps the library from starting.
//
//   client → server   the token, its own host's number and the server's; then bytes
//   server → client   the bytes after the numbers, as they come
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::tools {

/// What a host is told on its standard input, as JSON. Its own number is TUTTI_RANK.
struct ReachRequest {
  struct Host {
    std::vector<std::string> addresses;
    uint16_t port = 0;
  };
  std::string token;        ///< opens a connection; another one is closed
  std::vector<Host> hosts;  ///< by number
  double seconds = 0;       ///< until it answers, whatever came
};

/// What it found out about one address of another host.
struct Reached {
  int host = 0;           ///< its number
  std::string address;    //
  double round_trip = 0;  ///< seconds, the shortest of some; 0: not reached
  std::string why_not;    ///< "": reached
};

std::string to_text(const ReachRequest& request);
/// Throws Error(ProtocolError).
ReachRequest parse_request(std::string_view text);

nlohmann::ordered_json to_json(const std::vector<Reached>& reached);
/// Throws Error(ProtocolError).
std::vector<Reached> parse_reached(std::string_view text);

/// Serves the others and connects to them, as host `self`. Throws Error(SystemError) if it cannot listen.
std::vector<Reached> reach(const ReachRequest& request, int self);

}  // namespace tutti::tools
