#include "control/bootstrap/torch_store.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <cstring>
#include <future>
#include <map>
#include <thread>

#include "base/secret.hpp"
#include "base/socket.hpp"
#include "tutti/error.hpp"

namespace tutti::control {
namespace {

WaitLimit soon() { return {Deadline::in(20), nullptr}; }

/// A server that answers each connection with `answer`, which is given the desired value of the request.
class Server {
 public:
  using Answer = std::function<std::string(const std::string& name, const std::string& desired)>;

  explicit Server(Answer answer)
      : listener_(listen_tcp(0)),
        port_(port_of(listener_.get())),
        answer_(std::move(answer)),
        thread_([this] { run(); }) {}
  ~Server() {
    stop_ = 1;
    thread_.join();
  }
  StoreAddress address() const { return {"127.0.0.1", port_}; }

 private:
  void run() {
    while (stop_ == 0) {
      pollfd entry{listener_.get(), POLLIN, 0};
      if (poll(&entry, 1, 10) != 1) continue;
      const Fd fd = accept_now(listener_.get());
      try {
        serve(fd.get());
      } catch (const Error&) {  // the client has disconnected
      }
    }
  }

  template <class T>
  T number(int fd) {
    T value{};
    recv_all(fd, &value, sizeof value, soon());
    return value;
  }
  std::string text(int fd) {
    std::string value(number<uint64_t>(fd), '\0');
    recv_all(fd, value.data(), value.size(), soon());
    return value;
  }

  void serve(int fd) {
    EXPECT_EQ(number<uint8_t>(fd), 0);  // validate
    EXPECT_EQ(number<uint32_t>(fd), 0x3C85F7CEu);
    EXPECT_EQ(number<uint8_t>(fd), 2);  // compare and set
    const std::string name = text(fd);
    EXPECT_EQ(text(fd), "");  // set it if it has no value
    send_all(fd, answer_(name, text(fd)), soon());
  }

  Fd listener_;
  uint16_t port_;
  Answer answer_;
  std::atomic<int> stop_{0};
  std::thread thread_;
};

std::string value(const std::string& text) {
  const uint64_t length = text.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + text;
}

/// The error that `store` causes.
std::string complaint(const StoreAddress& store, double seconds) {
  try {
    secret_from_store(store, "tutti/job", Deadline::in(seconds));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::Timeout);
    return error.what();
  }
  return "no error";
}

TEST(TorchStore, TheFirstRankSetsTheSecret) {
  std::map<std::string, std::string> values;
  Server server([&](const std::string& name, const std::string& desired) {
    return value(values.try_emplace(name, desired).first->second);
  });
  const std::string first = secret_from_store(server.address(), "tutti/a", Deadline::in(20));
  EXPECT_EQ(first.size(), 64u);
  EXPECT_EQ(secret_from_store(server.address(), "tutti/a", Deadline::in(20)), first);
  EXPECT_NE(secret_from_store(server.address(), "tutti/b", Deadline::in(20)), first);
}

TEST(TorchStore, RanksWaitForTheStoreToOpen) {
  Fd listener = listen_tcp(0);
  const StoreAddress address{"127.0.0.1", port_of(listener.get())};
  listener.reset();
  auto secret = std::async(std::launch::async, [&] { return secret_from_store(address, "x", Deadline::in(20)); });
  listener = listen_tcp(address.port);
  await_ready(listener.get(), POLLIN, soon());
  const Fd fd = accept_now(listener.get());
  send_all(fd.get(), value(std::string(64, 'a')), soon());
  EXPECT_EQ(secret.get(), std::string(64, 'a'));
}

TEST(TorchStore, AnAnswerOfAnotherServerIsRejected) {
  const std::string good = value(std::string(64, 'a'));
  for (const std::string& answer :
       {std::string("HTTP/1.1 400 Bad Request\r\n\r\n"), value(""), value("short"), value(std::string(64, 'x')),
        std::string(8, '\xff'), good.substr(0, 40), value(std::string(65, 'a')), std::string()}) {
    Server server([&](const std::string&, const std::string&) { return answer; });
    const std::string text = complaint(server.address(), 0.05);
    EXPECT_NE(text.find("could not get a key from torchrun's store at 127.0.0.1"), std::string::npos) << text;
  }
}

TEST(TorchStore, SilenceEndsAtTheDeadline) {
  const Fd listener = listen_tcp(0);  // the kernel accepts, but no process answers
  EXPECT_NE(complaint({"127.0.0.1", port_of(listener.get())}, 0.05).find("did not answer in time"), std::string::npos);
}

TEST(TorchStore, AMissingStoreIsNamed) {
  Fd listener = listen_tcp(0);
  const uint16_t port = port_of(listener.get());
  listener.reset();
  EXPECT_NE(complaint({"127.0.0.1", port}, 0.05).find("Connection refused"), std::string::npos);
}

/// An address at which nothing listens.
StoreAddress missing_store(bool opened_before) {
  const Fd listener = listen_tcp(0);
  return {"127.0.0.1", port_of(listener.get()), opened_before};
}

TEST(TorchStore, OneThatWasOpenedBeforeIsNotWaitedForLong) {
  try {
    secret_from_store(missing_store(true), "x", Deadline::in(1000), {.warn_after = 1000, .refused = 0});
    FAIL() << "there is none";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::PeerFailed);
    EXPECT_NE(std::string(error.what()).find("is gone"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("Connection refused"), std::string::npos) << error.what();
  }
}

TEST(TorchStore, OneThatMayOpenLateIsWaitedForWithAWarning) {
  const StoreAddress store = missing_store(false);
  testing::internal::CaptureStderr();
  try {
    secret_from_store(store, "x", Deadline::in(0.3), {.warn_after = 0, .refused = 0});
    FAIL() << "there is none";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::Timeout) << "it gave up: " << error.what();
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("still waiting for torchrun's store at 127.0.0.1:" + std::to_string(store.port)), log.npos) << log;
  EXPECT_NE(log.find("TUTTI_KEY"), log.npos) << log;
  EXPECT_EQ(log.find("still waiting"), log.rfind("still waiting")) << "it is said once";
}

}  // namespace
}  // namespace tutti::control
