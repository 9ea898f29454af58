#include "base/port_range.hpp"

#include <charconv>

#include "base/env.hpp"
#include "base/format.hpp"

namespace tutti {

PortRange parse_port_range(const std::string& text) {
  PortRange range;
  const char* const end = text.data() + text.size();
  const auto [dash, wrong] = std::from_chars(text.data(), end, range.first);
  const bool two = wrong == std::errc{} && dash != end && *dash == '-';
  const auto [rest, also_wrong] = std::from_chars(two ? dash + 1 : end, end, range.last);
  if (!two || also_wrong != std::errc{} || rest != end || range.first == 0 || range.last <= range.first) {
    throw_error(Code::InvalidArgument,
                "TUTTI_PORTS=\"{}\" is not a range of two ports or more; write one as 20000-20063", text);
  }
  return range;
}

std::optional<PortRange> fixed_ports() {
  if (env().ports.empty()) return std::nullopt;
  return parse_port_range(env().ports);
}

}  // namespace tutti
