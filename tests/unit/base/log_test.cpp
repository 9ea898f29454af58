#include "base/log.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <regex>
#include <string>

#include "support/scoped_env.hpp"

namespace tutti {
namespace {

using test::ScopedEnv;

template <class Body>
std::string written_by(const Body& body) {
  testing::internal::CaptureStderr();
  body();
  return testing::internal::GetCapturedStderr();
}

TEST(Log, WritesTimeNamePidLevelAndText) {
  const ScopedEnv level("TUTTI_LOG", "info");
  const std::string line = written_by([] { log_info("rank {} of {} is up", 3, 8); });
  const std::regex form(R"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} tutti )" + std::to_string(::getpid()) +
                        " info: rank 3 of 8 is up\n");
  EXPECT_TRUE(std::regex_match(line, form)) << line;
}

TEST(Log, WritesALevelAndThoseBeforeIt) {
  const ScopedEnv level("TUTTI_LOG", "warn");
  const std::string lines = written_by([] {
    log_error("first");
    log_warn("second");
    log_info("third");
    log_debug("fourth");
    log_trace("fifth");
  });
  EXPECT_NE(lines.find("error: first"), std::string::npos) << lines;
  EXPECT_NE(lines.find("warning: second"), std::string::npos) << lines;
  EXPECT_EQ(lines.find("third"), std::string::npos) << lines;
  EXPECT_EQ(lines.find("fourth"), std::string::npos) << lines;
  EXPECT_EQ(lines.find("fifth"), std::string::npos) << lines;
}

TEST(Log, WritesNothingWhenOff) {
  const ScopedEnv level("TUTTI_LOG", "off");
  EXPECT_EQ(written_by([] { log_error("nobody listens"); }), "");
  EXPECT_FALSE(log_enabled(LogLevel::Error));
  EXPECT_FALSE(log_enabled(LogLevel::Off));
}

TEST(Log, TakesItsLevelFromTheEnvironmentAtTheFirstMessage) {
  const ScopedEnv level("TUTTI_LOG", "debug");
  detail::log_limit = detail::kLogLevelUnread;
  EXPECT_EQ(written_by([] { log_trace("too much"); }), "");
  EXPECT_EQ(detail::log_limit, static_cast<int>(LogLevel::Debug));
}

TEST(Log, WritesBracesOfArgumentsAsTheyAre) {
  const ScopedEnv level("TUTTI_LOG", "error");
  const std::string line = written_by([] { log_error("{}", "{not a field} %v"); });
  EXPECT_NE(line.find("error: {not a field} %v\n"), std::string::npos) << line;
}

}  // namespace
}  // namespace tutti
