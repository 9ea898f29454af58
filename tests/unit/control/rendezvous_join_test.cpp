// What ranks that wait for the others receive when one of these withdraws, is refused, is lost or not reached.
#include <gtest/gtest.h>

#include <future>

#include "rendezvous_peer.hpp"

namespace tutti::control {
namespace {

/// What an Endpoint that is rank 0 of two receives while it waits.
std::string join_error(const UniqueId& id) {
  try {
    const auto endpoint = Endpoint::join(id, 2, 0, "", soon());
    endpoint->exchange("", soon());  // a rank may be lost right after all have registered
  } catch (const Error& error) {
    return error.what();
  }
  return "joined";
}

TEST(RendezvousJoin, AWithdrawalEndsTheOthersWaitWithItsReason) {
  const UniqueId id = create_unique_id();
  auto waiting = std::async(std::launch::async, join_error, id);
  withdraw(id, {2, 1, Code::SystemError, "rank 1 has no room"});
  const std::string text = waiting.get();
  EXPECT_TRUE(contains(text, "rank 1 has no room")) << text;
  EXPECT_TRUE(contains(join_error(id), "rank 1 has no room")) << "later ranks receive it too";
}

TEST(RendezvousJoin, ARefusedRankEndsTheOthersWait) {
  const UniqueId id = create_unique_id();
  auto waiting = std::async(std::launch::async, [&] { return join_error(id); });
  // Refused once rank 0, which decides the number of ranks, has registered.
  EXPECT_THROW(Endpoint::join(id, 3, 1, "", soon()), Error);
  const std::string text = waiting.get();
  EXPECT_TRUE(contains(text, "3 ranks, the others that there are 2")) << text;
}

TEST(RendezvousJoin, AnEarlyDisconnectCountsOnceTheNumberOfRanksIsDecided) {
  const UniqueId id = create_unique_id();
  {
    const Fd fd = connect(id);
    send_all(fd.get(), pack(registration(2, 1)), wait_limit());
  }
  const std::string text = join_error(id);
  EXPECT_TRUE(contains(text, "rank 1 (process 1 on")) << text;
}

TEST(RendezvousJoin, ALoopbackAddressOfAnotherHostIsExplained) {
  UniqueId id = create_unique_id();
  UniqueId elsewhere = id;
  elsewhere.host = 1;
  elsewhere.addresses = {Address::loopback()};
  const Fd listener = listen_tcp(0);
  elsewhere.port = port_of(listener.get());
  elsewhere.key = random_key();
  try {
    Endpoint::join(elsewhere, 2, 1, "", Deadline::in(0.2));
    FAIL();
  } catch (const Error& error) {
    EXPECT_TRUE(contains(error.what(), "only its loopback address")) << error.what();
    EXPECT_TRUE(contains(error.what(), "TUTTI_INTERFACE")) << error.what();
    EXPECT_FALSE(contains(error.what(), "process has ended")) << error.what();
  }
  release_unique_id(id);
}

}  // namespace
}  // namespace tutti::control
