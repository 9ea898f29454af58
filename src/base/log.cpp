#include "base/log.hpp"

#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <memory>
#include <string>

#include "base/private_file.hpp"
#include "tutti/error.hpp"

namespace tutti {
namespace {

/// The file of TUTTI_LOG_FILE; stderr without one, or where it cannot be opened: then `why` says so.
spdlog::sink_ptr log_sink(std::string& why) {
  try {
    if (const std::string& file = env().log_file; !file.empty()) {
      return std::make_shared<spdlog::sinks::basic_file_sink_mt>(path_of_process(file));
    }
  } catch (const spdlog::spdlog_ex& error) {
    why = error.what();
  } catch (const std::exception&) {  // an invalid environment: the next caller of env() reports it
  }
  return std::make_shared<spdlog::sinks::stderr_sink_mt>();
}

/// Never destroyed: static objects of the program may log while it exits.
spdlog::logger& logger() {
  static auto* const kLogger = [] {
    std::string no_file;
    auto* made = new spdlog::logger("tutti", log_sink(no_file));
    made->set_pattern("%Y-%m-%d %H:%M:%S.%e tutti %P %l: %v");
    made->set_level(spdlog::level::trace);  // log_limit has already filtered
    made->flush_on(spdlog::level::trace);
    if (!no_file.empty()) made->warn("TUTTI_LOG_FILE is not used, and the log is written here: {}", no_file);
    return made;
  }();
  return *kLogger;
}

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::Off:
      return spdlog::level::off;
    case LogLevel::Error:
      return spdlog::level::err;
    case LogLevel::Warn:
      return spdlog::level::warn;
    case LogLevel::Info:
      return spdlog::level::info;
    case LogLevel::Debug:
      return spdlog::level::debug;
    case LogLevel::Trace:
      return spdlog::level::trace;
  }
  return spdlog::level::off;
}

/// An invalid TUTTI_LOG must not suppress a message: the next caller of env() reports it.
void read_limit_once() {
  if (detail::log_limit.load(std::memory_order_relaxed) != detail::kLogLevelUnread) return;
  LogLevel wanted = Env{}.log;
  try {
    wanted = env().log;
    if (env().explain && wanted != LogLevel::Off) wanted = std::max(wanted, LogLevel::Info);
  } catch (const Error&) {
  }
  int unread = detail::kLogLevelUnread;
  detail::log_limit.compare_exchange_strong(unread, static_cast<int>(wanted), std::memory_order_relaxed);
}

}  // namespace

bool log_enabled(LogLevel level) noexcept {
  try {
    read_limit_once();
  } catch (...) {  // out of memory: the message is lost
    return false;
  }
  return level != LogLevel::Off && static_cast<int>(level) <= detail::log_limit.load(std::memory_order_relaxed);
}

void set_log_level(LogLevel level) noexcept {
  detail::log_limit.store(static_cast<int>(level), std::memory_order_relaxed);
}

namespace detail {

void write_log(LogLevel level, fmt::string_view text, fmt::format_args args) noexcept {
  if (!log_enabled(level)) return;
  try {
    const std::string line = fmt::vformat(text, args);
    logger().log(spdlog_level(level), spdlog::string_view_t(line));
  } catch (...) {  // a message that cannot be written must not fail the caller
  }
}

}  // namespace detail
}  // namespace tutti
