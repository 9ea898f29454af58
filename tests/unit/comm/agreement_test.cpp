#include "comm/agreement.hpp"

#include "comm/configuration.hpp"

#include <gtest/gtest.h>

#include <string>

#include "support/scoped_env.hpp"
#include "tutti/error.hpp"

namespace tutti::comm {
namespace {

RankReport report() {
  return {.fabric = {.staging = 4096,
                     .links = {{"between processes of a host", {1e-6, 2e-10, true}},
                               {"between hosts", {3e-6, 4e-10, false}}},
                     .unreachable = "too far",
                     .word = {~uint64_t{0}, 7},
                     .cores = "0-3,8",
                     .arena = 8192,
                     .routes = {{"between hosts", "tcp"}}},
          .plans = R"({"all_reduce":"mine@1f"})",
          .host = "node07",
          .boot = "1f",
          .device = {},
          .crowding = 2.5,
          .kind = 77};
}

TEST(RankReport, ArrivesAsItWasSent) {
  const RankReport sent = report(), got = parse_report(to_text(sent), 1);
  EXPECT_EQ(got.fabric.staging, sent.fabric.staging);
  for (const char* relation : {kBetweenProcesses, kBetweenHosts}) {
    const FabricReport::Slowest &there = got.fabric.links.at(relation), &here = sent.fabric.links.at(relation);
    EXPECT_EQ(there.alpha, here.alpha) << relation;
    EXPECT_EQ(there.beta, here.beta) << relation;
    EXPECT_EQ(there.in_place, here.in_place) << relation;
  }
  EXPECT_EQ(got.kind, sent.kind);
  EXPECT_EQ(got.fabric.unreachable, sent.fabric.unreachable);
  EXPECT_EQ(got.fabric.word.at, sent.fabric.word.at);
  EXPECT_EQ(got.fabric.word.value, sent.fabric.word.value);
  EXPECT_EQ(got.fabric.cores, sent.fabric.cores);
  EXPECT_EQ(got.fabric.arena, sent.fabric.arena);
  EXPECT_EQ(got.fabric.routes, sent.fabric.routes);
  EXPECT_EQ(got.plans, sent.plans);
  EXPECT_EQ(got.host, sent.host);
  EXPECT_EQ(got.boot, sent.boot);
  EXPECT_EQ(got.crowding, sent.crowding);
}

/// The text with `from` replaced by `to`.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = to_text(report());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in " << text;
  return text.replace(at, from.size(), to);
}

TEST(RankReport, OfAHostileRankIsAnErrorThatNamesIt) {
  for (const std::string& text :
       {std::string(), std::string("7"), std::string("[]"), std::string("{}"), std::string("{\"staging\":"),
        changed("\"staging\":4096", "\"staging\":-1"), changed("\"staging\":4096", "\"staging\":1e300"),
        changed("\"cores\":\"0-3,8\"", "\"cores\":[]"), changed("\"tcp\"", "5"), changed("\"name\"", "\"nome\""),
        changed("2.5", "0"), changed("2.5", "1e300"), changed("2.5", "null"), changed("true]", "\"true\"]"),
        changed("\"arena\":8192", "\"arena\":\"8192\""), std::string(1000, '[')}) {
    try {
      parse_report(text, 3);
      ADD_FAILURE() << "accepted: " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::ProtocolError) << text;
      const std::string why = error.what();
      EXPECT_TRUE(why.find("rank 3") != std::string::npos || why.find("another rank") != std::string::npos ||
                  why.find("nested") != std::string::npos)
          << why;
    }
  }
}

TEST(Configuration, HasWhatMustBeEqual) {
  const std::string usual = configuration();
  EXPECT_EQ(usual, configuration());
  for (const auto& [variable, value] : {std::pair("TUTTI_ALGO", "all_reduce:ring"),
                                        {"TUTTI_MESSAGE", "64K"},
                                        {"TUTTI_GROUPS", "2"},
                                        {"TUTTI_REPRODUCIBLE", "1"},
                                        {"TUTTI_TRANSPORT", "tcp"}}) {
    const test::ScopedEnv given(variable, value);
    EXPECT_NE(configuration(), usual) << variable;
    EXPECT_NE(configuration().find(variable), std::string::npos);
  }
}

}  // namespace
}  // namespace tutti::comm
