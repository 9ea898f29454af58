// As much of HTTP/1.1 as serves small pages that are only read: one request a connection.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tutti {

inline constexpr size_t kMaxHttpHead = 8192;  ///< bytes of a request

struct HttpRequest {
  std::string method;  ///< "GET"
  std::string path;    ///< "/metrics", without a query
  std::string accept;  ///< types of answers that the client reads; "": it does not say
  std::string host;    ///< that the client believes to ask: "localhost:8000"; "": it does not say
};

/// A request of which `bytes` are the beginning; empty while its head has not ended. Bodies are not read. Throws
/// Error(ProtocolError) if it is none, or longer than kMaxHttpHead.
std::optional<HttpRequest> parse_http(std::string_view bytes);

/// The response, after which the connection ends. `status`: "200 OK"; `type`: of the body, "text/html".
std::string http_response(std::string_view status, std::string_view type, std::string_view body);

}  // namespace tutti
