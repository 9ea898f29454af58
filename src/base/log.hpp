// The logger. It writes messages of TUTTI_LOG's level to stderr, one line each:
//
//   2026-01-31 12:00:00.123 tutti 4242 warning: rank 0: …
//
// It is separate from the embedding program's spdlog loggers and settings.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <string>
#include <utility>

#include "base/env.hpp"

namespace tutti {

namespace detail {

/// The level. Until the environment has been read it exceeds every level, so that the first message takes the slow
/// path.
inline constexpr int kLogLevelUnread = 1 << 30;
inline std::atomic<int> log_limit{kLogLevelUnread};

void write_log(LogLevel level, fmt::string_view text, fmt::format_args args) noexcept;

template <class... Args>
void log(LogLevel level, fmt::format_string<Args...> text, Args&&... args) noexcept {
  if (static_cast<int>(level) > log_limit.load(std::memory_order_relaxed)) return;
  write_log(level, text, fmt::make_format_args(args...));
}

}  // namespace detail

/// True if a message of this level would be written: check before computing something costly for it.
bool log_enabled(LogLevel level) noexcept;

/// Overrides TUTTI_LOG from now on.
void set_log_level(LogLevel level) noexcept;

/// log_info("rank {} is up", rank): formatted by fmt. A filtered message costs one relaxed load.
template <class... Args>
void log_error(fmt::format_string<Args...> text, Args&&... args) noexcept {
  detail::log<Args...>(LogLevel::Error, text, std::forward<Args>(args)...);
}
template <class... Args>
void log_warn(fmt::format_string<Args...> text, Args&&... args) noexcept {
  detail::log<Args...>(LogLevel::Warn, text, std::forward<Args>(args)...);
}
template <class... Args>
void log_info(fmt::format_string<Args...> text, Args&&... args) noexcept {
  detail::log<Args...>(LogLevel::Info, text, std::forward<Args>(args)...);
}
template <class... Args>
void log_debug(fmt::format_string<Args...> text, Args&&... args) noexcept {
  detail::log<Args...>(LogLevel::Debug, text, std::forward<Args>(args)...);
}
template <class... Args>
void log_trace(fmt::format_string<Args...> text, Args&&... args) noexcept {
  detail::log<Args...>(LogLevel::Trace, text, std::forward<Args>(args)...);
}

}  // namespace tutti
