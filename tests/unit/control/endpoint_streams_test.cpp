// What endpoints exchange besides collectives: streams, services and boards; and strangers at their port.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cstring>
#include <future>

#include "base/socket.hpp"
#include "endpoint_ranks.hpp"

namespace tutti::control {
namespace {

TEST(Endpoint, StreamsAreKeptUnderTheirLabelUntilTaken) {
  Endpoints all = join_all(create_unique_id(), 2);
  EXPECT_FALSE(all[1]->take_stream(0, "data 0"));
  const Fd out = all[0]->open_stream(1, "data 0", soon());
  const Fd other = all[0]->open_stream(1, "data 1", soon());
  EXPECT_FALSE(all[1]->take_stream(1, "data 0")) << "the peer is part of the label";
  const auto in = all[1]->take_stream(0, "data 0");
  ASSERT_TRUE(in);
  EXPECT_FALSE(all[1]->take_stream(0, "data 0"));
  send_all(out.get(), "hello", {soon(), nullptr});
  std::string heard(5, ' ');
  recv_all(in->get(), heard.data(), heard.size(), {soon(), nullptr});
  EXPECT_EQ(heard, "hello");
  EXPECT_ERROR(all[0]->open_stream(1, std::string(65, 'x'), soon()), Code::InvalidArgument, "at most 64");
  leave_all(all);
}

TEST(Endpoint, AStreamOverAPathBeginsAtItsAddress) {
  Endpoints all = join_all(create_unique_id(), 2);
  EXPECT_TRUE(all[0]->paths(1).empty()) << "the peer runs on this host";
  const Address here{4, {127, 0, 0, 5}}, there{4, {127, 0, 0, 6}};
  const Fd out = all[0]->open_stream_over({"lo", here, there}, 1, "tcp:0:1", soon());
  const auto in = all[1]->take_stream(0, "tcp:0:1");
  ASSERT_TRUE(in);
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  ASSERT_EQ(getpeername(in->get(), reinterpret_cast<sockaddr*>(&storage), &size), 0);
  const auto& peer = reinterpret_cast<const sockaddr_in6&>(storage);  // IPv4, as IPv6 shows it
  EXPECT_EQ(std::memcmp(peer.sin6_addr.s6_addr + 12, here.bytes.data(), 4), 0);
  leave_all(all);
}

TEST(Endpoint, ServicesAnswerWithBytesAndADescriptor) {
  Endpoints all = join_all(create_unique_id(), 2);
  all[1]->serve("segment", [](Rank from, const std::string& request) {
    Endpoint::Reply reply{request + " for " + std::to_string(from), Fd(memfd_create("segment", MFD_CLOEXEC))};
    EXPECT_EQ(ftruncate(reply.fd.get(), 4096), 0);
    return reply;
  });
  const auto reply = all[0]->ask(1, "segment", "arena", soon());
  EXPECT_EQ(reply.bytes, "arena for 0");
  EXPECT_EQ(lseek(reply.fd.get(), 0, SEEK_END), 4096);
  all[1]->serve("segment", nullptr);
  EXPECT_ERROR(all[0]->ask(1, "segment", "arena", Deadline::in(0.05)), Code::Timeout, "no service 'segment'");
  leave_all(all);
}

TEST(Endpoint, ARequestWaitsForAServiceThatOpensLater) {
  Endpoints all = join_all(create_unique_id(), 2);
  auto reply = std::async(std::launch::async, [&] { return all[0]->ask(1, "late", "", soon()).bytes; });
  all[1]->serve("late", [](Rank, const std::string&) { return Endpoint::Reply{"here", {}}; });
  EXPECT_EQ(reply.get(), "here");
  leave_all(all);
}

TEST(Endpoint, ABoardRepliesOrTheAnswerIsEmpty) {
  Endpoints all = join_all(create_unique_id(), 2);
  EXPECT_EQ(all[0]->ask_board(1, 5, soon()).get(), std::nullopt);
  all[1]->serve_board([](uint64_t call) { return "call " + std::to_string(call); });
  EXPECT_EQ(all[0]->ask_board(1, 5, soon()).get(), "call 5");
  all[1]->serve_board(nullptr);
  EXPECT_EQ(all[0]->ask_board(1, 5, soon()).get(), std::nullopt);
  leave_all(all);
}

TEST(Endpoint, PortScannersDoNotDisturbAJob) {
  const UniqueId id = create_unique_id();
  std::vector<Fd> scanners;
  for (int i = 0; i < 300; ++i) {  // most send nothing, and there are more than the acceptor keeps
    Fd scanner = start_connect(Address::loopback(), id.port);
    ASSERT_TRUE(scanner);
    await_ready(scanner.get(), POLLOUT, {soon(), nullptr});
    if (i % 10 == 1) send_now(scanner.get(), "GET / HTTP/1.0\r\n\r\n");
    if (i % 10 == 2) send_now(scanner.get(), std::string(100000, static_cast<char>(i)));
    scanners.push_back(std::move(scanner));
  }
  Endpoints all = join_all(id, 3);
  on_all(3, [&](Rank r) { EXPECT_EQ(all[static_cast<size_t>(r)]->exchange("x", soon()).size(), 3u); });
  leave_all(all);
  char byte = 0;
  for (size_t i = 2; i < scanners.size(); i += 10) {  // those that sent too much were closed at once
    EXPECT_NO_THROW(await_ready(scanners[i].get(), POLLIN | POLLRDHUP, {soon(), nullptr}));
    while (recv_now(scanners[i].get(), &byte, 1) > 0) {
    }
  }
}

}  // namespace
}  // namespace tutti::control
