// Metrics: where they go, and their text.
#include <gtest/gtest.h>

#include "base/http.hpp"
#include "control/status/metrics_server.hpp"
#include "tutti/error.hpp"

namespace tutti::control {
namespace {

TEST(MetricsTarget, IsAPortAnAddressASocketOrAFile) {
  using Kind = MetricsTarget::Kind;
  const auto is = [](const std::string& text, Kind kind, const std::string& name, uint16_t port) {
    const MetricsTarget target = parse_metrics_target(text);
    EXPECT_EQ(target.kind, kind) << text;
    EXPECT_EQ(target.name, name) << text;
    EXPECT_EQ(target.port, port) << text;
  };
  is("", Kind::None, "", 0);
  is(":9400", Kind::Tcp, "", 9400);
  is("127.0.0.1:1", Kind::Tcp, "127.0.0.1", 1);
  is("localhost:65535", Kind::Tcp, "localhost", 65535);
  is("[::1]:9400", Kind::Tcp, "::1", 9400);
  is("unix:job", Kind::Unix, "job", 0);
  is("file:/tmp/%p.prom", Kind::File, "/tmp/%p.prom", 0);
}

TEST(MetricsTarget, IsRefusedByNameOtherwise) {
  for (const char* text :
       {"9400", ":", ":0", ":65536", ":x", ":99999999999", "host:9400", "unix:", "file:x", "1.2.3:4"}) {
    try {
      parse_metrics_target(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("TUTTI_METRICS="), std::string::npos);
    }
  }
}

TEST(OpenMetrics, HasEachFamilyOnceWithItsSamplesTogether) {
  ProcessMetrics process{.process = 47, .mapped = uint64_t{3} << 40, .version = "0.1.0", .ranks = {}};
  RankMetrics rank{.communicator = "abcdefghijkl",
                   .title = "a \"world\"\\",
                   .transports = "shm",
                   .rank = 3,
                   .ranks = 4,
                   .failed = 1,
                   .stuck_ms = 1500,
                   .registered = 4096,
                   .calls = {}};
  rank.calls.push_back({.collective = "all_reduce",
                        .size_class = 13,
                        .calls = 5,
                        .bytes = 6,
                        .sent = 7,
                        .received = 8,
                        .waited = 1'500'000'000,
                        .traced_calls = 2,
                        .traced = 9});
  process.ranks.push_back(rank);
  const std::string text = open_metrics({process, process});
  const std::string labels =
      R"(process="47",communicator="a \"world\"\\",id="abcdefgh",rank="3",collective="all_reduce",min_bytes="4096",transports="shm")";
  EXPECT_NE(text.find("tutti_calls_total{" + labels + "} 5\n"), std::string::npos) << text;
  EXPECT_NE(text.find("tutti_wait_seconds_total{" + labels + "} 1.500000000\n"), std::string::npos);
  EXPECT_NE(text.find("tutti_waiting_seconds{process=\"47\""), std::string::npos);
  EXPECT_NE(text.find("tutti_mapped_bytes{process=\"47\"} 3298534883328\n"), std::string::npos);
  EXPECT_NE(text.find("rank=\"3\"} 4096\n"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("# EOF\n"));
  size_t families = 0;
  for (size_t at = 0; (at = text.find("# TYPE tutti_calls counter\n", at)) != std::string::npos; ++at) ++families;
  EXPECT_EQ(families, 1u);
}

TEST(Http, ReadsRequestsInParts) {
  EXPECT_FALSE(parse_http("GET /metrics HTTP/1.1\r\nHost: x\r\n"));
  const auto request = parse_http("GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->method, "GET");
  EXPECT_EQ(request->path, "/metrics");
  EXPECT_EQ(request->host, "x");
  EXPECT_EQ(request->accept, "");
}

TEST(Http, ReadsFieldsWhateverTheirCase) {
  const auto request =
      parse_http("GET / HTTP/1.1\r\nX-Host: no\r\nhOST:  a:80 \r\nAccept: */*\r\nHost: b\r\n\r\nHost: c\r\n");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->host, "a:80");
  EXPECT_EQ(request->accept, "*/*");
}

TEST(Http, RefusesWhatIsNone) {
  for (const std::string& wrong : {std::string("\r\n\r\n"), std::string("GET\r\n\r\n"), std::string("GET /\r\n\r\n"),
                                   std::string("GET x HTTP/1.1\r\n\r\n"), std::string("GET / FTP/1\r\n\r\n"),
                                   std::string(kMaxHttpHead + 1, 'x')}) {
    EXPECT_THROW(parse_http(wrong), Error) << wrong.substr(0, 50);
  }
  EXPECT_TRUE(http_response("200 OK", "text/plain", "abc")
                  .ends_with("Content-Length: 3\r\nCache-Control: no-store\r\n"
                             "Connection: close\r\n\r\nabc"));
}

}  // namespace
}  // namespace tutti::control
