#include "comm/agreement.hpp"

#include "comm/configuration.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include <string>

#include "support/scoped_env.hpp"
#include "tutti/error.hpp"

namespace tutti::comm {
namespace {

RankReport report() {
  return {.fabric = {.staging = 4096,
                     .links = {{"between processes of a host", {1e-6, 2e-10, true}},
                               {"between hosts", {3e-6, 4e-10, false}}},
                     .most = 21.5,
                     .unreachable = "too far",
                     .word = {~uint64_t{0}, 7},
                     .cores = "0-3,8",
                     .arena = 8192,
                     .routes = {{"between hosts", "tcp"}}},
          .plans = R"({"all_reduce":"mine@1f"})",
          .host = "node07",
          .boot = "1f",
          .backends = {{"cuda", {"", "{}"}}, {"other", {"no driver", ""}}},
          .crowding = 2.5,
          .kind = 77,
          .kind_with_gpus = 78};
}

TEST(RankReport, ArrivesAsItWasSent) {
  const RankReport sent = report(), got = parse_report(pack_fields(sent), 1);
  EXPECT_EQ(got.fabric.staging, sent.fabric.staging);
  for (const char* relation : {kBetweenProcesses, kBetweenHosts}) {
    const FabricReport::Slowest &there = got.fabric.links.at(relation), &here = sent.fabric.links.at(relation);
    EXPECT_EQ(there.alpha, here.alpha) << relation;
    EXPECT_EQ(there.beta, here.beta) << relation;
    EXPECT_EQ(there.in_place, here.in_place) << relation;
  }
  EXPECT_EQ(got.fabric.most, sent.fabric.most);
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
  EXPECT_EQ(got.kind_with_gpus, sent.kind_with_gpus);
  EXPECT_EQ(got.backends.size(), 2u);
  EXPECT_EQ(got.backends.at("cuda").text, "{}");
  EXPECT_EQ(got.backends.at("other").why_not, "no driver");
}

void expect_refused(const std::string& bytes, const std::string& what) {
  try {
    parse_report(bytes, 3);
    ADD_FAILURE() << "accepted: " << what;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::ProtocolError) << what;
    EXPECT_NE(std::string(error.what()).find("rank 3"), std::string::npos) << error.what();
  }
}

TEST(RankReport, OfAHostileRankIsAnErrorThatNamesIt) {
  const std::string usual = pack_fields(report());
  for (size_t bytes = 0; bytes < usual.size(); ++bytes) expect_refused(usual.substr(0, bytes), "a part of it");
  expect_refused(usual + '\0', "a byte too many");
  expect_refused(std::string(1000, '\xff'), "lengths beyond all limits");
  for (const double crowding : {0.0, -1.0, 1e300, std::nan("")}) {
    RankReport bad = report();
    bad.crowding = crowding;
    expect_refused(pack_fields(bad), fmt::format("{} ranks on a core", crowding));
  }
}

TEST(RankReport, IsPrintableWhereItIsShown) {
  RankReport odd = report();
  odd.host = "a\x1b[31mb";
  odd.backends["cuda"].why_not = "\n";
  const RankReport got = parse_report(pack_fields(odd), 1);
  EXPECT_EQ(got.host.find('\x1b'), std::string::npos);
  EXPECT_EQ(got.backends.at("cuda").why_not.find('\n'), std::string::npos);
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
