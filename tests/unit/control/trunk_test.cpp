// Trunks: channels to the rendezvous servers of splits, and peers that know the key and violate the protocol.
#include "control/trunk.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <thread>
#include <utility>

#include "endpoint_ranks.hpp"
#include "rendezvous_peer.hpp"

namespace tutti::control {
namespace {

size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

/// Once their number has been the same for 50 ms: where two ranks dial a process at the same time, the control threads
/// close the connection that is not used, and may do so after join() has returned.
size_t descriptors() {
  size_t count = open_descriptors();
  for (int unchanged = 0; unchanged < 50; ++unchanged) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (const size_t now = open_descriptors(); now != std::exchange(count, now)) unchanged = 0;
  }
  return count;
}

Endpoints split_all(const Endpoints& parents, Rank leader, const std::string& purpose) {
  Endpoints parts(parents.size());
  on_all(static_cast<Rank>(parents.size()), [&](Rank r) {
    const Endpoint& parent = *parents[static_cast<size_t>(r)];
    JoinTerms terms;
    terms.parent = &parent;
    terms.leader = leader;
    parts[static_cast<size_t>(r)] =
        Endpoint::join(parent.split_id(leader, purpose), parent.ranks(), r, "", soon(), terms);
  });
  return parts;
}

/// Not the last of this process, which leave_all() expects.
void leave_early(const Endpoints& endpoints) {
  for (const auto& endpoint : endpoints) EXPECT_EQ(endpoint->leave(1, soon()).mismatch, "");
}

TEST(Trunk, ManySplitsNeedNoDescriptors) {
  constexpr Rank n = 3;
  Endpoints parents = join_all(create_unique_id(), n);
  std::vector<Endpoints> splits;
  splits.push_back(split_all(parents, 1, "first"));
  const size_t before = descriptors();
  for (int i = 0; i < 20; ++i) splits.push_back(split_all(parents, static_cast<Rank>(i % n), std::to_string(i)));
  EXPECT_EQ(descriptors(), before);
  for (Endpoints& split : splits) {
    on_all(n, [&](Rank r) {
      const auto all = split[static_cast<size_t>(r)]->exchange(std::to_string(r), soon());
      EXPECT_EQ(all, (std::vector<std::string>{"0", "1", "2"}));
    });
    leave_early(split);
  }
  leave_all(parents);
}

TEST(Trunk, SplitsOfSplitsUseTheSameAndOutliveTheirParents) {
  Endpoints parents = join_all(create_unique_id(), 2), children = split_all(parents, 0, "child");
  const size_t before = descriptors();
  Endpoints grandchildren = split_all(children, 1, "grandchild");
  EXPECT_EQ(descriptors(), before);
  leave_early(parents);
  parents.clear();
  leave_early(children);
  children.clear();
  Endpoints again = split_all(grandchildren, 0, "again");
  on_all(2, [&](Rank r) { EXPECT_EQ(again[static_cast<size_t>(r)]->exchange("x", soon()).size(), 2u); });
  leave_early(again);
  leave_all(grandchildren);
}

/// Rank 0 of a communicator of one, and a peer that has opened a trunk to it.
struct Stranger {
  UniqueId id = create_unique_id();
  std::unique_ptr<Endpoint> endpoint = Endpoint::join(id, 1, 0, "", soon());
  Fd trunk = connect(id);

  Stranger() { call<Accepted>(trunk.get(), OpenTrunk{}, wait_limit()); }
  ~Stranger() {
    trunk.reset();
    endpoint->leave(0, soon());
  }
  void send(const std::string& frame) const { send_all(trunk.get(), frame, wait_limit()); }
  std::string receive() const { return receive_frame(trunk.get(), kMaxFromServer, wait_limit()); }
  bool is_closed() const {
    try {
      for (;;) receive();
    } catch (const Error& error) {
      return error.code() == Code::PeerFailed;
    }
  }
  /// The text with which a channel is refused.
  std::string refusal() const {
    const std::string body = receive();
    EXPECT_EQ(kind_of(body), Kind::Carried);
    EXPECT_EQ(kind_of(receive()), Kind::CloseChannel);
    return unpack<Refused>(body.substr(Carried::kBodyBytes)).text;
  }
};

std::string carried(uint64_t channel, const std::string& frame) {
  std::string head = pack(Carried{channel});
  set_frame_length(head, head.size() + frame.size() - kFrameLengthBytes);
  return head + frame.substr(kFrameLengthBytes);
}

TEST(Trunk, ChannelsThatMayNotBeOpenedAreRefusedAlone) {
  const Stranger stranger;
  const UniqueId other = create_unique_id();
  const std::string registers = pack_body(registration(2, 1));
  stranger.send(pack(OpenChannel{1, stranger.id.name(), registers}));
  EXPECT_TRUE(contains(stranger.refusal(), "another job's")) << "its server is no split's";
  stranger.send(pack(OpenChannel{2, other.name(), registers}));
  EXPECT_TRUE(contains(stranger.refusal(), "another job's")) << "names are public, keys are not";
  stranger.send(pack(OpenChannel{3, "a split", pack_body(Ping{})}));
  EXPECT_TRUE(contains(stranger.refusal(), "a channel began with"));
  stranger.send(pack(OpenChannel{4, "a split", ""}));
  EXPECT_TRUE(contains(stranger.refusal(), "empty control message"));
  stranger.send(pack(OpenChannel{5, "a split", registers.substr(0, 20)}));
  EXPECT_TRUE(contains(stranger.refusal(), "ends early"));
  stranger.send(pack(OpenChannel{6, "a split", pack_body(registration(0, 0))}));
  EXPECT_TRUE(contains(stranger.refusal(), "rank 0 of 0"));
  release_unique_id(other);
}

/// Splits whose ranks are not complete, each held by one message of a peer: 256, and one for each rank of this process.
TEST(Trunk, IncompleteSplitsOfPeersAreFew) {
  constexpr uint64_t kMax = 257;
  const Stranger stranger;
  for (uint64_t i = 1; i <= kMax; ++i)
    stranger.send(pack(OpenChannel{i, "split " + std::to_string(i), pack_body(registration(2, 1))}));
  for (uint64_t i = 1; i <= kMax; ++i) ASSERT_EQ(kind_of(stranger.receive()), Kind::Carried) << i;
  stranger.send(pack(OpenChannel{kMax + 1, "one more", pack_body(registration(2, 1))}));
  EXPECT_TRUE(contains(stranger.refusal(), "257 splits wait for ranks"));
  stranger.send(pack(CloseChannel{7}));
  EXPECT_EQ(kind_of(stranger.receive()), Kind::CloseChannel);
  stranger.send(pack(OpenChannel{kMax + 2, "instead", pack_body(registration(2, 1))}));
  const std::string welcome = stranger.receive();
  EXPECT_EQ(kind_of(welcome.substr(Carried::kBodyBytes)), Kind::Welcome);
}

/// A process may lead as many splits at a time as it has ranks.
TEST(Trunk, AProcessOfManyRanksLeadsManySplits) {
  constexpr Rank n = 300;
  Endpoints parents = join_all(create_unique_id(), n), parts(n);
  on_all(n, [&](Rank r) {
    JoinTerms terms;
    terms.parent = parents[static_cast<size_t>(r)].get();
    terms.leader = r / 2 * 2;
    const UniqueId id = terms.parent->split_id(terms.leader, std::to_string(r / 2));
    parts[static_cast<size_t>(r)] = Endpoint::join(id, 2, r % 2, "", soon(), terms);
  });
  leave_early(parts);
  leave_all(parents);
}

TEST(Trunk, AnInvalidMessageEndsItsChannelAlone) {
  const Stranger stranger;
  stranger.send(pack(OpenChannel{1, "a split", pack_body(registration(2, 1))}));
  EXPECT_EQ(kind_of(stranger.receive()), Kind::Carried);  // Welcome
  stranger.send(carried(7, pack(Ping{})));                // no such channel (any more)
  stranger.send(pack(CloseChannel{7}));
  stranger.send(carried(1, pack(Ping{})));
  stranger.send(carried(1, pack(Report{0})));
  EXPECT_EQ(kind_of(stranger.receive()), Kind::CloseChannel);
  stranger.send(pack(OpenChannel{2, "a split", pack_body(registration(2, 1))}));
  EXPECT_EQ(kind_of(stranger.receive()), Kind::Carried) << "the trunk is as it was";
  stranger.send(pack(CloseChannel{2}));
}

TEST(Trunk, InvalidMessagesCloseIt) {
  const std::string ping = pack_body(Ping{});
  const std::string no_number = std::string("\1\0\0\0", 4) + static_cast<char>(Kind::Carried);
  for (const std::string& frame : {pack(Report{0}), pack(OpenChannel{0, "a split", ping}), std::string(4, '\0'),
                                   no_number, std::string("\xff\xff\xff\x7f")}) {
    const Stranger stranger;
    stranger.send(frame);
    EXPECT_TRUE(stranger.is_closed());
  }
  const Stranger stranger;
  stranger.send(pack(OpenChannel{1, "a split", ping}));
  stranger.send(pack(OpenChannel{1, "a split", ping}));
  EXPECT_TRUE(stranger.is_closed()) << "a number is used once";
}

}  // namespace
}  // namespace tutti::control
