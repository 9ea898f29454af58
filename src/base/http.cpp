#include "base/http.hpp"

#include <algorithm>

#include "base/format.hpp"

namespace tutti {
namespace {

/// The value of a field of a head; "" if it has none. `name`: in lower case, with its colon.
std::string_view field_of(std::string_view head, std::string_view name) {
  for (size_t at = head.find("\r\n"); at != std::string_view::npos; at = head.find("\r\n")) {
    head.remove_prefix(at + 2);
    const std::string_view line = head.substr(0, head.find("\r\n"));
    const bool same =
        line.size() >= name.size() && std::equal(name.begin(), name.end(), line.begin(), [](char a, char b) {
          return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b + ('a' - 'A')) : b);
        });
    if (!same) continue;
    std::string_view value = line.substr(name.size());
    while (value.starts_with(' ')) value.remove_prefix(1);
    while (value.ends_with(' ')) value.remove_suffix(1);
    return value;
  }
  return {};
}

}  // namespace

std::optional<HttpRequest> parse_http(std::string_view bytes) {
  const size_t end = bytes.find("\r\n\r\n");
  if (std::min(end, bytes.size()) > kMaxHttpHead) throw_error(Code::ProtocolError, "an HTTP request without an end");
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = bytes.substr(0, bytes.find("\r\n"));
  const size_t after_method = line.find(' ');
  const size_t after_path = line.rfind(' ');
  const bool has_three = after_method != std::string_view::npos && after_path > after_method;
  if (!has_three || !line.substr(after_path + 1).starts_with("HTTP/1.") || line[after_method + 1] != '/') {
    throw_error(Code::ProtocolError, "not an HTTP request");
  }
  std::string_view path = line.substr(after_method + 1, after_path - after_method - 1);
  path = path.substr(0, path.find('?'));
  return HttpRequest{.method = std::string(line.substr(0, after_method)),
                     .path = std::string(path),
                     .accept = std::string(field_of(bytes.substr(0, end), "accept:")),
                     .host = std::string(field_of(bytes.substr(0, end), "host:"))};
}

std::string http_response(std::string_view status, std::string_view type, std::string_view body) {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n{}",
      status, type, body.size(), body);
}

}  // namespace tutti
