#include "control/status/ras/session.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "base/format.hpp"

namespace tutti::control::ras {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool is_seconds(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return *end == '\0' && std::isfinite(value) && value >= 0;
}

}  // namespace

Session::Then Session::take(std::string_view bytes, std::string& replies) {
  rest_ += bytes;
  for (size_t end; (end = rest_.find('\n')) != std::string::npos;) {
    std::string line = rest_.substr(0, end);
    rest_.erase(0, end + 1);
    if (line.size() > kMaxLine) return Then::Close;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (obey(std::move(line), replies)) return Then::Report;
  }
  return rest_.size() > kMaxLine ? Then::Close : Then::Listen;
}

/// True if the line asks for the report.
bool Session::obey(std::string line, std::string& replies) {
  const std::string command = lower(line);
  const auto argument = [&](std::string_view prefix) { return line.substr(prefix.size()); };
  if (command == "status" || command == "verbose status") {
    verbose_ = command != "status";
    return true;
  }
  if (command.starts_with("client protocol ")) {
    replies += "SERVER PROTOCOL 2\n";
  } else if (command.starts_with("timeout ")) {  // answers come sooner than any
    const std::string seconds = argument("timeout ");
    replies += is_seconds(seconds) ? "OK\n" : fmt::format("ERROR: Invalid timeout value {}\n", seconds);
  } else if (command.starts_with("set format ")) {
    const std::string format = argument("set format ");
    const bool known = lower(format) == "json" || lower(format) == "text";
    if (known) json_ = lower(format) == "json";
    replies += known ? "OK\n" : fmt::format("ERROR: Invalid format {}\n", format);
  } else {
    replies += fmt::format("ERROR: Unknown command {}\n", line);
  }
  return false;
}

}  // namespace tutti::control::ras
