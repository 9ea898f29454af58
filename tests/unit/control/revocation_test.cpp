// Whom a process tells of a revocation, in which order, and that it passes on what it hears.
#include "control/revocation.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <thread>

#include "base/socket.hpp"
#include "control/acceptor.hpp"
#include "control/describe.hpp"
#include "rendezvous_peer.hpp"

namespace tutti::control {
namespace {

Member member(const char* host, uint32_t process) {
  Member made;
  made.host = host;
  made.process = process;
  made.nonce = process;
  return made;
}

TEST(ProcessesToTell, AreAllOthersWithAllTheirRanks) {
  const std::vector<Member> members = {member("a", 1), member("a", 2), member("b", 1), member("a", 2), member("b", 3)};
  const auto ranks_told_by = [&](const Member& me) {
    std::vector<std::vector<Rank>> ranks;
    for (const ToTell& to : processes_to_tell(members, me)) ranks.push_back(to.ranks);
    std::sort(ranks.begin(), ranks.end());
    return ranks;
  };
  using Ranks = std::vector<std::vector<Rank>>;
  EXPECT_EQ(ranks_told_by(member("a", 2)), (Ranks{{0}, {2}, {4}}));
  EXPECT_EQ(ranks_told_by(member("a", 1)), (Ranks{{1, 3}, {2}, {4}}));
  EXPECT_TRUE(processes_to_tell({}, member("a", 1)).empty());
  for (const ToTell& to : processes_to_tell(members, member("a", 1))) {
    for (const Rank rank : to.ranks) EXPECT_TRUE(same_process(to.process, members[static_cast<size_t>(rank)]));
  }
}

/// How many turns it takes until all know, if each that knows tells one other a turn.
size_t turns_until_all_know(size_t processes) {
  std::vector<Member> members;
  for (size_t p = 0; p < processes; ++p) members.push_back(member("a", static_cast<uint32_t>(p)));
  std::vector<std::vector<ToTell>> orders;
  for (const Member& me : members) orders.push_back(processes_to_tell(members, me));
  std::vector<size_t> told(processes, 0);  // by each
  std::vector<bool> knows(processes, false);
  knows[0] = true;
  size_t turns = 0;
  for (; std::count(knows.begin(), knows.end(), false) > 0; ++turns) {
    const std::vector<bool> before = knows;
    for (size_t p = 0; p < processes; ++p) {
      if (before[p] && told[p] < orders[p].size()) knows[orders[p][told[p]++].process.process] = true;
    }
  }
  return turns;
}

TEST(ProcessesToTell, ComeInAnOrderInWhichAllKnowSoon) {
  EXPECT_EQ(turns_until_all_know(2), 1U);
  for (size_t processes = 4, log = 2; processes <= 256; processes *= 2, ++log) {
    EXPECT_LE(turns_until_all_know(processes), 2 * log + 3) << processes;
    EXPECT_LE(turns_until_all_know(processes - 1), 2 * log + 3) << processes - 1;
  }
}

/// The process of a rank, as far as others connect to it: the first message that one sends.
class Listener final : public ConnectionHandler {
 public:
  explicit Listener(const Key& key)
      : key_(key),
        acceptor_(loop_, [this](const std::string&) { return handler(); }),
        thread_([this] { loop_.run(); }) {
    loop_.post([this] { acceptor_.open(tcp_.get()); });
  }
  ~Listener() override {
    loop_.stop();
    thread_.join();
  }
  const Key& key() const override { return key_; }
  uint16_t port() const { return port_of(tcp_.get()); }
  /// Empty: none comes.
  std::string first() {
    auto first = first_.get_future();
    return first.wait_for(std::chrono::seconds(20)) == std::future_status::ready ? first.get() : "";
  }
  void on_connection(Fd& fd, std::string_view first) override {
    first_.set_value(std::string(first));
    send_now(fd.get(), pack(Accepted{}));
  }

 private:
  std::shared_ptr<ConnectionHandler> handler() {
    return {this, [](ConnectionHandler*) {}};
  }

  const Key key_;
  const Fd tcp_ = listen_tcp(0);
  std::promise<std::string> first_;
  EventLoop loop_;
  Acceptor acceptor_;
  std::thread thread_;
};

/// Rank 0 is this process's; ranks 1 and 2 are connections, and rank 2 listens.
class PassingOn : public testing::Test {
 protected:
  PassingOn() {
    auto joining = std::async(std::launch::async, [&] { return Endpoint::join(id_, 3, 0, "", soon()); });
    for (Rank rank = 1; rank <= 2; ++rank) {
      Register request = registration(3, rank);
      request.me.host = fmt::format("host of rank {}", rank);
      request.me.nonce = static_cast<uint64_t>(rank);
      request.me.addresses = {Address::loopback()};
      request.me.port = rank == 2 ? listener_.port() : uint16_t{1};
      Fd& fd = peers_.emplace_back(connect(id_));
      send_all(fd.get(), pack(request), wait_limit());
    }
    endpoint_ = joining.get();
  }
  ~PassingOn() override { endpoint_->drop(Code::Aborted, "the test is over", 0); }

  const UniqueId id_ = create_unique_id();
  Listener listener_{id_.key};
  std::vector<Fd> peers_;
  std::unique_ptr<Endpoint> endpoint_;
};

TEST_F(PassingOn, WhatAPeerTells) {
  call<Accepted>(connect(id_).get(), Fail{Code::Revoked, "rank 1 revoked the communicator"}, wait_limit());
  EXPECT_EQ(endpoint_->failed(), static_cast<uint32_t>(Code::Revoked));
  EXPECT_EQ(endpoint_->failure()->second, "rank 1 revoked the communicator");
  const std::string first = listener_.first();
  ASSERT_FALSE(first.empty()) << "nobody tells rank 2";
  const auto passed_on = unpack<Fail>(first);
  EXPECT_EQ(passed_on.code, Code::Revoked);
  EXPECT_EQ(passed_on.text, "rank 1 revoked the communicator");
}

TEST_F(PassingOn, IsOfRevocationsOnly) {
  EXPECT_ERROR(call<Accepted>(connect(id_).get(), Fail{Code::PeerFailed, "rank 2 is gone"}, wait_limit()),
               Code::ProtocolError, "no revocation");
  EXPECT_EQ(endpoint_->failed(), 0U);
}

}  // namespace
}  // namespace tutti::control
