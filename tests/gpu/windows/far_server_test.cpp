// What a rank does with requests of other hosts' ranks on its windows: none is trusted, none is answered before the GPU
// has done it, and none is carried out on a part that was withdrawn. With a GPU that does what it is given when the
// test says so.
#include "exec/gpu/far_server.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/socket.hpp"

namespace tutti::exec::gpu {
namespace {

using What = WindowCall::What;
using Outcome = FarAnswer::Outcome;

class HostAsGpu final : public Gpu {
 public:
  const std::string& name() const override { return name_; }
  int number() const override { return 0; }
  std::string failure() const override { return ""; }
  unsigned char* allocate_on_host(uint64_t bytes) const override { return new unsigned char[bytes]; }
  unsigned char* allocate_on_device(uint64_t bytes) const override { return new unsigned char[bytes]; }
  unsigned char* device_address(unsigned char* on_host) const override { return on_host; }
  Rdma rdma() const override { return Rdma::None; }
  void flush_rdma() const override {}
  void use(const std::function<void()>& task) const override { task(); }

 private:
  const std::string name_ = "GPU";
};

/// What it is given waits for run().
struct Work {
  std::vector<std::function<void()>> items;
  bool at_once = true;
  void add(std::function<void()> item) { at_once ? item() : items.push_back(std::move(item)); }
  void run() {
    for (const auto& item : items) item();
    items.clear();
  }
};

class LateStream final : public FarStream {
 public:
  explicit LateStream(Work& work) : work_(work) {}
  void copy(uint64_t to, uint64_t from, uint64_t bytes) override {
    work_.add([=] { std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes); });
  }
  void step(const FarRequest& request, uint64_t at, uint64_t before) override {
    work_.add([=] {
      copy_word(before, at);
      *reinterpret_cast<uint64_t*>(at) += request.operand;
    });
  }
  void write(uint64_t at, uint64_t value) override {
    work_.add([=] { *reinterpret_cast<uint64_t*>(at) = value; });
  }
  void flush() override {}

 private:
  static void copy_word(uint64_t to, uint64_t from) {
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), sizeof(uint64_t));
  }
  Work& work_;
};

constexpr uint64_t kWindow = 7, kBytes = 64;
constexpr Rank kFrom = 1, kRanks = 2;

class FarServerTest : public testing::Test {
 protected:
  FarServerTest() : server_(gpu_, std::make_unique<LateStream>(work_)) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    peer_ = Fd(ends[0]);
    server_.admit(kFrom, Fd(ends[1]));
    server_.expose(kWindow,
                   {.memory = reinterpret_cast<uint64_t>(memory_ + 1),
                    .bytes = kBytes,
                    .signals = reinterpret_cast<uint64_t>(signals_),
                    .stride = sizeof signals_ / kRanks,
                    .arrived = {}},
                   kRanks);
  }
  ~FarServerTest() override { work_.run(); }

  void send(FarRequest request, const std::string& bytes = "") {
    if (request.what == What::Put) request.bytes = bytes.size();
    const std::string_view head(reinterpret_cast<const char*>(&request), sizeof request);
    ASSERT_EQ(send_now(peer_.get(), head, bytes), static_cast<ptrdiff_t>(head.size() + bytes.size()));
    progress();
  }
  void progress() {
    while (server_.progress()) continue;
  }
  /// The next answer, and its bytes.
  std::pair<Outcome, std::string> answer() {
    progress();
    FarAnswer head;
    EXPECT_EQ(recv_now(peer_.get(), &head, sizeof head), static_cast<ptrdiff_t>(sizeof head));
    std::string bytes(head.bytes, '?');
    if (!bytes.empty()) {
      EXPECT_EQ(recv_now(peer_.get(), bytes.data(), bytes.size()), static_cast<ptrdiff_t>(bytes.size()));
    }
    return {head.outcome, bytes};
  }
  bool has_answer() {
    progress();
    char byte = 0;
    return ::recv(peer_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
  }
  bool is_closed() {
    progress();
    char byte = 0;
    return recv_now(peer_.get(), &byte, 1) < 0;
  }
  std::string part() const { return {reinterpret_cast<const char*>(memory_) + 1, kBytes}; }
  bool is_untouched() const {
    for (const unsigned char byte : memory_) {
      if (byte != 0) return false;
    }
    return true;
  }

  const HostAsGpu gpu_;
  Work work_;
  alignas(8) unsigned char memory_[1 + kBytes + 1] = {};  // around the part, whose first byte is no word's
  uint64_t signals_[kRanks * kWindowSignals] = {};
  FarServer server_;
  Fd peer_;
};

TEST_F(FarServerTest, PutsGetsSignalsAndStepsAreCarriedOutInOrder) {
  send({.what = What::Put, .window = kWindow, .offset = 3}, "hello");
  send({.what = What::Signal, .window = kWindow, .operand = 2});
  send({.what = What::Signal, .window = kWindow, .operand = 2});
  send({.what = What::Get, .window = kWindow, .offset = 2, .bytes = 7});
  EXPECT_EQ(answer(), (std::pair{Outcome::Done, std::string("\0hello\0", 7)}));
  EXPECT_EQ(signals_[kFrom * kWindowSignals + 2], 2u);
  send({.what = What::Put, .window = kWindow, .offset = 7}, std::string("\5\0\0\0\0\0\0\0", 8));
  send({.what = What::Add, .window = kWindow, .offset = 7, .bytes = 8, .operand = 3});
  EXPECT_EQ(answer(), (std::pair{Outcome::Done, std::string("\5\0\0\0\0\0\0\0", 8)}));
  EXPECT_EQ(part()[7], 8);
  send({.what = What::Flush});
  EXPECT_EQ(answer(), (std::pair{Outcome::Done, std::string()}));
}

TEST_F(FarServerTest, BytesThatDoNotLieInThePartAreNotWritten) {
  send({.what = What::Put, .window = kWindow, .offset = kBytes - 4}, "hello");
  send({.what = What::Put, .window = kWindow, .offset = ~uint64_t{0} - 1}, "hello");
  send({.what = What::Put, .window = kWindow + 1}, "hello");
  send({.what = What::Flush});
  EXPECT_EQ(answer().first, Outcome::OutOfRange) << "the first that failed";
  send({.what = What::Flush});
  EXPECT_EQ(answer().first, Outcome::Done) << "each is told once";
  send({.what = What::Get, .window = kWindow, .offset = kBytes, .bytes = 1});
  EXPECT_EQ(answer(), (std::pair{Outcome::OutOfRange, std::string()}));
  send({.what = What::Add, .window = kWindow, .offset = 8, .bytes = 8, .operand = 3});
  EXPECT_EQ(answer().first, Outcome::OutOfRange) << "it is no word";
  send({.what = What::Get, .window = kWindow + 1, .bytes = 1});
  EXPECT_EQ(answer().first, Outcome::NoWindow);
  EXPECT_TRUE(is_untouched());
}

TEST_F(FarServerTest, WhatIsNoRequestEndsTheStream) {
  const FarRequest wrong[] = {{.magic = 1, .what = What::Flush},
                              {.what = What::WaitSignal, .window = kWindow},
                              {.what = static_cast<What>(200), .window = kWindow},
                              {.what = What::Signal, .window = kWindow, .operand = kWindowSignals},
                              {.what = What::Get, .window = kWindow, .bytes = kFarSlotBytes + 1},
                              {.what = What::Add, .window = kWindow, .bytes = 4}};
  for (const FarRequest& request : wrong) {
    int ends[2] = {-1, -1};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    peer_.reset();
    progress();
    EXPECT_TRUE(server_.has_ended(kFrom));
    peer_ = Fd(ends[0]);
    server_.admit(kFrom, Fd(ends[1]));
    EXPECT_FALSE(server_.has_ended(kFrom));
    send(request);
    EXPECT_TRUE(is_closed()) << static_cast<int>(request.what);
  }
  EXPECT_TRUE(is_untouched());
}

TEST_F(FarServerTest, NothingIsAnsweredBeforeTheGpuHasDoneIt) {
  work_.at_once = false;
  send({.what = What::Put, .window = kWindow}, "hello");
  send({.what = What::Flush});
  EXPECT_FALSE(has_answer());
  send({.what = What::Signal, .window = kWindow, .operand = 0});
  EXPECT_EQ(signals_[kFrom * kWindowSignals], 0u);
  peer_.reset();
  progress();
  EXPECT_FALSE(server_.has_ended(kFrom)) << "its signal has not arrived";
  work_.run();
  progress();
  EXPECT_TRUE(server_.has_ended(kFrom));
  EXPECT_EQ(signals_[kFrom * kWindowSignals], 1u);
}

TEST_F(FarServerTest, AWithdrawnPartIsNotWrittenAnyMore) {
  work_.at_once = false;
  send({.what = What::Put, .window = kWindow}, "hello");
  EXPECT_FALSE(server_.withdraw(kWindow, Deadline::in(0))) << "the copy may still write";
  work_.run();
  EXPECT_TRUE(server_.withdraw(kWindow, Deadline::in(0)));
  EXPECT_EQ(part().substr(0, 5), "hello");
  send({.what = What::Put, .window = kWindow}, "later");
  work_.run();
  EXPECT_EQ(part().substr(0, 5), "hello");
  send({.what = What::Flush});
  EXPECT_EQ(answer().first, Outcome::NoWindow);
}

/// A slot is filled again when the copy out of it is done.
TEST_F(FarServerTest, PutsWaitForSlots) {
  work_.at_once = false;
  constexpr int kPuts = 20;
  for (int i = 0; i < kPuts; ++i)
    send({.what = What::Put, .window = kWindow}, std::string(kBytes, static_cast<char>('a' + i)));
  const size_t first = work_.items.size();
  EXPECT_LT(first, 2 * kPuts) << "there are fewer slots";
  for (int turn = 0; turn < kPuts && !work_.items.empty(); ++turn) {
    work_.run();
    progress();
  }
  EXPECT_EQ(part(), std::string(kBytes, 'a' + kPuts - 1));
}

}  // namespace
}  // namespace tutti::exec::gpu
