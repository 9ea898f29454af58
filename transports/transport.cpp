#include "transports/transport.hpp"

#include <algorithm>

namespace tutti::transports {
namespace {

std::vector<TransportEntry>& registry() {
  static std::vector<TransportEntry> all;
  return all;
}

}  // namespace

TransportRegistration::TransportRegistration(const TransportEntry& entry) {
  auto& all = registry();
  const auto position = std::find_if(all.begin(), all.end(),
                                     [&](const TransportEntry& other) { return other.preference > entry.preference; });
  all.insert(position, entry);
}

const std::vector<TransportEntry>& transports() { return registry(); }

}  // namespace tutti::transports
