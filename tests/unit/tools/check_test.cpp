// The parts of `tutti run --check` that need no second host.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <set>
#include <thread>

#include "base/socket.hpp"
#include "tools/check/echo_server.hpp"
#include "tools/check/host_facts.hpp"
#include "tools/check/pairs.hpp"
#include "tools/check/reach.hpp"
#include "tutti/error.hpp"

namespace tutti::tools {
namespace {

TEST(Pairs, MeetOnceEachAndNeverTwoAtATime) {
  for (int ranks = 1; ranks <= 33; ++ranks) {
    std::set<std::pair<int, int>> met;
    for (int round = 0; round < rounds_of(ranks); ++round) {
      for (int rank = 0; rank < ranks; ++rank) {
        const int partner = partner_of(rank, round, ranks);
        if (partner < 0) continue;
        ASSERT_NE(partner, rank) << ranks;
        ASSERT_EQ(partner_of(partner, round, ranks), rank) << ranks << " ranks, round " << round;
        if (rank < partner) {
          ASSERT_TRUE(met.emplace(rank, partner).second) << ranks;
        }
      }
    }
    EXPECT_EQ(met.size(), static_cast<size_t>(ranks * (ranks - 1) / 2));
  }
}

/// A request for hosts at these ports of this machine.
ReachRequest request_for(const std::vector<uint16_t>& ports, double seconds) {
  ReachRequest request{"the token", {}, seconds};
  for (const uint16_t port : ports) request.hosts.push_back({{"127.0.0.1"}, port});
  return request;
}

uint16_t free_port() { return port_of(listen_tcp(0).get()); }

TEST(Reach, FindsWhoAnswers) {
  const ReachRequest request = request_for({free_port(), free_port(), free_port()}, 20);
  std::vector<std::vector<Reached>> found(3);
  std::vector<std::thread> hosts;
  for (int self = 0; self < 3; ++self) {
    hosts.emplace_back([&, self] { found[static_cast<size_t>(self)] = reach(request, self); });
  }
  for (std::thread& host : hosts) host.join();
  for (size_t self = 0; self < 3; ++self) {
    ASSERT_EQ(found[self].size(), 2U);
    for (const Reached& one : found[self]) {
      EXPECT_EQ(one.why_not, "") << self << " to " << one.host;
      EXPECT_GT(one.round_trip, 0);
    }
  }
}

TEST(Reach, TellsTheRightHostFromAnotherAtItsAddress) {
  const uint16_t own = free_port();
  // The other's address and port lead back to this host, as an address does that several machines have (docker0).
  const std::vector<Reached> found = reach(request_for({own, own}, 0.5), 0);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].why_not.find("something else answers there"), std::string::npos) << found[0].why_not;
}

TEST(Reach, SaysWhyNot) {
  const std::vector<Reached> found = reach(request_for({free_port(), free_port()}, 0.2), 0);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].why_not.find("connection refused"), std::string::npos) << found[0].why_not;
}

TEST(Reach, TellsSmallMessagesThatPassFromLargeOnesThatDoNot) {
  const Fd listener = listen_tcp(0);
  std::thread other([&] {  // echoes only single bytes, as a path would whose MTU is too small
    const WaitLimit limit{Deadline::in(20)};
    await_ready(listener.get(), POLLIN, limit);
    const Fd socket = accept_now(listener.get());
    std::string bytes(opening("the token", 0, 1).size(), '\0');
    recv_all(socket.get(), bytes.data(), bytes.size(), limit);
    for (int i = 0; i < 20; ++i) {
      recv_all(socket.get(), bytes.data(), 1, limit);
      send_all(socket.get(), "x", limit);
    }
    std::string rest(64 << 10, '\0');
    recv_all(socket.get(), rest.data(), rest.size(), limit);
    await_ready(socket.get(), POLLIN, limit);  // until the other end gives up
  });
  const std::vector<Reached> found = reach(request_for({free_port(), port_of(listener.get())}, 3), 0);
  other.join();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].why_not.find("small messages pass and large ones do not"), std::string::npos) << found[0].why_not;
}

TEST(EchoServer, ClosesConnectionsThatDoNotOpenRight) {
  const uint16_t port = free_port();
  const EchoServer server(port, "secret", 2, 0);
  const WaitLimit limit{Deadline::in(20)};
  const auto answers = [&](const std::string& first) {
    const Fd socket = start_connect(Address::loopback(), port);
    await_ready(socket.get(), POLLOUT, limit);
    send_all(socket.get(), first + "x", limit);
    char byte = 0;
    try {
      recv_all(socket.get(), &byte, 1, limit);
      return byte == 'x';
    } catch (const Error&) {
      return false;
    }
  };
  EXPECT_TRUE(answers(opening("secret", 1, 0)));
  EXPECT_FALSE(answers(opening("secrex", 1, 0)));
  EXPECT_FALSE(answers(opening("secret", 1, 1)));
  EXPECT_FALSE(answers(opening("secret", 7, 0)));
  EXPECT_FALSE(answers("GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n"));
}

TEST(HostFacts, AreReadAsTheyWereWritten) {
  const HostFacts mine = local_facts();
  EXPECT_FALSE(mine.name.empty());
  EXPECT_GT(mine.cores, 0);
  const auto has = [&](const char* name) {
    return std::find(mine.transports.begin(), mine.transports.end(), name) != mine.transports.end();
  };
  EXPECT_TRUE(has("tcp"));
  for (const char* inside : {"local", "shm", "host", "cuda"}) EXPECT_FALSE(has(inside)) << inside;
  const HostFacts read = parse_facts(to_json(mine).dump());
  EXPECT_EQ(to_json(read), to_json(mine));
}

TEST(HostFacts, OfOtherProgramsAreRefused) {
  const std::string good = to_json(local_facts()).dump();
  for (const std::string& text : {std::string("Welcome to b!"), std::string("{}"), std::string("[]"),
                                  std::string("null"), good.substr(0, good.size() / 2), std::string(100000, '[')}) {
    EXPECT_THROW(parse_facts(text), Error) << text.substr(0, 80);
    EXPECT_THROW(parse_pairs(text == "[]" ? "{" : text), Error) << text.substr(0, 80);
  }
}

}  // namespace
}  // namespace tutti::tools
