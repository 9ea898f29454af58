// What `tutti run --check` wants to know of each host, printed there and read here.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::tools {

struct HostFacts {
  std::string name;                     ///< the host's own
  std::string version;                  ///< of its tutti
  std::string machine;                  ///< the same for containers of one machine
  int cores = 0;                        ///< that this user may use
  uint64_t memory = 0;                  ///< available bytes
  std::vector<std::string> addresses;   ///< that peers would be offered, best first
  std::vector<std::string> transports;  ///< usable between hosts
  uint16_t port = 0;                    ///< a free one, among TUTTI_PORTS if that is set
  std::string problem;                  ///< why peers cannot be offered an address; "": they can
};

/// Those of this host.
HostFacts local_facts();

nlohmann::ordered_json to_json(const HostFacts& facts);
/// Throws Error(ProtocolError) if `text` is no such object.
HostFacts parse_facts(std::string_view text);

}  // namespace tutti::tools
