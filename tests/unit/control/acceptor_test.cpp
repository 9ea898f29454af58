// Strangers by the thousand, and those who know the key among them.
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

WaitLimit patient(double seconds = 20) { return {Deadline::in(seconds), nullptr}; }

class Welcoming final : public ConnectionHandler {
 public:
  const Key& key() const override { return key_; }
  void welcome(Fd& fd, std::string_view) override { send_now(fd.get(), pack(Accepted{})); }

 private:
  const Key key_ = random_key();
};

/// A acceptor with two TCP sockets and a UNIX socket, on a thread of its own.
class Open {
 public:
  Open()
      : acceptor_(loop_, [this](const std::string& name) { return name == public_name(key()) ? party_ : nullptr; }),
        thread_([this] { loop_.run(); }) {
    loop_.post([this] {
      for (const Fd* listener : {&first_, &second_, &unix_}) acceptor_.open(listener->get());
    });
  }
  ~Open() {
    loop_.stop();
    thread_.join();
  }
  const Key& key() const { return party_->key(); }
  uint16_t port() const { return port_of(first_.get()); }
  uint16_t other_port() const { return port_of(second_.get()); }
  const std::string& name() const { return name_; }

 private:
  const std::shared_ptr<ConnectionHandler> party_ = std::make_shared<Welcoming>();
  const std::string name_ = "tutti-test-" + random_hex(8);
  const Fd first_ = listen_tcp(0), second_ = listen_tcp(0), unix_ = listen_unix(name_);
  EventLoop loop_;
  Acceptor acceptor_;
  std::thread thread_;
};

/// Opens connections that say nothing, one after the other, and keeps the last `kept` of them.
class Silence {
 public:
  explicit Silence(size_t kept) : kept_(kept) {}
  void add(Fd fd) {
    open_.push_back(std::move(fd));
    if (open_.size() > kept_) open_.pop_front();
  }
  void add(uint16_t port, int count) {
    for (int i = 0; i < count; ++i) {
      Fd fd = start_connect(Address::loopback(), port);
      if (!fd) continue;
      await_ready(fd.get(), POLLOUT, patient());
      const linger at_once{1, 0};
      setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
      add(std::move(fd));
    }
  }

 private:
  const size_t kept_;
  std::deque<Fd> open_;
};

/// One that knows the key and takes its time: it is in the acceptor until finish().
class SlowFriend {
 public:
  SlowFriend(Fd fd, const Key& key) : fd_(std::move(fd)), key_(key) {
    recv_all(fd_.get(), &hello_, sizeof hello_, patient());
  }
  void finish() {
    const auto claim = challenge::make_claim(key_, hello_);
    send_all(fd_.get(), {reinterpret_cast<const char*>(&claim), sizeof claim}, patient());
    challenge::Proof proof;
    recv_all(fd_.get(), &proof, sizeof proof, patient());
    EXPECT_TRUE(challenge::check_proof(key_, hello_, claim, proof));
    EXPECT_NO_THROW(call<Accepted>(fd_.get(), Ping{}, patient()));
  }

 private:
  Fd fd_;
  const Key key_;
  challenge::Hello hello_;
};

Fd connected(uint16_t port) {
  Fd fd = start_connect(Address::loopback(), port);
  await_ready(fd.get(), POLLOUT, patient());
  return fd;
}

TEST(Acceptor, WhoKnowsTheKeyGetsInWhileStrangersComeWithoutEnd) {
  const Open acceptor;
  std::atomic<bool> over{false};
  std::thread strangers([&] {
    Silence silence(3000);
    while (!over) silence.add(acceptor.port(), 10);
  });
  const WaitLimit for_all = patient(10);
  for (int i = 0; i < 20; ++i) {
    EXPECT_NO_THROW({
      const Fd fd = dial({Address::loopback()}, acceptor.port(), acceptor.key(), for_all);
      call<Accepted>(fd.get(), Ping{}, for_all);
    });
  }
  over = true;
  strangers.join();
}

TEST(Acceptor, StrangersAtOneSocketTakeNoPlaceAtAnother) {
  const Open acceptor;
  SlowFriend visitor(connected(acceptor.other_port()), acceptor.key());
  Silence(3000).add(acceptor.port(), 6000);
  visitor.finish();
}

TEST(Acceptor, WhoHasProvenTheKeyMakesNoRoomForStrangers) {
  const Open acceptor;
  const Fd fd = dial({Address::loopback()}, acceptor.port(), acceptor.key(), patient());
  Silence(3000).add(acceptor.port(), 6000);
  EXPECT_NO_THROW(call<Accepted>(fd.get(), Ping{}, patient()));
}

/// Connects as another user; that is of this thread alone.
Fd connected_as_other_user(const std::string& name) {
  constexpr long kNobody = 65534;
  syscall(SYS_setresuid, -1, kNobody, -1);
  Fd fd = connect_unix(name, patient());
  syscall(SYS_setresuid, -1, 0, -1);
  return fd;
}

TEST(Acceptor, ProcessesOfThisUserMakeNoRoomForThoseOfOthers) {
  if (geteuid() != 0) GTEST_SKIP() << "takes two users";
  const Open acceptor;
  SlowFriend visitor(connect_unix(acceptor.name(), patient()), acceptor.key());
  Silence silence(3000);
  const Deadline enough = Deadline::in(1.5);  // in which thousands come
  while (!enough.passed()) silence.add(connected_as_other_user(acceptor.name()));
  visitor.finish();
}

/// A process with few descriptors, most of them in use. Tells its port; when spoken to, how many files it can open
/// still.
int live_with_few(const std::string&, testing::Line& test) {
  const rlimit few{256, 256};
  setrlimit(RLIMIT_NOFILE, &few);
  const Open acceptor;
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
const testing::Role few("acceptor with few descriptors", live_with_few);

TEST(Acceptor, VisitorsLeaveTheProgramItsDescriptors) {
  testing::Child child("acceptor with few descriptors", "");
  const auto port = static_cast<uint16_t>(std::stoi(child.receive()));
  Silence silence(400);
  silence.add(port, 400);
  child.tell("how many?");
  constexpr int kAboveTheMark = 12;  // a handful is always let in, and some may have been there before
  EXPECT_GE(std::stoi(child.receive()), 256 / 4 - kAboveTheMark);
}

// ---- the other end

/// Answers the n-th connection to `listener` as `acts[n]` says; the connections of the last one stay.
void serve(const Fd& listener, const std::vector<std::function<void(Fd&)>>& acts) {
  std::vector<Fd> kept;
  for (const auto& act : acts) {
    await_ready(listener.get(), POLLIN, patient());
    kept.push_back(accept_now(listener.get()));
    act(kept.back());
  }
}

void cut(Fd& fd) {
  const linger at_once{1, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  fd.reset();
}
void say_nothing(Fd&) {}
void greet_and_cut(Fd& fd) {
  const auto hello = challenge::make_hello();
  send_now(fd.get(), {reinterpret_cast<const char*>(&hello), sizeof hello});
  cut(fd);
}

TEST(Dial, TriesAgainWhereAConnectionIsCutOrNotAnswered) {
  const Key key = random_key();
  const auto answer = [&](Fd& fd) {
    const auto hello = challenge::make_hello();
    send_all(fd.get(), {reinterpret_cast<const char*>(&hello), sizeof hello}, patient());
    challenge::Claim claim;
    recv_all(fd.get(), &claim, sizeof claim, patient());
    const auto proof = challenge::make_proof(key, hello, claim);
    send_all(fd.get(), {reinterpret_cast<const char*>(&proof), sizeof proof}, patient());
  };
  const std::string name = "tutti-test-" + random_hex(8);
  const Fd tcp = listen_tcp(0), unix = listen_unix(name);
  for (const Fd* listener : {&tcp, &unix}) {
    auto served = std::async(std::launch::async, [&] {
      serve(*listener, {say_nothing, cut, [](Fd& fd) { fd.reset(); }, greet_and_cut, cut, answer});
    });
    EXPECT_NO_THROW({
      listener == &tcp ? dial({Address::loopback()}, port_of(tcp.get()), key, patient())
                       : dial_unix(name, key, patient());
    });
    served.get();
  }
}

TEST(Dial, ARefusalIsBelievedWhenNothingElseCameForSomeSeconds) {
  uint16_t port = 0;
  {
    const Fd taken = listen_tcp(0);
    port = port_of(taken.get());
  }
  auto listener = std::async(std::launch::async, [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));  // a listener that is late
    const Fd late = listen_tcp(port);
    serve(late, {cut});
  });
  try {
    dial({Address::loopback()}, port, random_key(), patient(2));
    ADD_FAILURE() << "nobody answered, and yet it connected";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::Timeout) << "somebody was there: it is tried until the deadline; " << error.what();
  }
  listener.get();
}

}  // namespace
}  // namespace tutti::control
