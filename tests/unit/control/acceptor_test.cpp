// Thousands of unauthenticated connections, and peers that know the key among them.
#include "control/acceptor.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <deque>
#include <functional>
#include <future>
#include <thread>

#include "base/socket.hpp"
#include "control/bootstrap/dial.hpp"
#include "control/event_loop.hpp"
#include "control/messages.hpp"
#include "support/child.hpp"

namespace tutti::control {
namespace {

WaitLimit wait_limit(double seconds = 20) { return {Deadline::in(seconds), nullptr}; }

class AcceptingHandler final : public ConnectionHandler {
 public:
  const Key& key() const override { return key_; }
  void on_connection(Fd& fd, std::string_view) override { send_now(fd.get(), pack(Accepted{})); }

 private:
  const Key key_ = random_key();
};

/// An acceptor with two TCP sockets and a UNIX socket, on a thread of its own.
class RunningAcceptor {
 public:
  RunningAcceptor()
      : acceptor_(loop_, [this](const std::string& name) { return name == public_name(key()) ? handler_ : nullptr; }),
        thread_([this] { loop_.run(); }) {
    loop_.post([this] {
      for (const Fd* listener : {&first_, &second_, &unix_}) acceptor_.open(listener->get());
    });
  }
  ~RunningAcceptor() {
    loop_.stop();
    thread_.join();
  }
  const Key& key() const { return handler_->key(); }
  uint16_t port() const { return port_of(first_.get()); }
  uint16_t other_port() const { return port_of(second_.get()); }
  const std::string& name() const { return name_; }

 private:
  const std::shared_ptr<ConnectionHandler> handler_ = std::make_shared<AcceptingHandler>();
  const std::string name_ = "tutti-test-" + random_hex(8);
  const Fd first_ = listen_tcp(0), second_ = listen_tcp(0), unix_ = listen_unix(name_);
  EventLoop loop_;
  Acceptor acceptor_;
  std::thread thread_;
};

/// Opens connections that send nothing, one after the other, and keeps the last `kept` of them.
class SilentConnections {
 public:
  explicit SilentConnections(size_t kept) : kept_(kept) {}
  void add(Fd fd) {
    open_.push_back(std::move(fd));
    if (open_.size() > kept_) open_.pop_front();
  }
  void add(uint16_t port, int count) {
    for (int i = 0; i < count; ++i) {
      Fd fd = start_connect(Address::loopback(), port);
      if (!fd) continue;
      await_ready(fd.get(), POLLOUT, wait_limit());
      const linger at_once{1, 0};
      setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
      add(std::move(fd));
    }
  }

 private:
  const size_t kept_;
  std::deque<Fd> open_;
};

/// A peer that knows the key and delays its proof: it stays pending until finish().
class SlowPeer {
 public:
  SlowPeer(Fd fd, const Key& key) : fd_(std::move(fd)), key_(key) {
    recv_all(fd_.get(), &hello_, sizeof hello_, wait_limit());
  }
  void finish() {
    const auto claim = challenge::make_claim(key_, hello_);
    send_all(fd_.get(), {reinterpret_cast<const char*>(&claim), sizeof claim}, wait_limit());
    challenge::Proof proof;
    recv_all(fd_.get(), &proof, sizeof proof, wait_limit());
    EXPECT_TRUE(challenge::check_proof(key_, hello_, claim, proof));
    EXPECT_NO_THROW(call<Accepted>(fd_.get(), Ping{}, wait_limit()));
  }

 private:
  Fd fd_;
  const Key key_;
  challenge::Hello hello_;
};

Fd connected(uint16_t port) {
  Fd fd = start_connect(Address::loopback(), port);
  await_ready(fd.get(), POLLOUT, wait_limit());
  return fd;
}

TEST(Acceptor, AuthenticatesDuringAFloodOfConnections) {
  const RunningAcceptor acceptor;
  std::atomic<bool> over{false};
  std::thread flood([&] {
    SilentConnections silence(3000);
    while (!over) silence.add(acceptor.port(), 10);
  });
  const WaitLimit for_all = wait_limit(10);
  for (int i = 0; i < 20; ++i) {
    EXPECT_NO_THROW({
      const Fd fd = dial({Address::loopback()}, acceptor.port(), acceptor.key(), for_all);
      call<Accepted>(fd.get(), Ping{}, for_all);
    });
  }
  over = true;
  flood.join();
}

TEST(Acceptor, AFloodAtOneSocketDoesNotEvictAtAnother) {
  const RunningAcceptor acceptor;
  SlowPeer slow_peer(connected(acceptor.other_port()), acceptor.key());
  SilentConnections(3000).add(acceptor.port(), 6000);
  slow_peer.finish();
}

TEST(Acceptor, AuthenticatedConnectionsAreNotEvicted) {
  const RunningAcceptor acceptor;
  const Fd fd = dial({Address::loopback()}, acceptor.port(), acceptor.key(), wait_limit());
  SilentConnections(3000).add(acceptor.port(), 6000);
  EXPECT_NO_THROW(call<Accepted>(fd.get(), Ping{}, wait_limit()));
}

/// Connects as another user; only this thread changes its user.
Fd connected_as_other_user(const std::string& name) {
  constexpr long kNobody = 65534;
  syscall(SYS_setresuid, -1, kNobody, -1);
  Fd fd = connect_unix(name, wait_limit());
  syscall(SYS_setresuid, -1, 0, -1);
  return fd;
}

TEST(Acceptor, ConnectionsOfThisUserAreNotEvictedForOthers) {
  if (geteuid() != 0) GTEST_SKIP() << "takes two users";
  const RunningAcceptor acceptor;
  SlowPeer slow_peer(connect_unix(acceptor.name(), wait_limit()), acceptor.key());
  SilentConnections silence(3000);
  const Deadline enough = Deadline::in(1.5);  // in which thousands of connections arrive
  while (!enough.passed()) silence.add(connected_as_other_user(acceptor.name()));
  slow_peer.finish();
}

/// A process with few descriptors, most of them in use. It sends its port; on request, it sends how many files it can
/// still open.
int run_with_few_descriptors(const std::string&, test::Line& test) {
  const rlimit few{256, 256};
  setrlimit(RLIMIT_NOFILE, &few);
  const RunningAcceptor acceptor;
  std::vector<Fd> files;
  for (int i = 0; i < 150; ++i) files.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  test.tell(std::to_string(acceptor.port()));
  test.receive();
  size_t more = 0;
  for (;; ++more) {
    Fd fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!fd) break;
    files.push_back(std::move(fd));
  }
  test.tell(std::to_string(more));
  return 0;
}
const test::Role few("acceptor with few descriptors", run_with_few_descriptors);

TEST(Acceptor, PendingConnectionsLeaveTheProgramDescriptors) {
  test::Child child("acceptor with few descriptors", "");
  const auto port = static_cast<uint16_t>(std::stoi(child.receive()));
  SilentConnections silence(400);
  silence.add(port, 400);
  child.tell("how many?");
  constexpr int kMargin = 12;  // a few connections are always accepted, and some may have been there before
  EXPECT_GE(std::stoi(child.receive()), 256 / 4 - kMargin);
}

// ---- the connecting side

/// Answers the n-th connection to `listener` with `acts[n]`; keeps the connection of the last one.
void serve(const Fd& listener, const std::vector<std::function<void(Fd&)>>& acts) {
  std::vector<Fd> kept;
  for (const auto& act : acts) {
    await_ready(listener.get(), POLLIN, wait_limit());
    kept.push_back(accept_now(listener.get()));
    act(kept.back());
  }
}

void reset(Fd& fd) {
  const linger at_once{1, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  fd.reset();
}
void ignore(Fd&) {}
void hello_and_reset(Fd& fd) {
  const auto hello = challenge::make_hello();
  send_now(fd.get(), {reinterpret_cast<const char*>(&hello), sizeof hello});
  reset(fd);
}

TEST(Dial, TriesAgainAfterAResetOrNoAnswer) {
  const Key key = random_key();
  const auto answer = [&](Fd& fd) {
    const auto hello = challenge::make_hello();
    send_all(fd.get(), {reinterpret_cast<const char*>(&hello), sizeof hello}, wait_limit());
    challenge::Claim claim;
    recv_all(fd.get(), &claim, sizeof claim, wait_limit());
    const auto proof = challenge::make_proof(key, hello, claim);
    send_all(fd.get(), {reinterpret_cast<const char*>(&proof), sizeof proof}, wait_limit());
  };
  const std::string name = "tutti-test-" + random_hex(8);
  const Fd tcp = listen_tcp(0), unix = listen_unix(name);
  for (const Fd* listener : {&tcp, &unix}) {
    auto served = std::async(std::launch::async, [&] {
      serve(*listener, {ignore, reset, [](Fd& fd) { fd.reset(); }, hello_and_reset, reset, answer});
    });
    EXPECT_NO_THROW({
      listener == &tcp ? dial({Address::loopback()}, port_of(tcp.get()), key, wait_limit())
                       : dial_unix(name, key, wait_limit());
    });
    served.get();
  }
}

TEST(Dial, GivesUpAfterAMomentOfRefusalsOnly) {
  uint16_t port = 0;
  {
    const Fd taken = listen_tcp(0);
    port = port_of(taken.get());
  }
  auto listener = std::async(std::launch::async, [&] {
    // A listener that starts late: that dial() was refused before is an event in no other place than dial().
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    const Fd late = listen_tcp(port);
    serve(late, {reset});
  });
  try {
    dial({Address::loopback()}, port, random_key(), wait_limit(2));
    ADD_FAILURE() << "nothing answered, and yet it connected";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::Timeout) << "an address answered, so dial tries until the deadline; " << error.what();
  }
  listener.get();
}

}  // namespace
}  // namespace tutti::control
