#include "base/socket.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <thread>

#include "base/secret.hpp"
#include "tutti/error.hpp"

namespace tutti {
namespace {

WaitLimit soon() { return {Deadline::in(10), nullptr}; }

Fd accept_soon(const Fd& listener) {
  await_ready(listener.get(), POLLIN, soon());
  return accept_now(listener.get());
}

struct Pair {
  Fd left, right;
};
Pair unix_pair() {
  const std::string name = "tutti-test-" + random_hex(8);
  const Fd listener = listen_unix(name);
  Fd left = connect_unix(name, soon());
  return {std::move(left), accept_soon(listener)};
}

Code code_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code();
  }
  return Code::Ok;
}

TEST(Socket, TcpCarriesBytesBothWays) {
  const Fd listener = listen_tcp(0);
  const Fd client = start_connect(Address::loopback(), port_of(listener.get()));
  ASSERT_TRUE(client);
  const Fd server = accept_soon(listener);
  ASSERT_TRUE(server);
  await_ready(client.get(), POLLOUT, soon());
  EXPECT_EQ(connect_error(client.get()), 0);
  const std::string sent(3 << 20, 'x');  // more than the socket buffers hold
  std::thread writer([&] { send_all(client.get(), sent, soon()); });
  std::string received(sent.size(), '\0');
  recv_all(server.get(), received.data(), received.size(), soon());
  writer.join();
  EXPECT_EQ(sent, received);
}

TEST(Socket, EveryDescriptorClosesOnExec) {
  const Pair pair = unix_pair();
  const Fd listener = listen_tcp(0);
  const Fd client = start_connect(Address::loopback(), port_of(listener.get()));
  for (const Fd* fd : {&pair.left, &pair.right, &listener, &client}) {
    EXPECT_TRUE(fcntl(fd->get(), F_GETFD) & FD_CLOEXEC);
  }
}

TEST(Socket, AClosedPeerIsAnErrorNotASignal) {
  Pair pair = unix_pair();
  pair.right.reset();
  char byte = 0;
  EXPECT_EQ(code_of([&] { recv_all(pair.left.get(), &byte, 1, soon()); }), Code::PeerFailed);
  EXPECT_EQ(code_of([&] { send_all(pair.left.get(), "x", soon()); }), Code::PeerFailed);
  EXPECT_EQ(recv_now(pair.left.get(), &byte, 1), -1);
  EXPECT_EQ(send_now(pair.left.get(), "x"), -1);
}

TEST(Socket, AWaitEndsAtItsDeadlineOrWhenStopped) {
  Pair pair = unix_pair();
  char byte = 0;
  EXPECT_EQ(code_of([&] { recv_all(pair.left.get(), &byte, 1, {Deadline::in(0.01), nullptr}); }), Code::Timeout);
  std::atomic<uint32_t> stop{0};
  std::thread stopper([&] { stop = 1; });
  EXPECT_EQ(code_of([&] { recv_all(pair.left.get(), &byte, 1, {Deadline::in(60), &stop}); }), Code::Aborted);
  stopper.join();
}

TEST(Socket, ADescriptorTravelsWithItsBytes) {
  Pair pair = unix_pair();
  const Fd memory(memfd_create("tutti-test", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(memory.get(), 4096), 0);
  ASSERT_EQ(pwrite(memory.get(), "shared", 6, 0), 6);
  send_with_fd(pair.left.get(), "hello", memory.get(), soon());
  std::array<char, 5> text{};
  const Fd received = recv_with_fd(pair.right.get(), text.data(), text.size(), soon());
  ASSERT_TRUE(received);
  EXPECT_TRUE(fcntl(received.get(), F_GETFD) & FD_CLOEXEC);
  std::array<char, 6> shared{};
  EXPECT_EQ(pread(received.get(), shared.data(), shared.size(), 0), 6);
  EXPECT_EQ(std::string(shared.data(), shared.size()), "shared");
}

TEST(Socket, AnAbstractNameVanishesWithItsListener) {
  const std::string name = "tutti-test-" + random_hex(8);
  { const Fd listener = listen_unix(name); }
  EXPECT_EQ(code_of([&] { connect_unix(name, soon()); }), Code::PeerFailed);
  EXPECT_EQ(code_of([&] { listen_unix(std::string(101, 'x')); }), Code::InvalidArgument);
}

TEST(Address, InterfacesAreChosenByPrefixExactNameOrExclusion) {
  EXPECT_FALSE(local_addresses("").empty());
  const auto only_loopback = local_addresses("=lo");
  EXPECT_TRUE(
      std::all_of(only_loopback.begin(), only_loopback.end(), [](const Address& a) { return a.is_loopback(); }));
  EXPECT_EQ(code_of([] { local_addresses("no-such-interface"); }), Code::InvalidArgument);
  try {
    local_addresses("no-such-interface");
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("TUTTI_INTERFACE='no-such-interface'"), std::string::npos) << text;
    EXPECT_NE(text.find("there are: "), std::string::npos) << text;
    EXPECT_NE(text.find("lo"), std::string::npos) << text;
  }
  EXPECT_EQ(code_of([] { local_addresses("^a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u,v,w,x,y,z"); }),
            Code::InvalidArgument);
}

TEST(Address, ChoosesInterfacesBySubnet) {
  const std::vector<Address> home = local_addresses("127.0.0.0/8");
  ASSERT_EQ(home.size(), 1u);
  EXPECT_EQ(home[0], Address::loopback());
  EXPECT_EQ(local_addresses("no-such-interface,127.0.0.1/32"), home);
  EXPECT_EQ(local_addresses("^10.0.0.0/8"), local_addresses("^no-such-interface,10.0.0.0/8"));
  for (const char* wrong : {"127.0.0.0/33", "127.0.0/8", "eth0/8", "127.0.0.0/", "::/129", "127.0.0.0/-1"}) {
    EXPECT_EQ(code_of([&] { local_addresses(wrong); }), Code::InvalidArgument) << wrong;
  }
  EXPECT_EQ(code_of([] { local_addresses("127.1.0.0/16"); }), Code::InvalidArgument);
}

TEST(Address, HostNamesAndWrittenAddressesAreFound) {
  const auto v4 = resolve("127.0.0.1");
  ASSERT_EQ(v4.size(), 1u);
  EXPECT_EQ(v4[0], Address::loopback());
  EXPECT_EQ(to_string(v4[0], 80), "127.0.0.1:80");
  EXPECT_EQ(to_string(resolve("::1").at(0), 80), "[::1]:80");
  EXPECT_TRUE(resolve("::1").at(0).is_loopback());
  EXPECT_EQ(code_of([] { resolve("no.such.host.invalid"); }), Code::SystemError);
  EXPECT_EQ(resolve("127.0.0.1,::1,127.0.0.1").size(), 2u);
  EXPECT_EQ(to_string(resolve("::1").at(0)), "::1");
  EXPECT_EQ(source_towards(Address::loopback()), Address::loopback());
}

}  // namespace
}  // namespace tutti
